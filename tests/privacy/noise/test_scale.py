"""Representable scales: never below what was asked, hardly above, and stable."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.noise import (
    SeededStream,
    discrete_gaussian,
    discrete_laplace,
    representable_scale,
    representable_sigma,
    representable_sigma2,
)
from sfumato.privacy.noise.discrete import uniform_plan

pytestmark = pytest.mark.privacy

TINY = Fraction(1, 1 << 80)
scales = st.fractions(min_value=Fraction(1, 4), max_value=1 << 40)
variances = st.fractions(min_value=Fraction(1, 16), max_value=1 << 80)
long_scales = st.builds(
    lambda n, shift: min(max(Fraction(n, 1 << shift), Fraction(1, 4)), Fraction(1 << 40)),
    st.integers(1, 1 << 120),
    st.integers(0, 140),
)


@given(scales | long_scales)
def test_a_scale_is_kept_or_rounded_up_by_less_than_two_to_the_minus_42(scale: Fraction) -> None:
    kept = representable_scale(scale)
    assert scale <= kept < scale * (1 + Fraction(1, 1 << 42))
    assert kept.numerator < 1 << 46
    assert representable_scale(kept) == kept
    if scale.numerator < 1 << 46:
        assert kept == scale


@given(variances | long_scales.map(lambda scale: scale * scale + TINY))
def test_a_variance_is_rounded_up_to_a_square_on_the_lattice(sigma2: Fraction) -> None:
    sigma2 = min(sigma2, Fraction(1 << 80))
    kept = representable_sigma2(sigma2)
    assert sigma2 <= kept < sigma2 * (1 + Fraction(1, 1 << 41))
    assert representable_sigma(sigma2) ** 2 == kept
    assert representable_sigma2(kept) == kept


@given(st.fractions(min_value=Fraction(1, 4), max_value=1 << 40, max_denominator=60))
def test_the_square_of_a_rational_is_kept_exactly(sigma: Fraction) -> None:
    assert representable_sigma2(sigma * sigma) == sigma * sigma


@pytest.mark.parametrize(
    "scale", [Fraction(0), Fraction(-1), Fraction(1, 4) - TINY, Fraction(1 << 40) + TINY]
)
def test_scales_outside_a_quarter_to_two_to_the_40_are_refused(scale: Fraction) -> None:
    stream = SeededStream(1)
    with pytest.raises(UsageError, match="outside 1/4 to 2\\^40"):
        discrete_laplace(1, scale, stream)
    with pytest.raises(UsageError, match="outside 1/4 to 2\\^40"):
        discrete_gaussian(1, scale * abs(scale), stream)


@pytest.mark.parametrize("scale", [1.5, "2", None, True, float("nan"), float("inf")])
def test_what_is_not_an_exact_fraction_is_refused(scale: Fraction) -> None:
    with pytest.raises(UsageError, match="exact fraction"):
        discrete_laplace(1, scale, SeededStream(1))
    with pytest.raises(UsageError, match="exact fraction"):
        discrete_gaussian(1, scale, SeededStream(1))


@given(st.integers(1, (1 << 60) - 1))
def test_uniform_plans_cover_every_value_equally_and_seldom_try_again(p: int) -> None:
    width, limit = uniform_plan(p)
    values = 1 << (16 * width)
    assert width <= 4
    assert (limit + 1) % p == 0
    assert limit < values
    assert (values - limit - 1) * 16 <= values
