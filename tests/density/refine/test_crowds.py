"""One-off crowds: their size follows the margins, the rest of the place stays as it was."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from sfumato.density.refine.special_hours import ordinary, temper_crowds
from sfumato.model.time_grid import HourCalendar

RNG = np.random.default_rng(8)


def calendar(days: int) -> HourCalendar:
    starts = [datetime(2024, 3, 4) + timedelta(hours=k) for k in range(24 * days)]
    return HourCalendar.of(starts, [s + timedelta(hours=1) for s in starts])


def quiet_week(days: int = 7) -> np.ndarray:
    day = 1.5 + np.sin(np.arange(24) / 24 * 2 * np.pi)
    table: np.ndarray = np.outer(RNG.uniform(80, 200, 30), np.tile(day, days))
    return table


def tempered(truth: np.ndarray, seen: np.ndarray, days: int = 7) -> np.ndarray:
    margins = [(truth.sum(axis=axis), 0.01 * truth.sum(axis=axis)) for axis in (1, 0)]
    return temper_crowds(
        seen, 0.05 * seen, margins[0], margins[1], calendar(days), lambda cells: 0.8 * cells[cells]
    ).table


def test_a_crowd_seen_too_large_is_brought_back_and_its_place_is_left_alone() -> None:
    truth = quiet_week()
    evening = slice(4 * 24 + 20, 4 * 24 + 23)
    seen = truth.copy()
    truth[11, evening] += 6_000
    seen[11, evening] += 6_000 * 1.17
    found = tempered(truth, seen)
    assert found[11, evening].sum() == pytest.approx(truth[11, evening].sum(), rel=0.02)
    untouched = np.ones(seen.shape, dtype=bool)
    untouched[11, evening] = False
    np.testing.assert_array_equal(found[untouched], seen[untouched])


def test_a_crowd_that_agrees_with_the_margins_stays() -> None:
    truth = quiet_week()
    truth[3, 70:73] += 5_000
    found = tempered(truth, truth)
    assert found[3, 70:73].sum() == pytest.approx(truth[3, 70:73].sum(), rel=0.03)


def test_an_ordinary_week_and_a_period_of_few_days_are_left_alone() -> None:
    week = quiet_week()
    np.testing.assert_array_equal(tempered(week, week), week)
    short = quiet_week(3)
    short[5, 30:33] += 5_000
    np.testing.assert_array_equal(tempered(short, short, days=3), short)


def test_ordinary_is_what_other_days_have_at_that_time() -> None:
    week = quiet_week()
    usual = ordinary(week, calendar(7))
    np.testing.assert_allclose(usual, week, rtol=1e-9)
    week[2, 50] += 3_000
    assert ordinary(week, calendar(7))[2, 50] < 1_000
