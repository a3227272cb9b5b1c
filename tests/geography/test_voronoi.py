"""Voronoi cells: who serves which ground, and when."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import box
from shapely.ops import unary_union

from sfumato.errors import InputError, UsageError
from sfumato.geography.projection import Projection
from sfumato.geography.voronoi import Cells, voronoi_cells
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

DAY = 86_400_000_000
WEEK = TimeGrid.between(date(2021, 6, 7), date(2021, 6, 14), "1h", "UTC")
MONDAY = int(WEEK.edges[0])


def check_partition(cells: Cells) -> None:
    """Cells hold their towers (to the metre), do not overlap and together fill the clip."""
    for epoch in cells.epochs:
        rows = np.flatnonzero(~shapely.is_missing(epoch.polygons))
        polygons = epoch.polygons[rows]
        at = cells.projection.points(*shapely.get_coordinates(cells.towers.geometry[rows]).T)
        assert (shapely.distance(polygons, shapely.points(at)) <= 2.0).all()
        distinct = np.array(list({shapely.to_wkb(p): p for p in polygons}.values()), dtype=object)
        assert shapely.is_valid(distinct).all()
        area = shapely.area(cells.clip)
        assert shapely.area(distinct).sum() == pytest.approx(area, rel=1e-9)
        assert shapely.area(shapely.union_all(distinct)) == pytest.approx(area, rel=1e-9)


@pytest.mark.parametrize(
    "steps",
    [
        [(2, 2)],
        [(1, 2), (3, 2)],
        [(1, 2), (1.0001, 2)],  # seven metres apart
        [(0.5, 0.5), (1.5, 1.5), (2.5, 2.5), (3.5, 3.5)],  # on a line
        [(k, 2) for k in range(5)],
        [(x, y) for x in range(5) for y in range(5)],  # four on every circle
    ],
    ids=["one", "two", "near", "diagonal", "row", "lattice"],
)
@pytest.mark.parametrize("buffer_m", [0.0, 3000.0])
def test_few_towers_and_towers_in_line(
    maps, steps: list[tuple[float, float]], buffer_m: float
) -> None:
    cells = voronoi_cells(maps.towers(steps), maps.zones(), buffer_m=buffer_m)
    assert cells.served.all()
    check_partition(cells)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60),
    st.sampled_from([0.0, 500.0, 3000.0]),
)
def test_any_towers_make_a_partition(steps: list[tuple[int, int]], buffer_m: float) -> None:
    at = np.array([2.30, 48.80]) + np.array(steps) * 0.001
    towers = Places.of(
        PlaceKind.TOWERS, [f"t{k}" for k in range(len(at))], list(shapely.points(at))
    )
    cells = voronoi_cells(towers, box(2.29, 48.79, 2.35, 48.85), buffer_m=buffer_m)
    check_partition(cells)


def test_every_point_belongs_to_the_nearest_tower(maps) -> None:
    rng = np.random.default_rng(7)
    towers = maps.towers(rng.uniform(0, 4, (60, 2)))
    cells = voronoi_cells(towers, maps.zones())
    sites = cells.projection.points(*shapely.get_coordinates(towers.geometry).T)
    somewhere = rng.uniform(sites.min(axis=0), sites.max(axis=0), (2000, 2))
    distance = np.hypot(*(somewhere[:, None] - sites).transpose(2, 0, 1))
    first, second = np.partition(distance, 1, axis=1)[:, :2].T
    clear = second - first > 2  # positions are rounded to metres
    nearest = distance.argmin(axis=1)
    held = shapely.covers(cells.epochs[0].polygons[nearest], shapely.points(somewhere))
    assert clear.sum() > 1900
    assert held[clear].all()


def test_towers_on_the_same_spot_share_the_whole_cell(maps) -> None:
    alone = voronoi_cells(maps.towers([(1, 1), (3, 3)]), maps.zones())
    shared = voronoi_cells(maps.towers([(1, 1), (3, 3), (1, 1), (1, 1.000001)]), maps.zones())
    polygons = shared.epochs[0].polygons
    assert polygons[0] == polygons[2] == polygons[3]
    assert polygons[0] == alone.epochs[0].polygons[0]
    assert polygons[1] == alone.epochs[0].polygons[1]


def test_towers_near_the_region_have_cells_and_distant_ones_take_no_part(maps) -> None:
    # A step is 730 m to the east; the zones end at 4 steps.
    cells = voronoi_cells(maps.towers([(2, 2), (6, 2), (9, 2)]), maps.zones())
    assert cells.served.tolist() == [True, True, False]
    without = voronoi_cells(maps.towers([(2, 2), (6, 2)]), maps.zones())
    assert (cells.epochs[0].polygons[:2] == without.epochs[0].polygons).all()
    narrow = voronoi_cells(maps.towers([(2, 2), (6, 2), (9, 2)]), maps.zones(), buffer_m=0)
    assert narrow.served.tolist() == [True, False, False]
    assert shapely.equals(narrow.epochs[0].polygons[0], narrow.clip)


def test_the_order_of_the_towers_does_not_matter(maps) -> None:
    steps = np.random.default_rng(3).uniform(0, 4, (30, 2))
    ids = [f"t{k:02d}" for k in range(30)]
    one = voronoi_cells(maps.towers(steps, ids=ids), maps.zones())
    other = voronoi_cells(maps.towers(steps[::-1], ids=ids[::-1]), maps.zones())
    assert (one.epochs[0].polygons == other.epochs[0].polygons).all()


def test_a_polygon_may_stand_for_the_region_and_a_hole_stays_a_hole(maps) -> None:
    outer = unary_union(list(maps.zones().geometry))
    ring = shapely.difference(outer, box(2.315, 48.815, 2.325, 48.825))
    cells = voronoi_cells(maps.towers([(0.5, 0.5), (3.5, 3.5), (2, 2)]), ring, buffer_m=0)
    assert cells.served.tolist() == [True, True, False]  # the third stands in the hole
    check_partition(cells)


def test_a_tower_that_moves_within_the_period_has_a_cell_at_each_place(maps) -> None:
    towers = maps.towers(
        [(1, 2), (3, 2), (3.5, 2)],
        valid=[
            (ALWAYS_FROM, ALWAYS_TO),
            (ALWAYS_FROM, MONDAY + 2 * DAY),
            (MONDAY + 2 * DAY, ALWAYS_TO),
        ],
        ids=["a", "b", "b"],
    )
    cells = voronoi_cells(towers, maps.zones(), period=WEEK)
    assert [(e.start - MONDAY, e.end - MONDAY) for e in cells.epochs] == [
        (0, 2 * DAY),
        (2 * DAY, 7 * DAY),
    ]
    missing = [shapely.is_missing(e.polygons).tolist() for e in cells.epochs]
    assert missing == [[False, False, True], [False, True, False]]
    # a's border with b lies half way, so it moves too.
    assert shapely.area(cells.epochs[0].polygons[0]) < shapely.area(cells.epochs[1].polygons[0])
    check_partition(cells)


def test_what_happens_outside_the_period_or_out_of_reach_changes_nothing(maps) -> None:
    towers = maps.towers(
        [(1, 2), (3, 2), (2, 2), (90, 90)],
        valid=[
            (ALWAYS_FROM, ALWAYS_TO),
            (MONDAY - 5 * DAY, MONDAY + 9 * DAY),
            (MONDAY - 9 * DAY, MONDAY),  # taken down as the period begins
            (MONDAY + DAY, MONDAY + 2 * DAY),  # far away
        ],
    )
    cells = voronoi_cells(towers, maps.zones(), period=WEEK)
    assert len(cells.epochs) == 1
    assert cells.served.tolist() == [True, True, False, False]


def test_an_epoch_may_have_no_tower(maps) -> None:
    towers = maps.towers([(1, 2)], valid=[(MONDAY + DAY, MONDAY + 2 * DAY)])
    cells = voronoi_cells(towers, maps.zones(), period=WEEK)
    assert [bool(shapely.is_missing(e.polygons[0])) for e in cells.epochs] == [True, False, True]


def test_what_is_refused(maps) -> None:
    towers, zones = maps.towers([(1, 1)]), maps.zones()
    with pytest.raises(UsageError, match="made of towers"):
        voronoi_cells(zones, zones)
    with pytest.raises(UsageError, match="zero or more"):
        voronoi_cells(towers, zones, buffer_m=-1)
    with pytest.raises(UsageError, match="zero or more"):
        voronoi_cells(towers, zones, buffer_m=float("nan"))
    with pytest.raises(UsageError, match="depend on the period"):
        voronoi_cells(maps.towers([(1, 1)], valid=[(0, 10)]), zones)
    with pytest.raises(InputError, match="No tower lies in the region"):
        voronoi_cells(maps.towers([(90, 90)]), zones)
    swapped = Places.of(PlaceKind.TOWERS, ["t"], [shapely.Point(48.81, 2.31)])
    with pytest.raises(InputError, match="not swapped"):
        voronoi_cells(swapped, zones)
    with pytest.raises(InputError, match="no area"):
        voronoi_cells(towers, shapely.LineString([(2, 48), (3, 49)]), buffer_m=0)


def test_the_plane_may_be_given(maps) -> None:
    cells = voronoi_cells(maps.towers([(1, 1)]), maps.zones(), projection=Projection(3, 48))
    assert cells.projection == Projection(3, 48)
