"""Area shares: never more than one, exactly one where a cell lies inside the zones."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import Point, box

from sfumato.errors import UsageError
from sfumato.geography.overlay import SHARE_UNITS, Overlay, exact_shares, overlay, quantised
from sfumato.geography.voronoi import voronoi_cells
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

DAY = 86_400_000_000
WEEK = TimeGrid.between(date(2021, 6, 7), date(2021, 6, 14), "1h", "UTC")
MONDAY = int(WEEK.edges[0])


def true_sums(shares: sp.csr_array) -> list[Fraction]:
    """Row sums without any rounding."""
    return [
        sum((Fraction(float(v)) for v in shares.data[a:b]), Fraction(0))
        for a, b in zip(shares.indptr[:-1], shares.indptr[1:], strict=True)
    ]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(-20, 60), st.integers(-20, 60)), min_size=1, max_size=40),
    st.sampled_from([0.0, 1000.0, 3000.0]),
)
def test_shares_sum_to_at_most_one_and_to_one_inside(
    steps: list[tuple[int, int]], buffer_m: float
) -> None:
    at = np.array([2.30, 48.80]) + np.array([(20, 20), *steps]) * 0.001
    towers = Places.of(
        PlaceKind.TOWERS, [f"t{k:02d}" for k in range(len(at))], [Point(p) for p in at]
    )
    corners = [(2.30 + 0.01 * c, 48.80 + 0.01 * r) for r in range(4) for c in range(4)]
    squares = [box(x, y, x + 0.01, y + 0.01) for x, y in corners]
    zones = Places.of(PlaceKind.ZONES, [f"z{k:02d}" for k in range(16)], squares)
    cells = voronoi_cells(towers, zones, buffer_m=buffer_m)
    found = overlay(cells, zones)
    sums = true_sums(found.shares)
    assert all(0 <= total <= 1 for total in sums)
    assert [float(total) for total in sums] == found.sums.tolist()
    whole = shapely.union_all(cells.projection.shapes(zones.geometry))
    for row in np.flatnonzero(cells.served):
        cell = cells.epochs[0].polygons[row]
        outside = shapely.area(shapely.difference(cell, whole)) / shapely.area(cell)
        if outside < 1e-9:
            assert sums[row] == 1
        assert 1 - float(sums[row]) == pytest.approx(outside, abs=2e-6)
    assert all(sums[row] == 0 for row in np.flatnonzero(~cells.served))


def test_shares_are_areas(maps) -> None:
    """One tower in the middle of a 2 x 1 map, and one that serves the left half alone."""
    zones = maps.zones(2, 1)
    one = overlay(voronoi_cells(maps.towers([(1, 0.5)]), zones, buffer_m=0), zones)
    np.testing.assert_allclose(one.shares.toarray(), [[0.5, 0.5]], atol=1e-4)
    two = overlay(voronoi_cells(maps.towers([(0.5, 0.5), (1.5, 0.5)]), zones, buffer_m=0), zones)
    np.testing.assert_allclose(two.shares.toarray(), np.eye(2), atol=2e-3)


def test_a_tower_outside_counts_with_the_share_of_its_cell_that_lies_in_a_zone(maps) -> None:
    zones = maps.zones(2, 1)
    found = overlay(voronoi_cells(maps.towers([(0.5, 0.5), (2.5, 0.5)]), zones), zones)
    near = found.sums[1]
    assert 0 < near < 0.5
    beyond = overlay(voronoi_cells(maps.towers([(0.5, 0.5), (8, 0.5)]), zones), zones)
    assert beyond.sums[1] == 0


def test_spreading_counts_keeps_the_mass(maps) -> None:
    zones = maps.zones()
    rng = np.random.default_rng(5)
    found = overlay(
        voronoi_cells(maps.towers(rng.uniform(0, 4, (50, 2))), zones, buffer_m=0), zones
    )
    visits = rng.integers(0, 100, (50, 24))
    spread = found.to_zones(visits)
    assert spread.shape == (16, 24)
    np.testing.assert_allclose(spread.sum(axis=0), visits.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.to_zones(visits[:, 0]), spread[:, 0])
    with pytest.raises(UsageError, match="spreads 50 places"):
        found.to_zones(visits[:49])


def test_identical_towers_have_identical_shares(maps) -> None:
    zones = maps.zones()
    found = overlay(voronoi_cells(maps.towers([(1, 1), (3, 3), (1, 1)]), zones), zones)
    assert (found.shares.toarray()[0] == found.shares.toarray()[2]).all()


def test_overlapping_zones_are_scaled_to_one() -> None:
    zones = Places.of(
        PlaceKind.ZONES, ["a", "b"], [box(2.30, 48.80, 2.32, 48.81), box(2.30, 48.80, 2.32, 48.81)]
    )
    tower = Places.of(PlaceKind.TOWERS, ["t"], [Point(2.31, 48.805)])
    found = overlay(voronoi_cells(tower, zones, buffer_m=0), zones)
    assert found.shares.toarray().tolist() == [[0.5, 0.5]]


def test_a_hairline_gap_between_zones_loses_nothing_and_a_real_gap_does() -> None:
    tower = Places.of(PlaceKind.TOWERS, ["t"], [Point(2.31, 48.805)])
    region = box(2.30, 48.80, 2.32, 48.81)
    for gap, lost in ((1e-9, 0.0), (0.002, 0.1)):
        halves = [box(2.30, 48.80, 2.31 - gap, 48.81), box(2.31, 48.80, 2.32, 48.81)]
        zones = Places.of(PlaceKind.ZONES, ["a", "b"], halves)
        total = overlay(voronoi_cells(tower, region, buffer_m=0), zones).sums[0]
        assert (total == 1) == (lost == 0)
        assert 1 - total == pytest.approx(lost, abs=1e-4)


def test_shares_of_a_changing_network_are_averaged_over_time(maps) -> None:
    """b is added after two of seven days: a's shares are 2/7 of the old and 5/7 of the new."""
    zones = maps.zones(2, 1)
    both = [(ALWAYS_FROM, ALWAYS_TO), (MONDAY + 2 * DAY, ALWAYS_TO)]
    towers = maps.towers([(0.5, 0.5), (1.5, 0.5)], valid=both)
    found = overlay(voronoi_cells(towers, zones, buffer_m=0, period=WEEK), zones)
    alone = overlay(voronoi_cells(maps.towers([(0.5, 0.5)]), zones, buffer_m=0), zones)
    pair = overlay(voronoi_cells(maps.towers([(0.5, 0.5), (1.5, 0.5)]), zones, buffer_m=0), zones)
    expected = (2 * alone.shares.toarray()[0] + 5 * pair.shares.toarray()[0]) / 7
    np.testing.assert_allclose(found.shares.toarray()[0], expected, atol=1e-12)
    np.testing.assert_allclose(found.shares.toarray()[1], pair.shares.toarray()[1], atol=1e-12)
    assert true_sums(found.shares) == [1, 1]


