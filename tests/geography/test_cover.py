"""The smallest cover: it covers, none is smaller, and nobody counts more than once in it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.geography.cover import Cover, minimum_cover, minimum_vertex_cover
from sfumato.geography.overlay import Overlay, exact_shares, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.model.places import Places


def graph(rows: int, columns: int, edges: set[tuple[int, int]]) -> sp.csr_array:
    dense = np.zeros((rows, columns))
    for row, column in edges:
        dense[row, column] = 1.0
    return sp.csr_array(dense)


def smallest_by_trying(rows: int, columns: int, edges: set[tuple[int, int]]) -> int:
    everything = [("row", k) for k in range(rows)] + [("column", k) for k in range(columns)]
    for size in range(rows + columns + 1):
        for chosen in map(set, combinations(everything, size)):
            if all(("row", r) in chosen or ("column", c) in chosen for r, c in edges):
                return size
    raise AssertionError


def shares_of(dense: np.ndarray) -> Overlay:
    places = np.array([f"t{k}" for k in range(dense.shape[0])])
    zones = np.array([f"z{k}" for k in range(dense.shape[1])])
    return Overlay(places, zones, exact_shares(sp.csr_array(dense)))


def check(cover: Cover, found: Overlay) -> None:
    tower, zone = found.shares.nonzero()
    assert (cover.towers[tower] | cover.zones[zone]).all()
    columns = np.asarray(cover.forward.sum(axis=0)).ravel()
    inside = cover.towers | (found.sums == 1)
    assert (columns <= 1).all()
    assert (columns[inside] == 1).all()
    assert cover.forward.shape == (cover.size, found.place_ids.size)
    assert len(cover.cell_ids) == cover.size
    assert (cover.uncovered_share[cover.towers] > 0).all()
    assert (cover.forward.data > 0).all()
    again = (cover.back @ cover.forward).toarray()
    np.testing.assert_allclose(again, found.shares.T.toarray(), rtol=0, atol=1e-12)


def test_the_path_tower_zone_tower_zone_needs_two() -> None:
    rows, columns = minimum_vertex_cover(graph(2, 2, {(0, 0), (1, 0), (1, 1)}))
    assert rows.sum() + columns.sum() == 2


def test_a_star_needs_its_centre_alone() -> None:
    rows, columns = minimum_vertex_cover(graph(5, 3, {(k, 1) for k in range(5)}))
    assert (rows.sum(), columns.tolist()) == (0, [False, True, False])
    rows, columns = minimum_vertex_cover(graph(3, 5, {(1, k) for k in range(5)}))
    assert (rows.tolist(), columns.sum()) == ([False, True, False], 0)


def test_no_overlap_needs_nothing() -> None:
    rows, columns = minimum_vertex_cover(graph(3, 2, set()))
    assert not rows.any()
    assert not columns.any()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=14),
)
def test_no_cover_is_smaller(rows: int, columns: int, pairs: set[tuple[int, int]]) -> None:
    edges = {(r, c) for r, c in pairs if r < rows and c < columns}
    in_rows, in_columns = minimum_vertex_cover(graph(rows, columns, edges))
    assert all(in_rows[r] or in_columns[c] for r, c in edges)
    assert in_rows.sum() + in_columns.sum() == smallest_by_trying(rows, columns, edges)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_the_way_there_and_back(seed: int, towers: int, zones: int, inside: bool) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.random((towers, zones)) * (rng.random((towers, zones)) < 0.4)
    total = dense.sum(axis=1, keepdims=True)
    share = 1.0 if inside else rng.random((towers, 1))
    dense = dense / np.where(total > 0, total, 1) * share
    found = shares_of(dense)
    check(minimum_cover(found), found)


def test_the_corrected_cover_does_not_count_a_visit_more_than_once() -> None:
    """Four towers nine tenths in one zone, each with two small outer zones, and two inside it.

    Subtracting the zone's *count* from the towers would let one visit at an inner tower move
    four towers by 0.9 each; with c_T it moves the zone alone.
    """
    dense = np.zeros((6, 9))
    dense[:4, 0] = 0.9
    for k in range(4):
        dense[k, 1 + 2 * k : 3 + 2 * k] = 0.05
    dense[4:, 0] = 1.0
    found = shares_of(dense)
    cover = minimum_cover(found)
    assert cover.zones.tolist() == [True] + [False] * 8
    assert cover.towers.tolist() == [True] * 4 + [False] * 2
    assert cover.uncovered_share[:4] == pytest.approx(0.1)
    visit = np.zeros(6)
    visit[5] = 1
    assert np.abs(cover.forward @ visit).sum() == 1
    check(cover, found)


def test_a_tower_partly_outside_keeps_its_whole_visit_in_the_cover() -> None:
    """c_T counts from 1, not from the share inside: the larger count takes less noise."""
    cover = minimum_cover(shares_of(np.array([[0.25, 0.25, 0.25]])))
    assert cover.towers.tolist() == [True]
    assert cover.forward.toarray().tolist() == [[1.0]]
    assert cover.back.toarray().ravel().tolist() == [0.25, 0.25, 0.25]


def test_a_random_map(maps) -> None:
    zones = maps.zones(8, 8)
    towers = maps.towers(np.random.default_rng(2).uniform(0, 8, (50, 2)))
    found = overlay(voronoi_cells(towers, zones, buffer_m=0), zones)
    cover = minimum_cover(found)
    assert cover.size < 64
    check(cover, found)


@pytest.mark.real_data
def test_the_cover_of_paris(paris: tuple[Places, Places]) -> None:
    """Acs & Castelluccia found 826 cells for 1,303 towers and 989 zones of 2007."""
    towers, zones = paris
    found = overlay(voronoi_cells(towers, zones, buffer_m=0), zones)
    cover = minimum_cover(found)
    assert 800 < cover.size < 950
    check(cover, found)
