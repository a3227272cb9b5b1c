"""The calendar, its rhythms, the temporal filter and the margins on weeks made by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from sfumato.density.refine.margins import rake, ratios
from sfumato.density.refine.spatial import SpatialFilter
from sfumato.density.refine.temporal import kernels, rhythm_basis, wiener
from sfumato.model.time_grid import HourCalendar


def calendar(slots: int, minutes: int) -> HourCalendar:
    starts = [datetime(2007, 9, 10) + timedelta(minutes=minutes * k) for k in range(slots)]
    return HourCalendar.of(starts, [s + timedelta(minutes=minutes) for s in starts])


WEEK = calendar(168, 60)


def test_the_calendar_of_a_week() -> None:
    assert WEEK.hour[:3].tolist() == [0.5, 1.5, 2.5]
    assert WEEK.weekend.sum() == 48
    assert WEEK.slots_per_day == 24
    groups = WEEK.same_time_of_day
    assert len(set(groups.tolist())) == 48
    assert groups[9] == groups[33] != groups[5 * 24 + 9]


@pytest.mark.parametrize(
    ("slots", "minutes", "columns"),
    [(168, 60, 19), (7, 1440, 3), (1, 1440, 0), (24, 60, 8), (672, 15, 19), (28, 360, 7)],
)
def test_the_basis_is_orthonormal_and_drops_what_the_period_lacks(
    slots: int, minutes: int, columns: int
) -> None:
    basis = rhythm_basis(calendar(slots, minutes), np.ones(slots))
    assert basis.shape == (slots, columns)
    np.testing.assert_allclose(basis.T @ basis, np.eye(columns), atol=1e-9)


def test_kernels_are_covariances_with_a_unit_diagonal() -> None:
    for kernel in kernels(WEEK):
        np.testing.assert_allclose(np.diag(kernel), 1.0)
        np.testing.assert_allclose(kernel, kernel.T)


def test_the_temporal_filter_learns_a_daily_pattern_and_its_error() -> None:
    rng = np.random.default_rng(1)
    days = rng.normal(0, 3, (150, 24))
    truth = np.tile(days, 7)
    noisy = truth + rng.normal(0, 3, truth.shape)
    found = wiener(noisy, 9.0, WEEK, np.zeros((168, 0)))
    made = np.square(found.mean - truth).mean()
    assert made < 0.5 * 9
    assert found.variance.mean() == pytest.approx(made, rel=0.5)


def test_the_temporal_filter_drops_noise_and_leaves_removed_directions_alone() -> None:
    rng = np.random.default_rng(2)
    removed = np.linalg.qr(rng.normal(size=(168, 5)))[0]
    noise = rng.normal(0, 3, (150, 168))
    noise -= noise @ removed @ removed.T
    found = wiener(noise, 9.0, WEEK, removed)
    assert np.square(found.mean).mean() < 0.1 * 9
    np.testing.assert_allclose(found.mean @ removed, 0, atol=1e-8)


def test_many_slots_are_filtered_span_by_span() -> None:
    long = calendar(450, 15)
    rows = np.random.default_rng(3).normal(0, 1, (5, 450))
    found = wiener(rows, 1.0, long, np.zeros((450, 0)))
    assert found.mean.shape == (5, 450)
    assert found.variance.shape == (5, 450)


def test_errors_of_the_temporal_filter_have_its_variance_and_lack_what_was_removed() -> None:
    rng = np.random.default_rng(4)
    removed = np.linalg.qr(rng.normal(size=(168, 5)))[0]
    rows = np.tile(rng.normal(0, 3, (40, 24)), 7) + rng.normal(0, 3, (40, 168))
    rows -= rows @ removed @ removed.T
    centres = rng.random((40, 2)) * 3000
    for in_space in (None, SpatialFilter(centres).apply):
        found = wiener(rows, 9.0, WEEK, removed, in_space)
        draws = np.array([*found.errors(np.random.default_rng(5), 400)])
        assert draws.shape == (400, 40, 168)
        np.testing.assert_allclose(draws @ removed, 0, atol=1e-8)
        assert np.abs(draws.mean(axis=0)).max() < 6 * np.sqrt(found.variance.max() / 400)
        ratio = draws.var(axis=0) / found.variance
        assert 0.95 < ratio.mean() < 1.05
        assert 0.6 < ratio.min() < ratio.max() < 1.5


def test_errors_of_long_periods_are_those_of_their_spans() -> None:
    found = wiener(
        np.random.default_rng(6).normal(0, 2, (4, 450)), 1.0, calendar(450, 15), np.zeros((450, 0))
    )
    draws = np.array([*found.errors(np.random.default_rng(7), 200)])
    assert draws.shape == (200, 4, 450)
    assert draws.var() == pytest.approx(found.variance.mean(), rel=0.1)
    still = wiener(np.ones((2, 168)), 0.0, WEEK, np.zeros((168, 0)))  # nothing is noisy
    assert not any(one.any() for one in still.errors(np.random.default_rng(8), 3))


def test_raking_meets_both_margins() -> None:
    table = np.random.default_rng(7).random((4, 3)) + 0.5
    rows, columns = np.array([4.0, 3, 2, 1]), np.array([5.0, 3, 2])
    got = rake(table, rows, columns, rounds=60)
    np.testing.assert_allclose(got.sum(axis=1), rows, rtol=1e-6)
    np.testing.assert_allclose(got.sum(axis=0), columns, rtol=1e-3)


def test_ratios_are_kept_within_bounds_and_empty_ones_left_alone() -> None:
    got = ratios(np.array([100.0, 1.0, 5.0]), np.array([1.0, 100.0, 0.0]))
    assert got.tolist() == [4.0, 0.25, 1.0]
