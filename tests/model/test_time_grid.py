"""Slots are ranges of instants, cut at local midnights, whatever the clocks do."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid, parse_step, zone


def micro(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def at(*fields: int, tz: str, fold: int = 0) -> int:
    return micro(datetime(*fields, tzinfo=ZoneInfo(tz), fold=fold))


def slot(grid: TimeGrid, instant: int) -> int:
    return int(grid.slot_of(np.array([instant]))[0])


def lengths(grid: TimeGrid) -> list[float]:
    """Hours of each slot."""
    return (np.diff(grid.edges) / 3.6e9).tolist()


def test_an_ordinary_week_has_168_hours() -> None:
    grid = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "Europe/Paris")
    assert grid.slots == 168
    assert slot(grid, at(2007, 9, 10, 0, 0, tz="Europe/Paris")) == 0
    assert slot(grid, at(2007, 9, 16, 23, 59, 59, tz="Europe/Paris")) == 167
    assert slot(grid, at(2007, 9, 17, 0, 0, tz="Europe/Paris")) == -1
    assert slot(grid, at(2007, 9, 10, 0, 0, tz="Europe/Paris") - 1) == -1
    assert grid.starts()[1].isoformat() == "2007-09-10T01:00:00+02:00"
    assert grid.ends()[-1] == datetime(2007, 9, 17, tzinfo=ZoneInfo("Europe/Paris"))


def test_a_week_that_springs_forward_has_167_hours() -> None:
    grid = TimeGrid.between(date(2021, 3, 22), date(2021, 3, 29), "1h", "Europe/Paris")
    assert grid.slots == 167
    before = slot(grid, at(2021, 3, 28, 1, 59, tz="Europe/Paris"))
    after = slot(grid, at(2021, 3, 28, 3, 0, tz="Europe/Paris"))
    assert (before, after) == (145, 146)
    assert [start.hour for start in grid.starts()[144:148]] == [0, 1, 3, 4]


def test_a_week_that_falls_back_has_169_hours_and_two_of_them_read_two_o_clock() -> None:
    grid = TimeGrid.between(date(2021, 10, 25), date(2021, 11, 1), "1h", "Europe/Paris")
    assert grid.slots == 169
    first = slot(grid, at(2021, 10, 31, 2, 30, tz="Europe/Paris", fold=0))
    second = slot(grid, at(2021, 10, 31, 2, 30, tz="Europe/Paris", fold=1))
    assert (first, second) == (146, 147)
    assert {grid.starts()[k].hour for k in (146, 147)} == {2}


@pytest.mark.parametrize(
    ("tz", "day", "hours", "first_hour"),
    [
        ("America/Sao_Paulo", date(2018, 11, 4), 23, 1),  # 00:00 jumps to 01:00
        ("America/Sao_Paulo", date(2018, 2, 17), 25, 0),  # 24:00 falls back to 23:00
        ("Asia/Beirut", date(2021, 3, 28), 23, 1),
        ("America/Havana", date(2021, 11, 7), 25, 0),  # 01:00 falls back to 00:00
        ("America/St_Johns", date(2010, 11, 7), 25, 0),  # 00:01 falls back to 23:01
        ("Asia/Kathmandu", date(2021, 6, 1), 24, 0),
    ],
)
def test_days_around_a_strange_midnight(tz: str, day: date, hours: int, first_hour: int) -> None:
    grid = TimeGrid.between(day, day + timedelta(days=1), "1h", tz)
    assert grid.slots == hours
    assert grid.starts()[0].date() == day
    assert grid.starts()[0].hour == first_hour
    neighbours = TimeGrid.between(day - timedelta(days=1), day + timedelta(days=2), "1d", tz)
    assert neighbours.slots == 3
    assert neighbours.edges[1] == grid.edges[0]
    assert neighbours.edges[2] == grid.edges[-1]


def test_half_hour_clock_changes_leave_a_half_hour_at_the_end_of_the_day() -> None:
    back = TimeGrid.between(date(2021, 4, 4), date(2021, 4, 5), "1h", "Australia/Lord_Howe")
    assert lengths(back) == [1.0] * 24 + [0.5]
    forward = TimeGrid.between(date(2021, 10, 3), date(2021, 10, 4), "1h", "Australia/Lord_Howe")
    assert lengths(forward) == [1.0] * 23 + [0.5]


def test_a_day_that_the_date_line_skipped_has_no_slots() -> None:
    """Samoa had no 30 December 2011."""
    hours = TimeGrid.between(date(2011, 12, 29), date(2012, 1, 1), "1h", "Pacific/Apia")
    assert hours.slots == 48
    days = TimeGrid.between(date(2011, 12, 29), date(2012, 1, 1), "1d", "Pacific/Apia")
    assert [start.day for start in days.starts()] == [29, 31]
    with pytest.raises(UsageError, match="between 1 and"):
        TimeGrid.between(date(2011, 12, 30), date(2011, 12, 31), "1d", "Pacific/Apia")


def test_quarters_days_and_weeks() -> None:
    tz = "Europe/Paris"
    assert TimeGrid.between(date(2021, 3, 28), date(2021, 3, 29), "15min", tz).slots == 92
    assert lengths(TimeGrid.between(date(2021, 3, 27), date(2021, 3, 30), "1d", tz)) == [24, 23, 24]
    assert lengths(TimeGrid.between(date(2021, 3, 22), date(2021, 4, 5), "1w", tz)) == [167, 168]
    # What does not fill a whole slot makes a shorter last one.
    assert lengths(TimeGrid.between(date(2021, 6, 1), date(2021, 6, 4), "2d", tz)) == [48, 24]
    assert lengths(TimeGrid.between(date(2021, 6, 1), date(2021, 6, 2), "7h", tz)) == [7, 7, 7, 3]


def test_steps_are_read() -> None:
    assert parse_step("15min") == parse_step(" 15 m ") == timedelta(minutes=15)
    assert parse_step("1H") == timedelta(hours=1)
    assert parse_step("2w") == timedelta(days=14)
    for bad in ("", "h", "0h", "-1h", "1.5h", "1 fortnight", "1h30", "9999999s"):
        with pytest.raises(UsageError, match="not a slot length"):
            parse_step(bad)


def test_zones_are_named() -> None:
    assert zone("UTC").key == "UTC"
    for bad in ("Paris", "", "../etc/passwd", "Europe", "/etc/localtime", "Europe/Atlantis"):
        with pytest.raises(UsageError, match="not a known time zone"):
            zone(bad)


@pytest.mark.parametrize(
    ("start", "end", "step", "match"),
    [
        (date(2021, 1, 2), date(2021, 1, 2), "1h", "empty"),
        (date(2021, 1, 2), date(2021, 1, 1), "1h", "empty"),
        (date(2021, 1, 1), date(2021, 1, 8), "36h", "whole number of days"),
        (date(1990, 1, 1), date(2021, 1, 1), "1s", "more than"),
        (date(1960, 1, 1), date(2023, 1, 1), "900s", "between 1 and"),
        (datetime(2021, 1, 1, 7), date(2021, 1, 8), "1h", "local midnights"),
        (date(2021, 1, 1), date(2021, 1, 8), timedelta(milliseconds=1500), "whole number of sec"),
        (date(2021, 1, 1), date(2021, 1, 8), timedelta(0), "at least one"),
        (date.min, date(1, 1, 3), "1h", "years that clocks know"),
    ],
)
def test_periods_that_make_no_sense(start: date, end: date, step: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        TimeGrid.between(start, end, step, "Asia/Tokyo")


def test_edges_must_increase_and_stay_as_they_are() -> None:
    hour = timedelta(hours=1)
    with pytest.raises(UsageError, match="increase"):
        TimeGrid(np.array([0, 10, 10]), hour, "UTC")
    with pytest.raises(UsageError, match="between 1 and"):
        TimeGrid(np.array([0]), hour, "UTC")
    mine = np.array([0, 10, 20])
    grid = TimeGrid(mine, hour, "UTC")
    mine[0] = 5
    assert grid.edges[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        grid.edges[0] = 5


def test_the_fingerprint_tells_grids_apart() -> None:
    week = (date(2021, 6, 7), date(2021, 6, 14))
    same = [TimeGrid.between(*week, step, "Europe/Paris") for step in ("1h", "60min")]
    assert same[0].fingerprint() == same[1].fingerprint()
    others = [
        TimeGrid.between(*week, "2h", "Europe/Paris"),
        TimeGrid.between(*week, "1h", "Europe/Berlin"),  # the same instants, other labels
        TimeGrid.between(week[0], date(2021, 6, 13), "1h", "Europe/Paris"),
    ]
    assert len({grid.fingerprint() for grid in (same[0], *others)}) == 4


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    tz=st.sampled_from(
        ["UTC", "Europe/Paris", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Beirut"]
    ),
    day=st.dates(date(1975, 1, 1), date(2030, 1, 1)),
    days=st.integers(1, 9),
    step=st.sampled_from(["15min", "1h", "6h", "1d", "1w"]),
    offset=st.integers(0, 10**15),
)
def test_every_instant_of_the_period_falls_in_the_slot_that_holds_it(
    tz: str, day: date, days: int, step: str, offset: int
) -> None:
    grid = TimeGrid.between(day, day + timedelta(days=days), step, tz)
    instant = int(grid.edges[0] + offset % (grid.edges[-1] - grid.edges[0]))
    k = slot(grid, instant)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)
    assert grid.starts()[k] <= moment < grid.ends()[k]
    local = moment.astimezone(ZoneInfo(tz)).date()
    assert day <= local < day + timedelta(days=days)


def test_ten_years_of_five_minutes_are_a_period() -> None:
    """What an endless stream is planned for."""
    grid = TimeGrid.between(date(2024, 1, 1), date(2034, 1, 1), "5min", "Europe/Paris")
    assert grid.slots == 3653 * 288
    assert grid.start(0).isoformat() == "2024-01-01T00:00:00+01:00"
    assert grid.end(-1).isoformat() == "2034-01-01T00:00:00+01:00"
