"""The bounds of mu: valid, powerful, and in the order their assumptions suggest."""

import math

import numpy as np
import pytest
from scipy.stats import nct, norm

from sfumato.audits.bounds import (
    mu_lower_bound,
    paired,
    parametric,
    rho_lower_bound,
    runs_needed,
    threshold,
)
from sfumato.audits.statistics import known_direction
from sfumato.errors import UsageError

pytestmark = pytest.mark.privacy

SHIFT = np.array([0.8, 0.0, -0.6, 0.0, 0.0])  # L2 norm 1


def vectors(seed, runs, shift):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(runs, 5)) + shift, rng.normal(size=(runs, 5))


@pytest.mark.parametrize("seed", range(20))
def test_an_honest_gaussian_is_not_accused_and_nearly_exhausted(seed):
    one, other = vectors(seed, 20_000, SHIFT)
    bound = mu_lower_bound(one, other, confidence=1 - 0.001 / 20)
    assert 0.9 < bound.mu <= 1
    assert 0.92 < bound.parametric <= 1


@pytest.mark.parametrize(("mu", "runs"), [(0.5, 13_015), (1.0, 3_874), (2.0, 2_013)])
def test_power_a_sensitivity_1_2_times_too_small_is_caught_with_the_runs_stated(mu, runs):
    assert runs_needed(mu) == runs
    caught = [mu_lower_bound(*vectors(seed, runs, 1.2 * mu * SHIFT)).mu > mu for seed in range(100)]
    assert np.mean(caught) > 0.93  # 0.99, less what learning the direction costs


def test_knowing_the_shift_is_as_good_as_the_statement_of_power():
    know = known_direction(SHIFT)
    runs = runs_needed(1.0)
    pairs = [vectors(seed, runs, 1.2 * SHIFT) for seed in range(100)]
    caught = [mu_lower_bound(*pair, statistic=know).mu > 1 for pair in pairs]
    assert np.mean(caught) >= 0.96


@pytest.mark.parametrize("bound", [paired, parametric])
def test_bounds_fail_no_more_often_than_they_say(bound):
    rng = np.random.default_rng(11)
    too_high = [
        bound(rng.normal(1, 1, 300), rng.normal(0, 1, 300), confidence=0.9) > 1 for _ in range(400)
    ]
    assert np.mean(too_high) < 0.145  # 0.1 and three standard errors


def test_the_threshold_test_is_valid_for_outputs_that_are_not_normal():
    """Randomised response with loss log 3 obeys the curve of the mu that dominates it."""
    rng = np.random.default_rng(12)
    one, other = (rng.random((2, 40_000)) < [[0.75], [0.25]]).astype(float)
    dominating = norm.ppf(0.75) - norm.ppf(0.25)
    assert 0.95 * dominating < threshold(one, other, 0.5, confidence=0.999) <= dominating
    assert 0.6 * dominating < paired(one, other, confidence=0.999) <= dominating


def test_slack_pays_for_discrete_noise():
    one, other = vectors(13, 20_000, 1.1 * SHIFT)
    strict = mu_lower_bound(one, other, confidence=0.9).mu
    assert strict > 1 > mu_lower_bound(one, other, confidence=0.9, slack=0.03).mu
    scores = np.array([0.0, 1.0] * 100)
    assert paired(scores, scores, confidence=0.9, slack=0.5) == 0
    assert threshold(scores, scores, 0.5, confidence=0.9, slack=0.6) == 0


def test_the_parametric_bound_inverts_the_noncentral_t():
    a, b = np.random.default_rng(14).normal(size=(2, 40))
    a = a + 1.5
    found = parametric(a, b, confidence=0.95)
    scale = math.sqrt(20)
    pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    t = scale * (a.mean() - b.mean()) / pooled
    assert nct.sf(t, 78, found * scale) == pytest.approx(0.05, rel=1e-6)


def test_numbers_without_noise_are_infinitely_far_apart():
    assert math.isinf(parametric(np.ones(100), np.zeros(100), confidence=0.9))
    assert parametric(np.zeros(100), np.zeros(100), confidence=0.9) == 0


def test_rho_is_bounded_without_leaning_on_gaussian_noise():
    one, other = vectors(15, 100_000, 2 * SHIFT)
    scores = one @ SHIFT, other @ SHIFT
    assert 1.0 < rho_lower_bound(*scores, 1.0, confidence=0.999) <= 2.0  # mu^2 / 2 = 2
    assert rho_lower_bound(scores[0], scores[0][::-1], 1.0, confidence=0.999) < 1e-3


def test_too_few_runs_are_refused():
    with pytest.raises(UsageError, match="at least 64 runs"):
        mu_lower_bound(np.zeros(10), np.zeros(10))
