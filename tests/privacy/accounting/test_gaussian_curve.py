"""The exact Gaussian curve: known answers, fifty digits as oracle, every direction."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.accounting import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    zcdp_epsilon,
    zcdp_rho,
)

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(0.1, 1e-6, 36.3047), (0.5, 1e-6, 8.05762), (1.0, 1e-6, 4.22468), (0.3, 2e-6, 12.4824)],
)
def test_known_noise(epsilon: float, delta: float, sigma: float) -> None:
    assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(sigma, rel=2e-6)


def test_noise_for_thirty_visits() -> None:
    assert math.sqrt(30) / gaussian_mu(0.3, 2e-6) == pytest.approx(68.3689, abs=1e-4)


def test_a_year_of_weeks() -> None:
    by_zcdp = math.sqrt(2 * zcdp_rho(0.3, 2e-6))
    assert gaussian_epsilon(math.sqrt(52) * by_zcdp, 2e-6) == pytest.approx(2.338, abs=5e-4)
    by_curve = gaussian_mu(0.3, 2e-6)
    assert gaussian_epsilon(math.sqrt(52) * by_curve, 2e-6) == pytest.approx(2.556, abs=5e-4)


def test_totals_with_a_sensitivity_that_is_too_small() -> None:
    """Noise made for sqrt(30) where one person can move a total by 30."""
    sigma = 2 * math.sqrt(30) * math.sqrt(2 * math.log(2.5 / 2e-6)) / 0.3
    assert sigma == pytest.approx(193.485, abs=1e-3)
    assert sigma * math.sqrt(30) == pytest.approx(1059.761, abs=1e-2)
    assert gaussian_epsilon(30 / sigma, 1e-6) == pytest.approx(0.63465, abs=1e-5)
    assert gaussian_delta(30 / sigma, 0.15) == pytest.approx(0.014782, abs=1e-6)


def _oracle(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(-e / m + m / 2)
        return mpmath.log(first - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.05, 0.0999, 0.1001, 0.5, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("reach", [0.0, 0.3, 1.0, 5.0, 11.0, 20.0])
def test_fifty_digits_agree(mu: float, reach: float) -> None:
    epsilon = reach * mu
    assert gaussian_log_delta(mu, epsilon) == pytest.approx(float(_oracle(mu, epsilon)), abs=1e-9)


@quick
@given(st.floats(1e-4, 20.0), st.floats(-300, -1))
def test_directions_agree_down_to_tiny_deltas(mu: float, log10_delta: float) -> None:
    delta = 10**log10_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_log_delta(mu, epsilon) <= math.log(delta)
    if epsilon > 0:
        assert gaussian_log_delta(mu, epsilon) == pytest.approx(math.log(delta), abs=1e-8)
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-7)
        assert gaussian_log_delta(gaussian_mu(epsilon, delta), epsilon) <= math.log(delta)


@quick
@given(st.floats(1e-3, 3.0), st.sampled_from([1e-12, 1e-9, 1e-6, 1e-3]))
def test_never_worse_than_zcdp(mu: float, delta: float) -> None:
    assert gaussian_epsilon(mu, delta) <= zcdp_epsilon(mu * mu / 2, delta)


def test_negative_epsilon_is_the_other_side_of_the_curve() -> None:
    """delta(-e) = 1 - e^-e + e^-e delta(e), for a symmetric pair."""
    direct = gaussian_delta(0.7, -0.4)
    assert direct == pytest.approx(1 - math.exp(-0.4) + math.exp(-0.4) * gaussian_delta(0.7, 0.4))


def test_the_ends_are_well_defined() -> None:
    assert gaussian_epsilon(0.0, 1e-6) == 0
    assert gaussian_epsilon(0.5, 0.0) == math.inf
    assert gaussian_mu(math.inf, 1e-6) == math.inf
    assert gaussian_mu(1.0, 0.0) == 0
    assert gaussian_mu(0.0, 1e-6) == pytest.approx(1e-6 * math.sqrt(2 * math.pi))
    assert gaussian_log_delta(math.inf, 3.0) == 0
    with pytest.raises(UsageError):
        gaussian_epsilon(-1.0, 1e-6)
    with pytest.raises(UsageError):
        gaussian_mu(1.0, 2.0)
