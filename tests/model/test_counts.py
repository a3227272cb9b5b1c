"""Counts are integers on a lattice that nobody can change and no repr shows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.counts import Counting, Counts


def counts(values: np.ndarray, units: int = 1, l1: float = 30.0, l2: float = 5.5) -> Counts:
    return Counts(values, units, l1, l2, Counting.VISITS, "visits by tower and hour")


def test_counts_keep_their_own_read_only_copy() -> None:
    mine = np.arange(6, dtype=np.int64).reshape(2, 3)
    held = counts(mine[:, :2])
    mine[0, 0] = 99
    assert held.values.tolist() == [[0, 1], [3, 4]]
    assert held.shape == (2, 2)
    with pytest.raises(ValueError, match="read-only"):
        held.values[0, 0] = 1
    mine[1, 1] = 98  # the caller's array stays the caller's


def test_the_repr_shows_the_bound_and_no_number_of_the_data() -> None:
    text = repr(counts(np.array([[731_731]], dtype=np.int64)))
    assert "731731" not in text
    assert "visits by tower and hour" in text


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float64, np.bool_, object])
def test_only_64_bit_integers_pass(dtype: type) -> None:
    with pytest.raises(UsageError, match="64-bit integers"):
        counts(np.zeros((2, 2), dtype=dtype))


@pytest.mark.parametrize(
    ("units", "l1", "l2"),
    [(0, 1.0, 1.0), (1, -1.0, 1.0), (1, 1.0, -1.0), (1, math.nan, 1.0), (1, 1.0, math.nan)],
)
def test_a_lattice_and_sensitivities_that_mean_something(units: int, l1: float, l2: float) -> None:
    with pytest.raises(UsageError, match="positive lattice"):
        counts(np.zeros((2, 2), dtype=np.int64), units, l1, l2)


def test_unbounded_counts_say_so() -> None:
    assert counts(np.zeros((2, 2), dtype=np.int64), 1, math.inf, math.inf).l2 == math.inf
