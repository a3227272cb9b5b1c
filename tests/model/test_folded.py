"""A period folded to a typical week or day: by the local wall clock, whatever clocks do."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.folded import folded_period
from sfumato.model.time_grid import TimeGrid, period_of

CASES = [
    ("2024-03-20", "2024-04-10", "1h", "Europe/Paris", "week"),  # set forward on 31 March
    ("2024-10-16", "2024-11-06", "6h", "Europe/Paris", "week"),  # set back on 27 October
    ("2024-04-01", "2024-04-15", "30min", "Australia/Lord_Howe", "week"),  # by half an hour
    ("2024-10-26", "2024-10-29", "1h", "Europe/Paris", "day"),
    ("2024-01-01", "2024-01-15", "1d", "Asia/Kathmandu", "week"),
]


@pytest.mark.parametrize(("start", "end", "slot", "tz", "fold"), CASES)
def test_an_instant_falls_where_the_wall_clock_says(
    start: str, end: str, slot: str, tz: str, fold: str
) -> None:
    grid = period_of(start, end, slot, tz, fold)
    days = {"week": 7, "day": 1}[fold]
    seconds = int(grid.step.total_seconds())
    rng = np.random.default_rng(3)
    first, after = grid.period
    assert (first, after) == TimeGrid.between(
        date.fromisoformat(start), date.fromisoformat(end), "1h", tz
    ).period
    instants = np.sort(rng.integers(first, after, 4000))
    expected = []
    for instant in instants.tolist():
        wall = datetime.fromtimestamp(instant // 1_000_000, UTC).astimezone(ZoneInfo(tz))
        day = (wall.date() - date.fromisoformat(start)).days % days
        expected.append((86_400 * day + 3600 * wall.hour + 60 * wall.minute + wall.second)
                        // seconds)  # fmt: skip
    assert grid.slot_of(instants).tolist() == expected
    assert grid.slots == days * 86_400 // seconds
    assert grid.slot_of(np.array([first - 1, after])).tolist() == [-1, -1]


def test_the_typical_week_has_no_change_of_the_clock() -> None:
    grid = folded_period(date(2024, 3, 25), date(2024, 4, 15), "1h", "Europe/Paris", "week")
    assert grid.slots == 168
    assert grid.repeats == 3
    assert grid.starts()[0].isoformat() == "2024-04-01T00:00:00+02:00"  # the second week
    assert (np.diff(grid.edges) == 3_600_000_000).all()
    # Its own instants fall where they lie: people made up in it are counted as they are.
    assert grid.slot_of(grid.edges[:-1]).tolist() == list(range(168))


def test_folding_is_part_of_what_a_grid_is() -> None:
    def made(end: str, fold: str | None = "week") -> TimeGrid:
        return period_of("2024-01-01", end, "1h", "UTC", fold)

    kinds = [made("2024-01-15"), made("2024-01-22"), made("2024-01-15", "day")]
    kinds += [made("2024-01-15", None), made("2024-01-08", None)]
    assert len({grid.fingerprint() for grid in kinds}) == len(kinds)
    assert made("2024-01-15").fingerprint() == made("2024-01-15").fingerprint()
    assert made("2024-01-15").fold == "week"
    assert made("2024-01-08", None).fold is None


@pytest.mark.parametrize(
    ("end", "slot", "fold", "problem"),
    [
        (date(2024, 1, 8), "1h", "week", "two or more whole weeks"),
        (date(2024, 1, 16), "1h", "week", "two or more whole weeks"),
        (date(2024, 1, 15), "7h", "week", "do not fill"),
        (date(2024, 1, 15), "2d", "week", "do not fill"),
        (date(2024, 1, 15), "1w", "day", "do not fill"),
        (date(2024, 1, 15), "1h", "month", "not folded to 'month'"),
    ],
)
def test_what_cannot_be_folded_is_refused(end: date, slot: str, fold: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        folded_period(date(2024, 1, 1), end, slot, "UTC", fold)
