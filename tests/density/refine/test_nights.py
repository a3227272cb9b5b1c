"""Exponential nights: exact curves come back, noisy ones agree with a trusted solver."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
from scipy.optimize import curve_fit

from sfumato.density.refine.special_hours import fit_exponentials, smooth_nights

WEEK = [datetime(2007, 9, 10) + timedelta(hours=h) for h in range(168)]


def test_a_true_exponential_is_recovered() -> None:
    x = np.arange(5.0)
    a, b = fit_exponentials(x, np.array([100 * np.exp(-0.7 * x), 3 * np.exp(0.4 * x)]))
    np.testing.assert_allclose(a, [100, 3], rtol=1e-6)
    np.testing.assert_allclose(b, [-0.7, 0.4], rtol=1e-6)


def test_the_fit_is_as_good_as_levenberg_marquardt_on_noisy_nights() -> None:
    rng = np.random.default_rng(5)
    x = np.arange(5.0)
    y = 80 * np.exp(-0.6 * x) + rng.normal(0, 12, (200, 5))
    a, b = fit_exponentials(x, y)
    ours = np.square(y - a[:, None] * np.exp(b[:, None] * x)).sum(axis=1)
    for row, loss in zip(y, ours, strict=True):
        (c, d), _ = curve_fit(lambda t, c, d: c * np.exp(d * t), x, row, p0=(80, -0.6))
        assert loss <= np.square(row - c * np.exp(d * x)).sum() * 1.001 + 1e-9


def test_rows_without_a_positive_count_become_zero() -> None:
    a, _ = fit_exponentials(np.arange(5.0), -np.ones((1, 5)))
    assert a.tolist() == [0.0]


def test_only_the_small_hours_change_and_hour_four_is_the_mean_of_both_curves() -> None:
    hour = np.array([s.hour for s in WEEK])
    fall, rise = 100 * np.exp(-0.5 * hour), 20 * np.exp(0.8 * (hour - 4))
    table = np.where(hour <= 4, fall, rise)[None] * np.array([[1.0], [3.0]])
    smooth = smooth_nights(table, WEEK)
    day = hour > 6
    np.testing.assert_array_equal(smooth[:, day], table[:, day])
    np.testing.assert_allclose(smooth[:, hour < 4], table[:, hour < 4], rtol=0.2)


def test_noise_in_the_night_is_reduced() -> None:
    rng = np.random.default_rng(2)
    hour = np.array([s.hour for s in WEEK])
    truth = np.where(hour <= 4, 60 * np.exp(-0.6 * hour), 5.4 * np.exp(0.9 * (hour - 4)))
    truth = np.where(hour > 6, 200, truth)[None].repeat(50, axis=0)
    noisy = truth + rng.normal(0, 10, truth.shape)
    night = hour <= 6
    before = np.square(noisy - truth)[:, night].mean()
    assert np.square(smooth_nights(noisy, WEEK) - truth)[:, night].mean() < 0.75 * before


def test_daily_slots_have_no_night_to_smooth() -> None:
    days = [datetime(2007, 9, 10) + timedelta(days=d) for d in range(7)]
    table = np.arange(14.0).reshape(2, 7)
    np.testing.assert_array_equal(smooth_nights(table, days), table)
