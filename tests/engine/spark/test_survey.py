"""What the first scan concludes from sizes alone."""

from __future__ import annotations

from sfumato.engine.spark.source import CROWDED
from sfumato.engine.spark.survey import Survey


def test_many_rows_are_not_one_busy_user() -> None:
    """A year of a nation: every bucket is large. One device on top of it shows."""
    rows = 70_000_000_000
    even = rows // 4096 + 400_000  # buckets differ a little
    assert even > CROWDED
    assert Survey(rows, {}, even, ()).excess < CROWDED
    assert Survey(rows, {}, even + 10_000_000, ()).excess > CROWDED
    assert Survey(9_000_000, {}, 9_000_000, ()).excess > CROWDED