def test_a_tower_that_moved_has_the_shares_of_each_of_its_places(maps) -> None:
    zones = maps.zones(2, 1)
    towers = maps.towers(
        [(0.5, 0.5), (1.5, 0.5)],
        valid=[(ALWAYS_FROM, MONDAY + DAY), (MONDAY + DAY, ALWAYS_TO)],
        ids=["t", "t"],
    )
    found = overlay(voronoi_cells(towers, zones, buffer_m=1.0, period=WEEK), zones)
    assert found.place_ids.tolist() == ["t", "t"]
    assert (found.sums > 0.99).all()  # alone at any time, it serves everything


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=9), min_size=1, max_size=9),
    st.integers(0, 20),
)
def test_exact_and_quantised_rows_never_sum_to_more_than_one(
    rows: list[list[float]], power: int
) -> None:
    width = max(len(row) for row in rows)
    dense = np.zeros((len(rows), width))
    for k, row in enumerate(rows):
        dense[k, : len(row)] = row
    total = dense.sum(axis=1, keepdims=True)
    dense /= np.maximum(total, 1)  # as division leaves it: up to 1 + 1e-15
    shares = exact_shares(sp.csr_array(dense))
    exact = true_sums(shares)
    assert all(s <= 1 for s in exact)
    np.testing.assert_allclose(shares.toarray(), dense, atol=1e-12)
    for k in np.flatnonzero(np.abs(dense.sum(axis=1) - 1) < 1e-15):
        assert exact[k] == 1
    units = 1 << power
    whole = quantised(shares, units)
    assert whole.dtype == np.int64
    assert (whole.sum(axis=1) <= units).all()
    slack = shares.toarray() * units - whole.toarray()
    assert ((slack >= 0) & (slack < 1)).all()


