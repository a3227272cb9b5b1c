"""Clustering on maps small enough to merge by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sfumato.density.refine.spatial import merge_neighbours
from sfumato.errors import UsageError

ONES = np.ones(4)
ROW = np.array([[0.0, 0.0], [1.0, 0.0], [2.5, 0.0], [10.0, 0.0]])


def test_the_smallest_joins_its_closest_neighbour_until_all_are_large() -> None:
    # Cell 1 (total 1) is closest to cell 0; then {0, 1} has 6 and cell 2 (5) joins it.
    labels = merge_neighbours(np.array([5.0, 1.0, 5.0, 20.0]), ROW, ONES, threshold=6)
    assert labels.tolist() == [0, 0, 0, 1]


def test_nothing_merges_when_all_are_large_enough() -> None:
    assert merge_neighbours(np.full(4, 7.0), ROW, ONES, threshold=6).tolist() == [0, 1, 2, 3]


def test_negative_totals_merge_first_and_an_unreachable_threshold_leaves_one_cluster() -> None:
    labels = merge_neighbours(np.array([-3.0, 1.0, 2.0, 1.0]), ROW, ONES, threshold=1e9)
    assert labels.tolist() == [0, 0, 0, 0]


def test_only_cells_that_touch_are_neighbours() -> None:
    # Cell 1 touches only cell 3, although 0 and 2 are closer.
    touching = csr_array(
        np.array([[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
    )
    labels = merge_neighbours(np.array([9.0, 1.0, 9.0, 9.0]), ROW, ONES, 6, touching)
    assert labels.tolist() == [0, 1, 2, 1]


def test_the_centre_of_a_cluster_is_weighted_by_area() -> None:
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [9.0, 0.0], [-4.2, 0.0]])
    areas = np.array([1.0, 9.0, 1.0, 1.0])
    # {0, 1} has its centre at 3.6: 2 is 5.4 away, 3 is 7.8 (at 2 it would be the other way).
    labels = merge_neighbours(np.array([1.0, 1.5, 50.0, 50.0]), centres, areas, 10)
    assert labels.tolist() == [0, 0, 0, 1]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000), st.floats(0, 60))
def test_clusters_partition_the_cells_and_reach_the_threshold(
    n: int, seed: int, threshold: float
) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.normal(10, 10, n)
    labels = merge_neighbours(totals, rng.random((n, 2)), rng.random(n) + 0.1, threshold)
    sums = np.bincount(labels, totals)
    assert labels.min() == 0
    assert sums.size == len(set(labels.tolist()))
    assert sums.size == 1 or (sums >= threshold).all()


def test_cells_without_a_centre_are_refused() -> None:
    with pytest.raises(UsageError):
        merge_neighbours(ONES, ROW[:2], ONES, 1)
