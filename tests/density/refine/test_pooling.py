"""Nights pooled over like days."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from sfumato.density.refine.special_hours import pool_nights
from sfumato.model.time_grid import HourCalendar

STARTS = [datetime(2024, 3, 4) + timedelta(hours=k) for k in range(168)]
WEEK = HourCalendar.of(STARTS, [s + timedelta(hours=1) for s in STARTS])


def test_noisy_nights_come_closer_to_the_truth_and_days_stay() -> None:
    rng = np.random.default_rng(1)
    truth = np.outer(rng.uniform(5, 50, 20), 1.2 + np.sin(WEEK.hour / 24 * 2 * np.pi - 2))
    noisy = np.maximum(truth + rng.normal(0, 5, truth.shape), 0.0)
    found = pool_nights(noisy, WEEK)
    night = WEEK.hour < 7
    assert np.abs(found - truth)[:, night].mean() < 0.7 * np.abs(noisy - truth)[:, night].mean()
    np.testing.assert_array_equal(found[:, ~night], noisy[:, ~night])
    np.testing.assert_allclose(found.sum(axis=0), noisy.sum(axis=0))


def test_nights_that_are_all_alike_do_not_move() -> None:
    table = np.outer([1.0, 2.0, 3.0], np.ones(168))
    np.testing.assert_allclose(pool_nights(table, WEEK), table)


def test_a_single_slot_and_empty_nights_are_left_alone() -> None:
    one = HourCalendar.of(STARTS[:1], STARTS[1:2])
    np.testing.assert_allclose(pool_nights(np.array([[3.0], [1.0]]), one), [[3.0], [1.0]])
    empty = np.zeros((2, 168))
    np.testing.assert_array_equal(pool_nights(empty, WEEK), empty)
