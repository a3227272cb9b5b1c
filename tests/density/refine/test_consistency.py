"""Non-negative, whole, adding up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.density.refine.margins import add_up, project_to_simplex, round_keeping_totals
from sfumato.errors import UsageError


def test_a_known_projection() -> None:
    got = project_to_simplex(np.array([[0.7], [0.4], [-0.1]]), np.array([1.0]))
    np.testing.assert_allclose(got[:, 0], [0.65, 0.35, 0.0])


@settings(max_examples=80, deadline=None)
@given(arrays(float, (5, 3), elements=st.floats(-50, 50)), st.floats(0.1, 200))
def test_projection_is_non_negative_sums_and_is_optimal(y: np.ndarray, total: float) -> None:
    got = project_to_simplex(y, np.full(3, total))
    assert (got >= 0).all()
    np.testing.assert_allclose(got.sum(axis=0), total, rtol=1e-9)
    # Optimality: one shift explains every positive entry, and zeros lie below it.
    for column, target in zip(got.T, y.T, strict=True):
        shift = (target - column)[column > 1e-9]
        assert np.ptp(shift) < 1e-7
        assert (target[column <= 1e-12] <= shift.max() + 1e-7).all()


def test_a_negative_total_empties_the_column() -> None:
    assert project_to_simplex(np.ones((2, 1)), np.array([-3.0])).tolist() == [[0], [0]]


def test_rounding_gives_the_largest_remainders_their_unit() -> None:
    got = round_keeping_totals(np.array([[1.6], [2.3], [0.1]]))
    assert got[:, 0].tolist() == [2, 2, 0]


@settings(max_examples=60, deadline=None)
@given(arrays(float, (6, 4), elements=st.floats(0, 1000)))
def test_rounding_keeps_totals_and_moves_nothing_by_more_than_one(values: np.ndarray) -> None:
    got = round_keeping_totals(values)
    assert got.sum(axis=0).tolist() == np.rint(values.sum(axis=0)).tolist()
    assert (np.abs(got - values) <= 1).all()


def test_rounding_refuses_negative_counts() -> None:
    with pytest.raises(UsageError):
        round_keeping_totals(np.array([[-1.0]]))


def test_parents_are_the_sums_of_their_children() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert add_up(table, np.array([0, 1, 0])).tolist() == [[6, 8], [3, 4]]
