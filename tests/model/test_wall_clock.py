"""Readings of wall clocks against the standard library, above all where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.model.time_grid import apply_offsets, clock_offsets

ZONES = ["UTC", "Europe/Paris", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe",
         "Pacific/Apia", "America/Los_Angeles"]  # fmt: skip
EPOCH = datetime(1970, 1, 1)


def micros(reading: datetime) -> int:
    return (reading - EPOCH) // timedelta(microseconds=1)


def instants_of(readings: np.ndarray, tz: str) -> np.ndarray:
    table = clock_offsets(tz, int(readings.min()), int(readings.max()))
    return apply_offsets(readings, *table)


def python_instant(reading: datetime, tz: str) -> int:
    aware = reading.replace(tzinfo=ZoneInfo(tz), fold=0)
    return micros(aware.astimezone(UTC).replace(tzinfo=None))


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    st.integers(-3 * 3600, 3 * 3600),
    st.sampled_from(ZONES),
)
def test_every_reading_is_the_first_instant_the_clock_shows_it(
    start: datetime, shift: int, tz: str
) -> None:
    readings = [start + timedelta(seconds=shift), start]
    found = instants_of(np.array([micros(r) for r in readings]), tz)
    assert found.tolist() == [python_instant(r, tz) for r in readings]


@pytest.mark.parametrize(
    ("reading", "utc"),
    [
        (datetime(2020, 3, 29, 1, 59, 59), datetime(2020, 3, 29, 0, 59, 59)),
        (datetime(2020, 3, 29, 2, 30), datetime(2020, 3, 29, 1, 30)),  # skipped
        (datetime(2020, 3, 29, 3, 0), datetime(2020, 3, 29, 1, 0)),
        (datetime(2020, 10, 25, 2, 30), datetime(2020, 10, 25, 0, 30)),  # repeated: the first
        (datetime(2020, 10, 25, 3, 0), datetime(2020, 10, 25, 2, 0)),
    ],
)
def test_clock_changes_in_paris(reading: datetime, utc: datetime) -> None:
    assert instants_of(np.array([micros(reading)]), "Europe/Paris").tolist() == [micros(utc)]


def test_the_skipped_day_of_samoa_is_found() -> None:
    breaks, offsets = clock_offsets(
        "Pacific/Apia", micros(datetime(2011, 12, 29)), micros(datetime(2012, 1, 2))
    )
    assert breaks.size == 1
    assert offsets[1] - offsets[0] == 86_400_000_000


def test_the_ends_of_the_calendar_do_not_overflow() -> None:
    for far in (micros(datetime(9999, 12, 31)), micros(datetime(1, 1, 1))):
        assert clock_offsets("UTC", far, far)[0].size == 0


def test_an_unknown_zone_says_how_zones_are_written() -> None:
    with pytest.raises(UsageError, match="Europe/Paris"):
        clock_offsets("Paris, France", 0, 1)
