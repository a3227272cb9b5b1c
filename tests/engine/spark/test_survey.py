"""What is concluded from sizes alone."""

from __future__ import annotations

from sfumato.engine.spark.source import CROWDED, MOST_TASKS, ROWS_PER_TASK, excess, tasks_for


def test_many_rows_are_not_one_busy_user() -> None:
    """A year of a nation, by a sample: every bucket is large. One device on top of it shows."""
    share = 1e-3
    even = [17_000] * 4095
    assert even[0] / share > CROWDED
    assert excess([*even, 17_400], share) < CROWDED
    assert excess([*even, 27_400], share) > CROWDED
    assert excess([9_000_000], 1.0) > CROWDED
    assert excess([], 1.0) == 0


def test_tasks_follow_the_rows_until_there_are_very_many() -> None:
    asked = [0, ROWS_PER_TASK * 3, ROWS_PER_TASK * 3 + 1, 70_000_000_000]
    assert [tasks_for(rows, ROWS_PER_TASK) for rows in asked] == [2, 3, 4, MOST_TASKS]
