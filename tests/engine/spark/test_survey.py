"""What the first scan concludes from sizes alone."""

from __future__ import annotations

from sfumato.engine.spark.source import CROWDED, MOST_TASKS, ROWS_PER_TASK, tasks_for
from sfumato.engine.spark.survey import Survey


def test_many_rows_are_not_one_busy_user() -> None:
    """A year of a nation: every bucket is large. One device on top of it shows."""
    rows = 70_000_000_000
    even = rows // 4096 + 400_000  # buckets differ a little
    assert even > CROWDED
    assert Survey(rows, {}, even, ()).excess < CROWDED
    assert Survey(rows, {}, even + 10_000_000, ()).excess > CROWDED
    assert Survey(9_000_000, {}, 9_000_000, ()).excess > CROWDED


def test_tasks_follow_the_rows_until_there_are_very_many() -> None:
    asked = [0, ROWS_PER_TASK * 3, ROWS_PER_TASK * 3 + 1, 70_000_000_000]
    assert [tasks_for(rows, ROWS_PER_TASK) for rows in asked] == [2, 3, 4, MOST_TASKS]