def test_sums_are_exact_in_any_order() -> None:
    rng = np.random.default_rng(11)
    dense = rng.dirichlet(np.full(200, 0.1), 50)
    shares = exact_shares(sp.csr_array(dense)).toarray()
    for _ in range(5):
        assert (shares[:, rng.permutation(200)].sum(axis=1) == 1.0).all()


def test_what_is_refused(maps) -> None:
    zones = maps.zones(2, 1)
    ids = zones.ids
    for bad, match in (
        ([[0.75, 0.5], [0, 0]], "more than one"),
        ([[-0.25, 0.5], [0, 0]], "negative"),
        ([[0.1 + 2**-55, 0.5], [0, 0]], "multiples"),
        ([[0.5, 0.5]], "shape"),
    ):
        with pytest.raises(UsageError, match=match):
            Overlay(ids, ids, sp.csr_array(np.array(bad)))
    with pytest.raises(UsageError, match="more than one"):
        exact_shares(sp.csr_array(np.array([[0.9, 0.2]])))
    good = sp.csr_array(np.array([[0.5, 0.25]]))
    for units in (0, -2, 3, 1000, SHARE_UNITS * 2):
        with pytest.raises(UsageError, match="power of two"):
            quantised(good, units)
    for value in (np.nan, np.inf, -0.5):
        with pytest.raises(UsageError, match="finite shares"):
            quantised(sp.csr_array(np.array([[value]])), 16)
    towers = maps.towers([(1, 0.5)])
    cells = voronoi_cells(towers, zones)
    with pytest.raises(UsageError, match="over zones"):
        overlay(cells, towers)


def test_located_events_need_no_spreading(maps) -> None:
    zones = maps.zones()
    values = np.arange(32).reshape(16, 2)
    assert (Overlay.identity(zones).to_zones(values) == values).all()


@pytest.mark.real_data
def test_the_real_towers_of_paris(paris: tuple[Places, Places]) -> None:
    towers, zones = paris
    cells = voronoi_cells(towers, zones)
    found = overlay(cells, zones)
    sums = true_sums(found.shares)
    assert all(s <= 1 for s in sums)
    assert found.shares.shape == (len(towers), 992)
    assert sum(s == 1 for s in sums) > 1250
    # Every zone is served, and what the cells hold of a zone is the zone, no more, no less.
    area = shapely.area(cells.epochs[0].polygons)
    rows = np.flatnonzero(cells.served)
    _, first = np.unique(shapely.to_wkb(cells.epochs[0].polygons[rows]), return_index=True)
    first = rows[first]
    served = found.shares[first].T @ area[first]
    of_zone = shapely.area(cells.projection.shapes(zones.geometry))
    np.testing.assert_allclose(served, of_zone, rtol=1e-4)
    inside = overlay(voronoi_cells(towers, zones, buffer_m=0), zones)
    assert set(inside.sums.tolist()) == {0.0, 1.0}
