"""Exact numbers: decimals as typed, roundings on the safe side."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.exact import decimal_down, decimal_up, exact, rounded_up, total

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)

fractions = st.fractions(min_value=0, max_value=10**6, max_denominator=10**12)


def test_a_float_is_the_decimal_that_was_typed() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(np.float64(2e-6)) == Fraction(2, 10**6)
    assert exact(3) == 3


@quick
@given(fractions)
def test_rounding_goes_the_safe_way(value: Fraction) -> None:
    assert exact(decimal_down(value)) <= value <= exact(decimal_up(value))
    assert decimal_up(value) - decimal_down(value) <= 4e-16 * float(value)


@quick
@given(st.lists(fractions, max_size=20))
def test_sums_are_exact(values: list[Fraction]) -> None:
    assert total(values) == sum(values, Fraction(0))


@quick
@given(st.integers(1, 10**6))
def test_a_root_is_moved_past_its_error(square: int) -> None:
    assert exact(rounded_up(math.sqrt(square))) ** 2 >= square


def test_infinity_has_no_place_here() -> None:
    with pytest.raises(UsageError):
        exact(math.inf)
    with pytest.raises(UsageError, match="no bound"):
        rounded_up(math.inf)
