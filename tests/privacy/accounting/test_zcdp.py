"""The tight conversion: known answers, every direction, and the brute-force definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.accounting import zcdp_delta, zcdp_epsilon, zcdp_rho

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        (0.3, 2e-6, 0.00273150),
        (0.1, 1e-6, 0.000321048),
        (0.5, 1e-6, 0.00664152),
        (1.0, 1e-6, 0.0243560),
        (0.15, 2e-6, 7.44663e-4),
    ],
)
def test_known_rho(epsilon: float, delta: float, rho: float) -> None:
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=3e-6)


def test_noise_for_a_week() -> None:
    rho = zcdp_rho(0.3, 2e-6)
    assert 1 / math.sqrt(2 * rho) == pytest.approx(13.53, abs=5e-3)
    assert math.sqrt(30 / (2 * rho)) == pytest.approx(74.1046, abs=1e-4)


@pytest.mark.parametrize(("weeks", "epsilon"), [(4, 0.629), (13, 1.18), (52, 2.51609)])
def test_weeks_add_up(weeks: int, epsilon: float) -> None:
    assert zcdp_epsilon(weeks * zcdp_rho(0.3, 2e-6), 2e-6) == pytest.approx(epsilon, rel=4e-3)


def test_the_year_to_five_digits() -> None:
    assert zcdp_epsilon(52 * zcdp_rho(0.3, 2e-6), 2e-6) == pytest.approx(2.51609, abs=1e-5)


def test_series_and_choice_of_the_paris_scheme() -> None:
    rho = 0.075**2 / 8 + 30 / (2 * 393.394**2)
    assert rho == pytest.approx(8.0005e-4, rel=1e-4)
    assert zcdp_epsilon(rho, 2e-6) == pytest.approx(0.155854, abs=2e-6)


def test_a_split_of_that_scheme() -> None:
    rho = zcdp_rho(0.15, 2e-6)
    assert math.sqrt(8 * 0.1 * rho) == pytest.approx(0.0244076, abs=1e-6)
    assert math.sqrt(30 / (2 * 0.9 * rho)) == pytest.approx(149.604, abs=1e-2)


@quick
@given(st.floats(1e-6, 30.0), st.floats(-30, -0.5))
def test_directions_agree(epsilon: float, log10_delta: float) -> None:
    delta = 10**log10_delta
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-12)
    assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-5)


@quick
@given(st.floats(1e-5, 5.0), st.floats(0.01, 20.0))
def test_delta_is_the_least_over_all_orders(rho: float, epsilon: float) -> None:
    alpha = 1 + np.exp(np.linspace(-8, 12, 20001))
    logs = (alpha - 1) * (alpha * rho - epsilon) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)
    assert zcdp_delta(rho, epsilon) <= math.exp(min(0.0, logs.min())) * (1 + 1e-9)
    assert zcdp_delta(rho, epsilon) >= math.exp(min(0.0, logs.min())) * (1 - 1e-3)


def test_the_ends_are_well_defined() -> None:
    assert zcdp_epsilon(0.0, 1e-6) == 0
    assert zcdp_epsilon(0.1, 0.0) == math.inf
    assert zcdp_epsilon(math.inf, 1e-6) == math.inf
    assert zcdp_rho(math.inf, 1e-6) == math.inf
    assert zcdp_rho(1.0, 0.0) == 0
    assert zcdp_delta(0.0, 1.0) == 0
    assert zcdp_delta(math.inf, 1.0) == 1
    with pytest.raises(UsageError):
        zcdp_epsilon(-1.0, 1e-6)
    with pytest.raises(UsageError):
        zcdp_rho(1.0, 1.5)
    with pytest.raises(UsageError):
        zcdp_epsilon(math.nan, 1e-6)
