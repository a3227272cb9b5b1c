"""The law of levels and the choice of one: what noise alone says, and what busy cells gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.streams.schemes.rhythm.levels import fit_levels, gaussian_levels, spatial_prior
from sfumato.streams.schemes.rhythm.shrinkage import level_correction, weighted_medians, whole

pytestmark = pytest.mark.privacy


def test_levels_of_a_sparse_city_are_told_from_noise() -> None:
    rng = np.random.default_rng(1)
    truth = np.where(rng.random(4000) < 0.02, 30.0, 0.0)
    noisy = truth + rng.laplace(0, 3, 4000)
    found = fit_levels(noisy, np.full(4000, noisy.mean()), 18.0, 1, laplace=True)
    assert found.name == "npmle"  # two levels are no gamma law and no Gaussian
    level, _, _ = weighted_medians(found, np.maximum(noisy, 0))
    assert np.abs(level - truth).mean() < 0.15 * np.abs(np.maximum(noisy, 0) - truth).mean()


def test_an_even_city_is_left_to_gaussian_levels() -> None:
    """Levels that vary by their square root: the Gaussian estimate stays as it is."""
    rng = np.random.default_rng(2)
    around = rng.uniform(20, 200, 4000)
    truth = around + np.sqrt(around / 110) * rng.normal(0, 12, 4000)
    noisy = truth + rng.normal(0, 2, 4000)
    assert fit_levels(noisy, around, 4.0, 1, laplace=False).name == "gaussian"
    fixed = level_correction(noisy, around, noisy, 4.0, 1, laplace=False)
    assert (fixed.factor == 1).all()
    assert not fixed.settled.any()


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("sd", [0.3, 2.0, 14.0])
def test_where_noise_is_all_there_is_nobody_is_shown(sd: float, laplace: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        noise = rng.laplace(0, sd / 2**0.5, 2500) if laplace else rng.normal(0, sd, 2500)
        around = spatial_prior(noise, 50, sd**2)
        level, _, _ = weighted_medians(
            fit_levels(noise, around, sd**2, 1, laplace), np.maximum(noise, 0)
        )
        assert whole(level).sum() == 0


def test_a_busy_cell_that_stands_out_is_not_shrunk_away() -> None:
    """The plain median gives a few busy cells to the many empty ones; weights give them back."""
    rng = np.random.default_rng(4)
    truth = rng.gamma(0.15, 2.5, 8000)
    noisy = truth + rng.laplace(0, 1, 8000)
    found = fit_levels(noisy, np.full(8000, noisy.mean()), 2.0, 1, laplace=True)
    level, lifted, _ = weighted_medians(found, np.maximum(np.rint(noisy), 0))
    busy = np.argsort(-truth)[:200]
    plain = level - lifted
    assert (lifted >= 0).all()
    shrunk = np.abs(plain - truth)[busy].mean()
    assert np.abs(level - truth)[busy].mean() < 0.97 * shrunk
    assert np.abs(level - truth).mean() < truth.mean()  # and zeros are still worse over all


def test_means_keep_the_total_that_medians_give_away() -> None:
    rng = np.random.default_rng(5)
    truth = rng.gamma(0.1, 5.0, 6000)
    noisy = truth + rng.laplace(0, 2, 6000)
    around = np.full(6000, noisy.mean())
    totals = []
    for medians in (True, False):
        fixed = level_correction(noisy, around, around, 8.0, 1, True, whole=medians)
        values, _ = fixed.apply(around, np.zeros(6000), np.zeros(6000))
        totals.append(float(values.sum()))
    assert totals[0] < 0.85 * truth.sum()
    assert totals[1] == pytest.approx(truth.sum(), rel=0.15)


def test_a_bell_of_one_laplace_draw_is_finite_far_out() -> None:
    x = np.linspace(-80, 80, 321)
    fits = [gaussian_levels(np.array([v]), np.array([0.0]), 8.0, 1, True)[1] for v in x]
    assert np.isfinite(fits).all()


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    people=st.floats(0.01, 300),
    sd=st.floats(0.1, 40),
    draws=st.integers(1, 20),
    laplace=st.booleans(),
)
def test_levels_are_finite_whatever_comes(
    seed: int, people: float, sd: float, draws: int, laplace: bool
) -> None:
    rng = np.random.default_rng(seed)
    noisy = rng.gamma(0.5, people / 0.5, 64) + rng.normal(0, sd, 64)
    around = spatial_prior(noisy, 8, sd**2)
    fixed = level_correction(noisy, around, np.maximum(noisy, 0), sd**2, draws, laplace)
    values, variance = fixed.apply(np.maximum(noisy, 0), np.ones(64), np.full(64, 0.5))
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert (variance >= 0).all()
    assert np.isfinite(fixed.sd(variance))
