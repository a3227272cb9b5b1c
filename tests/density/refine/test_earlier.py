"""What earlier releases say of the next period."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from sfumato.density.refine.margins import LARGEST, EarlierTable, expected_pattern, pattern_digest
from sfumato.model.time_grid import HourCalendar


def calendar(first: datetime, slots: int) -> HourCalendar:
    starts = [first + timedelta(hours=k) for k in range(slots)]
    return HourCalendar.of(starts, [s + timedelta(hours=1) for s in starts])


MONDAY = datetime(2024, 3, 4)
RNG = np.random.default_rng(2)


def level(table: np.ndarray) -> np.ndarray:
    result: np.ndarray = table / table.mean()
    return result


def test_a_week_is_carried_to_the_same_weekday_and_hour() -> None:
    week = RNG.uniform(10, 100, (5, 168))
    earlier = EarlierTable(week, calendar(MONDAY, 168))
    wednesday = expected_pattern([earlier], calendar(MONDAY + timedelta(days=9), 24))
    np.testing.assert_allclose(wednesday, level(week[:, 48:72]))


def test_two_weeks_are_averaged() -> None:
    one, two = RNG.uniform(10, 100, (2, 5, 168))
    tables = [EarlierTable(table, calendar(MONDAY, 168)) for table in (one, two)]
    found = expected_pattern(tables, calendar(MONDAY + timedelta(days=14), 168))
    np.testing.assert_allclose(found, level(level(one) + level(two)))


def test_a_weekday_never_seen_takes_its_kind_of_day_or_its_hour() -> None:
    monday = RNG.uniform(10, 100, (5, 24))
    earlier = EarlierTable(monday, calendar(MONDAY, 24))
    tuesday = expected_pattern([earlier], calendar(MONDAY + timedelta(days=1), 24))
    sunday = expected_pattern([earlier], calendar(MONDAY + timedelta(days=6), 24))
    np.testing.assert_allclose(tuesday, level(monday))
    np.testing.assert_allclose(sunday, level(monday))


def test_cells_stay_within_reason() -> None:
    week = np.full((40, 168), 1.0)
    week[0, 5] = 0.0
    week[1, 7] = 1e3
    found = expected_pattern([EarlierTable(week, calendar(MONDAY, 168))], calendar(MONDAY, 168))
    product = np.outer(found.mean(axis=1), found.mean(axis=0))
    assert found[0, 5] > 0.02 * product[0, 5] > 0
    assert found[1, 7] < 1.5 * LARGEST * product[1, 7]


def test_the_digest_tells_patterns_apart() -> None:
    one = np.ones((2, 3))
    assert pattern_digest(one) == pattern_digest(one.copy())
    assert pattern_digest(one) != pattern_digest(one * 1.1)


@pytest.mark.parametrize("slots", [1, 24])
def test_any_length(slots: int) -> None:
    table = EarlierTable(np.ones((3, slots)), calendar(MONDAY, slots))
    assert expected_pattern([table], calendar(MONDAY, 50)).shape == (3, 50)
