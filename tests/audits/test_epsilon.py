"""The bound of epsilon: below the truth on honest runs, close to it, above a false claim."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.audits.bounds import epsilon_lower_bound, lower_limit, upper_limit
from sfumato.audits.statistics import atoms
from sfumato.errors import UsageError

pytestmark = pytest.mark.privacy


def integer_laplace(rng, size, scale):
    p = 1 - math.exp(-1 / scale)
    return (rng.geometric(p, size) - rng.geometric(p, size)).astype(float)


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50)])
def test_limits_invert_the_binomial_tails(k, n):
    low, high = float(lower_limit(k, n, 0.01)), float(upper_limit(k, n, 0.01))
    assert low <= k / n <= high
    if k > 0:
        assert binom.sf(k - 1, n, low) == pytest.approx(0.01)
    if k < n:
        assert binom.cdf(k, n, high) == pytest.approx(0.01)


def test_limits_cover_at_their_level():
    hits = np.random.default_rng(3).binomial(200, 0.1, 20_000)
    assert (lower_limit(hits, 200, 0.05) > 0.1).mean() <= 0.05
    assert (upper_limit(hits, 200, 0.05) < 0.1).mean() <= 0.05


@pytest.mark.parametrize("seed", range(20))
def test_honest_laplace_is_not_accused_and_nearly_exhausted(seed):
    rng = np.random.default_rng(seed)
    noise = integer_laplace(rng, (2, 20_000), scale=2)
    bound = epsilon_lower_bound(noise[0] + 1, noise[1], confidence=1 - 0.001 / 20)
    assert 0.35 < bound.epsilon <= 0.5


@pytest.mark.parametrize("seed", range(10))
def test_power_a_sensitivity_1_2_times_too_small_is_caught_with_30_000_runs(seed):
    rng = np.random.default_rng(seed)
    noise = integer_laplace(rng, (2, 30_000), scale=10)
    assert epsilon_lower_bound(noise[0] + 12, noise[1]).epsilon > 1


def test_a_failure_probability_of_delta_is_not_held_against_a_mechanism():
    rng = np.random.default_rng(5)
    secret = rng.random((2, 40_000)) < 0.05  # shows the input outright once in twenty runs
    runs = np.where(secret, [[1.0], [0.0]], 2.0)
    assert epsilon_lower_bound(runs[0], runs[1]).epsilon > 4
    assert epsilon_lower_bound(runs[0], runs[1], delta=0.06).epsilon == 0


def test_the_gaussian_curve_is_respected_and_approached():
    rng = np.random.default_rng(6)
    runs = np.round(rng.normal(size=(2, 200_000)) * 64)
    found = epsilon_lower_bound(runs[0] + 64, runs[1], delta=0.01).epsilon
    curve = norm.cdf(-found + 0.5) - math.exp(found) * norm.cdf(-found - 0.5)
    assert curve >= 0.01  # at mu = 1
    assert found > 1.5


def test_both_orders_and_both_tails_are_searched():
    rng = np.random.default_rng(7)
    common = rng.random((2, 4_000)).round(2)
    spiked = np.where(rng.random(4_000) < 0.1, -5.0, common[0])
    for pair in ((spiked, common[1]), (common[1], spiked)):
        assert epsilon_lower_bound(*pair).epsilon > 2
        assert epsilon_lower_bound(-pair[0], -pair[1]).epsilon > 2


def test_selections_are_told_apart_by_their_frequencies():
    rng = np.random.default_rng(8)
    p, q = np.array([0.4, 0.1, 0.4, 0.1]), np.array([0.25, 0.25, 0.25, 0.25])
    one, other = rng.choice(4, 20_000, p=p), rng.choice(4, 20_000, p=q)
    found = epsilon_lower_bound(one, other, statistics=(atoms,)).epsilon
    assert 0.75 < found <= math.log(2.5)


def test_equal_outputs_prove_nothing():
    same = np.zeros(1_000)
    assert epsilon_lower_bound(same, same).epsilon == 0


def test_too_few_runs_and_impossible_levels_are_refused():
    with pytest.raises(UsageError, match="at least 64 runs"):
        epsilon_lower_bound(np.zeros(10), np.zeros(10))
    with pytest.raises(UsageError, match="confidence"):
        epsilon_lower_bound(np.zeros(100), np.zeros(100), confidence=1.0)
    with pytest.raises(UsageError, match="delta"):
        epsilon_lower_bound(np.zeros(100), np.zeros(100), delta=-0.1)


def test_the_runs_that_choose_an_event_do_not_certify_it():
    """Among many events one looks bad by chance; on fresh runs it does so as seldom as promised."""
    accused = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        one, other = rng.normal(size=(2, 240, 6))
        accused += epsilon_lower_bound(one, other, confidence=0.9).epsilon > 0
    assert accused <= 80 * 0.1 + 3 * (80 * 0.1 * 0.9) ** 0.5
