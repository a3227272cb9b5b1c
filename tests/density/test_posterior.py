"""Draws of a density: means that add up, quantiles of a skewed law, intervals of sums."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfumato.density.posterior import Posterior

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def made(
    seed: int = 1, draws: int = 64, shape: tuple[int, int] = (6, 24), spread: float = 0.4
) -> Posterior:
    """Gamma expectations from almost nothing to thousands, and independent visits."""
    rng = np.random.default_rng(seed)
    mean = np.exp(rng.normal(1.5, 2.5, shape))
    each = rng.gamma(spread**-2, mean * spread**2, (draws, *shape)).astype(np.float32)
    return Posterior(each, each.mean(axis=0, dtype=np.float64), np.ones(shape[0]))


def certain(mean: NDArray[np.float64], piece: float = 1.0) -> Posterior:
    """Everything known but chance."""
    draws = np.repeat(mean[None], 8, axis=0).astype(np.float32)
    return Posterior(draws, mean * piece, np.full(mean.shape[0], piece))


def test_means_add_up_to_the_value_of_every_sum() -> None:
    found = made()
    assert found.total(0.9).value == pytest.approx(found.mean.sum(), rel=1e-6)
    weights = np.random.default_rng(2).uniform(0, 1, found.mean.shape)
    part = found.total(0.9, weights)
    assert part.value == pytest.approx((weights * found.mean).sum(), rel=1e-5)
    row = np.zeros(found.mean.shape)
    row[3] = 1.0
    assert found.total(0.9, row).value == pytest.approx(found.mean[3].sum(), rel=1e-5)


@pytest.mark.parametrize("piece", [1.0, 0.3])
@pytest.mark.parametrize("spread", [0.05, 0.4, 1.5])
def test_quantiles_rise_with_their_level_and_hold_the_median(piece: float, spread: float) -> None:
    found = made(spread=spread)
    found = Posterior(found.draws, found.chance * piece, found.piece * piece)
    tables = found.quantiles(*LEVELS)
    assert all((low <= high).all() for low, high in pairwise(tables))
    assert (tables[0] >= 0).all()
    lower, upper = found.interval(0.9)
    median = found.quantiles(0.5)[0]
    assert (lower <= median).all()
    assert (median <= upper).all()
    np.testing.assert_allclose(lower, tables[1], rtol=1e-9)
    np.testing.assert_allclose(upper, tables[5], rtol=1e-9)


def test_small_counts_have_the_quantiles_of_their_own_law() -> None:
    """Independent visits around a known mean are Poisson: whole numbers, its median exactly."""
    mean = np.array([[0.05, 0.3, 0.9, 2.3, 7.7, 30.2]])
    found = certain(mean)
    np.testing.assert_array_equal(found.quantiles(0.5)[0], stats.poisson.median(mean))
    lower, upper = found.interval(0.9)
    assert (lower == np.rint(lower)).all()
    assert (upper == np.rint(upper)).all()
    inside = stats.poisson.cdf(upper, mean) - stats.poisson.cdf(lower - 1, mean)
    assert (inside > 0.85).all()
    shared = certain(mean, piece=0.25)  # a zone with a quarter of every visit of a tower
    whole = shared.quantiles(0.95)[0][0, :-1] / 0.25
    np.testing.assert_allclose(whole, np.rint(whole))


def test_large_counts_have_the_quantiles_of_a_gamma() -> None:
    rng = np.random.default_rng(4)
    draws = rng.gamma(25.0, 40.0, (4_000, 1, 1)).astype(np.float32)
    found = Posterior(draws, np.zeros((1, 1)), np.ones(1))
    for level in (0.05, 0.5, 0.95):
        wanted = stats.gamma.ppf(level, 25.0, scale=40.0)
        assert found.quantiles(level)[0][0, 0] == pytest.approx(wanted, rel=0.03)


def test_nobody_is_nobody() -> None:
    found = certain(np.zeros((2, 3)))
    assert not any(table.any() for table in (*found.quantiles(*LEVELS), found.mean, found.sd))
    total = found.total(0.9)
    assert (total.value, total.lower, total.upper) == (0.0, 0.0, 0.0)


def test_what_was_seen_itself_has_no_law_of_chance() -> None:
    """Less variance than independent visits would have: the interval is as narrow as it is."""
    found = Posterior(np.full((8, 1, 1), 12.0, np.float32), np.full((1, 1), 0.04), np.ones(1))
    lower, upper = (float(table[0, 0]) for table in found.interval(0.9))
    assert 11.5 < lower < 12 < upper < 12.5


def test_nine_cells_in_ten_lie_in_their_intervals() -> None:
    """Counts of people whose expectations are drawn from the very law of the draws."""
    rng = np.random.default_rng(5)
    mean, spread = np.exp(rng.normal(1.0, 1.5, (40, 60))), 0.4
    draws = rng.gamma(spread**-2, mean * spread**2, (65, 40, 60))
    found = Posterior(draws[1:].astype(np.float32), mean, np.ones(40))
    truth = rng.poisson(draws[0])
    lower, upper = found.interval(0.9)
    assert 0.87 < ((lower <= truth) & (truth <= upper)).mean() < 0.94
    median = found.quantiles(0.5)[0]
    assert np.abs(median - truth).mean() <= 1.01 * np.abs(found.mean - truth).mean()


def test_an_interval_of_a_sum_has_the_spread_of_the_draws_sums() -> None:
    """Cells that rise and fall together: no sum of their own variances would do."""
    rng = np.random.default_rng(6)
    level = rng.normal(1.0, 0.1, 64)
    draws = (level[:, None, None] * np.full((1, 10, 10), 50.0)).astype(np.float32)
    found = Posterior(draws, np.zeros((10, 10)), np.ones(10)).total(0.9)
    sums = draws.sum(axis=(1, 2), dtype=np.float64)
    inside = ((sums >= found.lower) & (sums <= found.upper)).mean()
    assert 0.82 < inside < 0.97
    assert (found.upper - found.lower) / 2 == pytest.approx(1.645 * sums.std(ddof=1), rel=0.05)
    assert found.lower < found.value < found.upper
    alone = Posterior(draws, np.full((10, 10), 400.0), np.ones(10)).total(0.9)
    variance = sums.var(ddof=1) + 100 * 400.0
    assert (alone.upper - alone.lower) / 2 == pytest.approx(1.645 * variance**0.5, rel=0.05)


def test_the_order_of_draws_places_and_slots_does_not_matter() -> None:
    found = made()
    rng = np.random.default_rng(7)
    draws, places, slots = (rng.permutation(n) for n in found.draws.shape)
    mixed = Posterior(
        found.draws[draws][:, places][:, :, slots],
        found.chance[places][:, slots],
        found.piece[places],
    )
    for one, other in zip(found.quantiles(*LEVELS), mixed.quantiles(*LEVELS), strict=True):
        np.testing.assert_allclose(other, one[places][:, slots], rtol=1e-5)
    whole, again = found.total(0.8), mixed.total(0.8)
    np.testing.assert_allclose(
        (again.value, again.lower, again.upper), (whole.value, whole.lower, whole.upper), rtol=1e-5
    )
    assert again.coverage == 0.8
