"""The private choice of k: the range lemma, the costs, and who is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.density.paris.spectrum import (
    UNITS,
    cost_range,
    cut_costs,
    dropped_in_rows,
    dropped_norms,
    row_costs,
    row_range,
)
from sfumato.density.refine.fourier import Transform, forward
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.door import open_private

pytestmark = pytest.mark.privacy


def boxed(values: np.ndarray) -> Private[Counts]:
    return Private(Counts(values.astype(np.int64), 1, 9.0, 3.0, Counting.VISITS, "toy"), "toy")


def with_one_user(seed: int, clusters: int, slots: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Counts, one user's visits (one in each of some slots, anywhere), and the user's norm."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 30, (clusters, slots))
    user = np.zeros_like(base)
    busy = rng.random(slots) < 0.6
    user[rng.integers(0, clusters, slots)[busy], np.flatnonzero(busy)] = 1
    return base, user, math.sqrt(max(int(user.sum()), 1))


def test_dropped_norms_by_hand() -> None:
    """Two rows: keeping one leaves 4 and 3, 12 and 0; keeping two leaves 12 and 0."""
    rows = np.array([[1.0, 4.0, 12.0], [7.0, 3.0, 0.0]])
    assert dropped_norms(rows).tolist() == [13.0, 12.0, 0.0]


def test_costs_by_hand() -> None:
    """A constant series has one coefficient: keeping k costs sqrt(k) sigma and no more."""
    costs = open_private(cut_costs(boxed(np.full((1, 4), 10)), 2.0, Transform.DCT))
    wanted = np.sqrt(np.arange(1, 5)) * 2.0 * UNITS
    assert np.abs(costs - wanted).max() <= 1
    assert np.argmin(costs) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 12))
def test_one_user_moves_two_costs_apart_by_no_more_than_the_range(
    seed: int, clusters: int, slots: int
) -> None:
    """Neighbours differ by one user with one visit in each of some slots, anywhere."""
    base, user, l2 = with_one_user(seed, clusters, slots)
    one = open_private(cut_costs(boxed(base), 1.5, Transform.DCT))
    other = open_private(cut_costs(boxed(base + user), 1.5, Transform.DCT))
    assert np.ptp(one - other) <= cost_range(math.sqrt(2) * l2)


def test_dropped_norms_of_each_row_by_hand() -> None:
    rows = np.array([[1.0, 4.0, 3.0], [7.0, 0.0, 5.0]])
    assert dropped_in_rows(rows).tolist() == [[5.0, 3.0, 0.0], [5.0, 5.0, 0.0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 12))
def test_one_user_moves_the_costs_of_all_clusters_by_no_more_than_the_joint_range(
    seed: int, clusters: int, slots: int
) -> None:
    """What is charged is the norm over clusters of how far each one's costs move apart."""
    base, user, l2 = with_one_user(seed, clusters, slots)
    one = open_private(row_costs(boxed(base), 1.5, Transform.DCT))
    other = open_private(row_costs(boxed(base + user), 1.5, Transform.DCT))
    moved = np.ptp(one - other, axis=1)
    assert np.linalg.norm(moved) <= row_range(math.sqrt(2) * l2, clusters)
    assert (moved[user.sum(axis=1) == 0] == 0).all()


def test_the_lemma_is_nearly_reached() -> None:
    """sqrt(2) cannot be made smaller: what is kept grows while a small tail shrinks."""
    f = np.array([[0.0, 1000.0, 10.0]])
    v = np.array([[0.0, 1.0, -1.0]]) / math.sqrt(2)
    moved = dropped_norms(f + v) - dropped_norms(f)
    assert 1.40 < np.ptp(moved) <= math.sqrt(2)


def test_the_transform_keeps_norms() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 24))
    for transform in Transform:
        assert np.allclose(np.linalg.norm(forward(rows, transform)), np.linalg.norm(rows))
