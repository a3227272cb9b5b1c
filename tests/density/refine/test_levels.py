"""Levels behind noisy totals: positive, drawn towards their law where noise is strong."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.density.refine.levels import level_posterior, levels_of_day

HOURS = np.tile(np.arange(24.0), 2)
KIND = np.repeat([0.0, 1.0], 24)


def lognormal(seed: int, spread: float = 0.8, size: int = 120) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(-(spread**2) / 2, spread, size)) * 1_000


def test_totals_far_above_their_noise_stay_as_they_are() -> None:
    truth = lognormal(1)
    found = level_posterior(truth, np.full(120, 1e-4), np.full(120, 1_000.0))
    np.testing.assert_allclose(found.mean, truth, rtol=1e-3)
    assert found.spread == pytest.approx(0.8, rel=0.3)


def test_levels_are_positive_and_nearer_to_the_truth_than_the_noisy_totals() -> None:
    truth = lognormal(2)
    rng = np.random.default_rng(3)
    noisy = truth + rng.normal(0, 800.0, 120)
    assert (noisy < 0).any()
    found = level_posterior(noisy, np.full(120, 800.0**2), np.full(120, 1_000.0))
    assert (found.mean > 0).all()
    error = np.square(found.mean - truth).mean()
    assert error < 0.6 * np.square(noisy - truth).mean()
    assert error < np.square(np.maximum(noisy, 20.0) - truth).mean()
    # It shrinks, and keeps the order of what was seen with the same noise.
    order = np.argsort(noisy)
    assert (np.diff(found.mean[order]) >= -1e-6 * 1_000).all()
    assert np.ptp(found.mean) < np.ptp(noisy)
    assert found.mean.sum() == pytest.approx(truth.sum(), rel=0.15)


def test_the_stated_deviation_is_the_error_made_and_draws_have_it() -> None:
    ratio = []
    for seed in range(8):
        truth = lognormal(seed)
        rng = np.random.default_rng(100 + seed)
        noisy = truth + rng.normal(0, 500.0, 120)
        found = level_posterior(noisy, np.full(120, 500.0**2), np.full(120, 1_000.0))
        ratio.append(np.square(found.mean - truth).mean() / np.square(found.sd).mean())
    assert 0.75 < np.mean(ratio) < 1.3
    uniform = (
        np.random.default_rng(5).permuted(np.tile(np.arange(2_000), (120, 1)), axis=1).T + 0.5
    ) / 2_000
    draws = found.draw(uniform)
    assert draws.shape == (2_000, 120)
    assert (draws > 0).all()
    np.testing.assert_allclose(draws.mean(axis=0), found.mean, rtol=0.03)
    np.testing.assert_allclose(draws.std(axis=0), found.sd, rtol=0.1)


def test_noise_alone_leaves_what_was_expected_of_each() -> None:
    """Other levels are expected of other places, and only noise is seen of them."""
    expected = np.geomspace(1.0, 100.0, 60)
    noisy = expected + np.random.default_rng(6).normal(0, 1e5, 60)
    found = level_posterior(noisy, np.full(60, 1e10), expected)
    np.testing.assert_allclose(found.mean, expected, rtol=0.05)


@pytest.mark.parametrize("spread", [0.1, 0.6, 1.2])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_the_spread_of_the_law_is_found_among_many(spread: float, noise: float) -> None:
    """Small errors of each one's evidence would add up over a thousand places."""
    truth = lognormal(4, spread, 1_000)
    noisy = truth + np.random.default_rng(5).normal(0, 1_000 * noise, 1_000)
    found = level_posterior(noisy, np.full(1_000, 1e6 * noise**2), np.full(1_000, 1_000.0))
    assert found.spread == pytest.approx(spread, rel=0.35)


def test_a_single_total_has_a_level_too() -> None:
    found = level_posterior(np.array([-5.0]), np.array([100.0]), np.array([20.0]))
    assert 0 < found.mean[0] < 20
    assert np.isfinite(found.sd).all()


def day() -> np.ndarray:
    shape = 20 + 100 * np.exp(-np.square((np.arange(24) - 14) / 5.0))
    return np.concatenate((shape, 0.6 * shape))


def test_a_clear_day_comes_back_and_a_noisy_one_is_smoothed() -> None:
    truth = day()
    clear = levels_of_day(truth, np.full(48, 1e-2), HOURS, KIND)
    np.testing.assert_allclose(clear.mean, truth, rtol=0.02)
    rng = np.random.default_rng(7)
    errors = []
    for _ in range(4):
        noisy = truth + rng.normal(0, 30.0, 48)
        found = levels_of_day(noisy, np.full(48, 900.0), HOURS, KIND)
        assert (found.mean > 0).all()
        errors.append(np.square(found.mean - truth).mean() / np.square(noisy - truth).mean())
    assert np.mean(errors) < 0.5


def test_draws_of_a_day_have_its_mean_and_are_positive() -> None:
    rng = np.random.default_rng(8)
    found = levels_of_day(day() + rng.normal(0, 15.0, 48), np.full(48, 225.0), HOURS, KIND)
    draws = found.draw(rng.standard_normal((4_000, 48)))
    assert (draws > 0).all()
    np.testing.assert_allclose(draws.mean(axis=0), found.mean, rtol=0.05)
    # Neighbouring hours are uncertain together: what is smooth is not drawn hour by hour.
    logs = np.log(draws)
    together = np.corrcoef(logs[:, 13], logs[:, 14])[0, 1]
    assert together > 0.1


def test_a_day_of_noise_alone_is_flat_and_finite() -> None:
    noisy = 10.0 + np.random.default_rng(9).normal(0, 5_000.0, 48)
    found = levels_of_day(noisy, np.full(48, 2.5e7), HOURS, KIND)
    assert np.isfinite(found.mean).all()
    assert (found.mean > 0).all()
    lost = levels_of_day(-np.ones(48), np.full(48, 1.0), HOURS, KIND)  # nothing was there
    assert np.isfinite(lost.mean).all()
    assert lost.mean.max() < 1.0
