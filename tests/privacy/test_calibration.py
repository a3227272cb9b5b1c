"""Calibration: known noise, never less than needed, hardly more, and checked by accounting."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.accounting import Method, event_rho, guarantee
from sfumato.privacy.calibration import (
    GaussianPart,
    calibrate_gaussians,
    gaussian_sigma2,
    gaussian_sigma2_for,
    laplace_scale,
    selection_softness,
    sparse_scales,
)
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.exact import exact, rounded_up
from sfumato.privacy.mechanisms.additive import laplace_variance
from sfumato.privacy.noise import representable_scale, representable_sigma2

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)

UNIT = 1 << 16


def test_laplace_of_the_paris_paper() -> None:
    scale = laplace_scale(30.0, 0.3)
    assert scale == 100
    assert math.sqrt(laplace_variance(scale)) == pytest.approx(141.4214, rel=1e-5)


def test_whole_counts_are_calibrated_by_zcdp() -> None:
    found = gaussian_sigma2_for(0.3, 2e-6, math.sqrt(30), 30)
    assert math.sqrt(found.sigma2[0]) == pytest.approx(74.1046, abs=1e-4)
    assert found.guarantee.method is Method.ZCDP


def test_the_fine_lattice_is_calibrated_by_the_curve() -> None:
    found = gaussian_sigma2_for(0.3, 2e-6, math.sqrt(30) * UNIT, 30)
    assert math.sqrt(found.sigma2[0]) / UNIT == pytest.approx(68.3689, abs=1e-4)
    assert found.guarantee.method is Method.GAUSSIAN
    assert found.guarantee.epsilon <= 0.3


@quick
@given(
    st.floats(0.01, 8.0),
    st.sampled_from([1e-12, 1e-9, 1e-6, 1e-3]),
    st.sampled_from([1.0, math.sqrt(30), 3.0 * UNIT, 250.0]),
    st.sampled_from([1, 168, 220_000]),
)
def test_within_the_target_and_close_to_it(
    epsilon: float, delta: float, l2: float, touched: int
) -> None:
    found = gaussian_sigma2_for(epsilon, delta, l2, touched)
    (sigma2,) = found.sigma2
    again = guarantee([GaussianEvent(rounded_up(l2), sigma2, touched)], delta)
    assert again == found.guarantee
    assert again.epsilon <= epsilon
    assert representable_sigma2(sigma2) == sigma2
    less = GaussianEvent(l2, sigma2 * Fraction(99, 100), touched)
    # One per cent less noise breaks the promise, unless the sampler's floor was reached.
    assert guarantee([less], delta).epsilon > epsilon or sigma2 == Fraction(1, 16)


def test_unused_shares_are_not_given_away() -> None:
    half = calibrate_gaussians(0.3, 2e-6, [GaussianPart(float(UNIT), 1, 0.5)])
    assert half.guarantee.epsilon <= 0.3


@quick
@given(st.floats(0.1, 1e6), st.floats(1e-9, 100.0))
def test_rho_is_kept_exactly(l2: float, rho: float) -> None:
    sigma2 = gaussian_sigma2(l2, rho)
    assert event_rho(GaussianEvent(rounded_up(l2), sigma2, 1)) <= exact(rho)


@quick
@given(st.floats(0.5, 1e6), st.floats(1e-5, 100.0))
def test_epsilon_is_kept_exactly(l1: float, epsilon: float) -> None:
    scale = laplace_scale(l1, epsilon)
    assert exact(rounded_up(l1)) / scale <= exact(epsilon)
    assert representable_scale(scale) == scale


def test_sparse_vector_split() -> None:
    """Nine positives at unit cost: a spread of 31.2 for the sum of both noises."""
    threshold, query = sparse_scales(1, 1, 9)
    assert 1 / threshold + 18 / query <= 1
    assert math.sqrt(2 * (threshold**2 + query**2)) == pytest.approx(31.2, abs=0.1)


def test_softness_of_a_choice() -> None:
    assert selection_softness(2, 0.5) == 4


def test_what_cannot_be_calibrated() -> None:
    for attempt in (
        lambda: gaussian_sigma2(math.inf, 1.0),
        lambda: gaussian_sigma2_for(1.0, 0.0, 1.0, 1),
        lambda: calibrate_gaussians(1.0, 1e-6, []),
        lambda: calibrate_gaussians(1.0, 1e-6, [GaussianPart(1.0, 1, 0.6)] * 2),
    ):
        with pytest.raises(UsageError):
            attempt()


def test_one_budget_for_several_measurements() -> None:
    parts = [
        GaussianPart(16.0 * UNIT, 1303, 0.15),
        GaussianPart(8.0 * UNIT, 168, 0.04),
        GaussianPart(250.0, 1, 0.01),
        GaussianPart(4.5 * UNIT, 1303 * 168, 0.80),
    ]
    found = calibrate_gaussians(0.3, 2e-6, parts)
    assert found.guarantee.method is Method.GAUSSIAN
    assert 0.2999 < found.guarantee.epsilon <= 0.3
    rhos = [
        float(event_rho(GaussianEvent(part.l2, sigma2, part.touched)))
        for part, sigma2 in zip(parts, found.sigma2, strict=True)
    ]
    assert [rho / sum(rhos) for rho in rhos] == pytest.approx([0.15, 0.04, 0.01, 0.80], rel=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf])
def test_zero_and_infinite_budgets(bad: float) -> None:
    for attempt in (
        lambda: gaussian_sigma2(1.0, bad),
        lambda: laplace_scale(1.0, bad),
        lambda: gaussian_sigma2_for(bad, 1e-6, 1.0, 1),
        lambda: sparse_scales(bad, 1, 1),
    ):
        with pytest.raises(UsageError):
            attempt()
