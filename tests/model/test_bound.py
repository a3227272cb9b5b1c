"""What one user may change, in numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.model.counts import WEIGHT_UNITS, SampleBound, WeightBound

pytestmark = pytest.mark.privacy


def test_a_sampled_user_has_one_unit_in_each_of_l_slots() -> None:
    bound = SampleBound(30)
    assert (bound.l1(168), bound.l2(168)) == (30.0, math.sqrt(30))
    assert bound.units_per_count == 1
    # A period of 24 slots leaves no room for 30.
    assert (bound.l1(24), bound.l2(24)) == (24.0, math.sqrt(24))


def test_a_weighted_user_has_a_norm_of_at_most_the_limit() -> None:
    bound = WeightBound(3.0)
    assert bound.l2(168) == 3.0 * WEIGHT_UNITS
    assert bound.l1(168) == pytest.approx(3.0 * math.sqrt(168) * WEIGHT_UNITS)
    assert bound.units_per_count == WEIGHT_UNITS == 65536


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.floats(0, 50), min_size=1, max_size=200),
    st.floats(0.1, 20),
    st.floats(2**-16, 1024),
)
def test_the_stated_sensitivities_hold_for_the_weight_they_stand_for(
    mass: list[float], limit: float, most: float
) -> None:
    bound = WeightBound(limit, most)
    assert bound.l2(7) == WeightBound(limit).l2(7)
    norm = math.hypot(*mass)
    weight = min(most, limit / norm) if norm else most
    units = math.floor(weight * WEIGHT_UNITS)
    assert math.hypot(*(units * m for m in mass)) <= bound.l2(len(mass)) * (1 + 1e-12)
    assert math.fsum(units * m for m in mass) <= bound.l1(len(mass)) * (1 + 1e-12)


@pytest.mark.parametrize("slots", [0, -1, 2.0, True, "3", None])
def test_a_sampling_bound_is_a_whole_number(slots: object) -> None:
    with pytest.raises(UsageError, match="whole number of slots"):
        SampleBound(slots)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf, True, "3", None])
def test_a_weight_bound_is_a_positive_number(limit: object) -> None:
    with pytest.raises(UsageError, match="finite positive limit"):
        WeightBound(limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [0.0, -1.0, 1e-5, 1025, math.nan, math.inf, True, "3", None])
def test_a_largest_weight_lies_between_a_unit_and_1024(most: object) -> None:
    with pytest.raises(UsageError, match="largest weight"):
        WeightBound(3.0, most)  # type: ignore[arg-type]


def test_a_limit_under_larger_weights_leaves_room_for_the_sums() -> None:
    """2^30 a user: four thousand million of them stay below 2^62."""
    assert WeightBound(2.0**14, 1024).l2(1) == 2.0**30
    assert WeightBound(1e9).most == 1
    with pytest.raises(UsageError, match="at most 16,384"):
        WeightBound(2.0**14 + 1, 1.5)


def test_the_whole_weight_is_a_number_of_units() -> None:
    assert [WeightBound(3.0, most).whole for most in (1.0, 1024, 0.3, 2**-16)] == [
        WEIGHT_UNITS,
        1 << 26,
        19660,
        1,
    ]


def test_bounds_are_values() -> None:
    assert WeightBound(3.0) == WeightBound(3.0, 1) != WeightBound(3.0, 2)
    assert SampleBound(30) == SampleBound(30) != SampleBound(31)
    assert len({WeightBound(2.0), WeightBound(2.0), WeightBound(3.0)}) == 2
    with pytest.raises(AttributeError):
        SampleBound(30).slots = 168  # type: ignore[misc]
