"""The activity ladder: its gains in exact integers, and its way back to people."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.model.ladder import LADDER_UNITS, ladder_gains, step_sums

STEADY = settings(derandomize=True, deadline=None)
widths = st.lists(st.integers(1, 200) | st.integers(1, 1 << 20), min_size=1, max_size=14)


@pytest.mark.privacy
@settings(STEADY, max_examples=100)
@given(widths=widths, seed=st.integers(0, 2**32 - 1))
def test_no_user_moves_a_ladder_by_more_than_its_units(widths: list[int], seed: int) -> None:
    """In integers; and a user at the top reaches the bound but for the rounding of gains."""
    steps = tuple(accumulate(widths))
    gains = [int(gain) for gain in ladder_gains(steps)]
    rng = np.random.default_rng(seed)
    for activity in (steps[-1], 10 * steps[-1], *rng.integers(0, steps[-1], 5, endpoint=True)):
        vector = [
            gain * min(max(int(activity) - low, 0), high - low)
            for gain, (low, high) in zip(gains, pairwise((0, *steps)), strict=True)
        ]
        assert sum(entry**2 for entry in vector) <= LADDER_UNITS**2
        assert sum(vector) <= math.sqrt(len(steps)) * LADDER_UNITS * (1 + 1e-15)
    full = sum((gain * width) ** 2 for gain, width in zip(gains, widths, strict=True))
    coarsest = max(1 / (gain + 1) for gain in gains)
    assert full >= LADDER_UNITS**2 * (1 - coarsest) ** 2


@pytest.mark.privacy
@settings(STEADY, max_examples=60)
@given(widths=widths)
def test_every_gain_is_the_largest_that_holds(widths: list[int]) -> None:
    for gain, width in zip(ladder_gains(tuple(accumulate(widths))), widths, strict=True):
        assert (int(gain) * width) ** 2 * len(widths) <= LADDER_UNITS**2
        assert ((int(gain) + 1) * width) ** 2 * len(widths) > LADDER_UNITS**2


def test_gains_by_hand() -> None:
    assert ladder_gains((1,)).tolist() == [LADDER_UNITS]
    assert ladder_gains((1, 2, 4, 8)).tolist() == [1 << 23, 1 << 23, 1 << 22, 1 << 21]


def test_a_measured_ladder_in_people() -> None:
    """Three people of activity 1, 3 and 9, on steps of width 1, 1, 2 and 4: the last is cut."""
    steps = (1, 2, 4, 8)
    sums, sds = step_sums(np.array([3, 2, 3, 4]) * ladder_gains(steps), 2.0**40, steps)
    assert sums.tolist() == [3, 2, 3, 4]
    assert sds.tolist() == [2.0**20 / gain for gain in (1 << 23, 1 << 23, 1 << 22, 1 << 21)]
    with pytest.raises(UsageError, match="that many values"):
        step_sums(np.zeros(3, np.int64), 1.0, steps)


@pytest.mark.parametrize("steps", [(), (0, 1), (-1,), (1, 1), (3, 2), (1.0, 2.0), (True,), ("1",)])
def test_steps_are_whole_and_rise(steps: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="each above the one before"):
        ladder_gains(steps)


def test_a_step_without_a_gain_is_refused() -> None:
    assert ladder_gains((LADDER_UNITS,)).tolist() == [1]
    with pytest.raises(UsageError, match="lower top"):
        ladder_gains((LADDER_UNITS + 1,))
