"""Positions to zones: exact, the same in any batch, one zone on a border."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import MultiPolygon, Polygon, box

from sfumato.errors import InputError, UsageError
from sfumato.geography.locate import Locator
from sfumato.model.places import PlaceKind, Places


def zones_of(*shapes: shapely.Geometry) -> Places:
    return Places.of(PlaceKind.ZONES, [f"z{k:04d}" for k in range(len(shapes))], list(shapes))


def at(locator: Locator, *points: tuple[float, float]) -> list[int]:
    lon, lat = np.array(points, dtype=float).T
    return locator.locate(lon, lat).tolist()


def by_shapely(shapes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Lowest zone that meets each point, the slow way."""
    point, zone = shapely.STRtree(shapes).query(shapely.points(points), predicate="intersects")
    found = np.full(len(points), len(shapes))
    np.minimum.at(found, point, zone)
    return np.where(found < len(shapes), found, -1)


def voronoi_zones(seed: int, count: int) -> Places:
    """Irregular zones that fill a square, corners on the lattice of 1e-7 degrees."""
    rng = np.random.default_rng(seed)
    seeds = shapely.multipoints(np.round(rng.uniform(0, 1, (count, 2)), 7))
    parts = shapely.get_parts(shapely.voronoi_polygons(seeds, extend_to=box(0, 0, 1, 1)))
    parts = shapely.intersection(parts, box(0, 0, 1, 1))
    return zones_of(*shapely.transform(parts, lambda xy: np.round(xy, 7)))


def test_a_point_on_a_border_or_corner_belongs_to_the_lowest_zone(maps) -> None:
    locator = Locator(maps.zones(2, 2))
    inside = [(2.305, 48.805), (2.315, 48.805), (2.305, 48.815), (2.315, 48.815)]
    assert at(locator, *inside) == [0, 1, 2, 3]
    assert at(locator, (2.31, 48.805), (2.305, 48.81), (2.315, 48.81)) == [0, 0, 1]
    assert at(locator, (2.31, 48.81)) == [0]
    assert at(locator, (2.30, 48.80), (2.32, 48.82), (2.32, 48.80)) == [0, 3, 1]
    assert at(locator, (2.2999999, 48.805), (2.305, 48.8200001)) == [-1, -1]


def test_slanted_borders_too() -> None:
    lower = Polygon([(0, 0), (3, 0), (3, 1)])
    upper = Polygon([(0, 0), (3, 1), (0, 1)])
    points = [(0.3 * k, 0.1 * k) for k in range(11)]
    assert at(Locator(zones_of(lower, upper)), *points) == [0] * 11
    assert at(Locator(zones_of(upper, lower)), *points) == [0] * 11


def test_what_is_no_position_is_nowhere() -> None:
    locator = Locator(zones_of(box(-180, -90, 180, 90)))
    nan, inf = float("nan"), float("inf")
    nowhere = [
        (nan, 0),
        (0, nan),
        (inf, 0),
        (0, -inf),
        (180.1, 0),
        (0, 90.1),
        (1e300, 0),
        (-1e9, 5),
    ]
    assert at(locator, *nowhere) == [-1] * len(nowhere)
    assert at(locator, (180, 90), (-180, -90), (0, 0), (-0.0, -0.0)) == [0] * 4
    assert locator.locate(np.empty(0), np.empty(0)).shape == (0,)


def test_holes_islands_and_a_zone_in_the_hole() -> None:
    hole = box(0.4, 0.4, 0.6, 0.6)
    ring = Polygon(box(0, 0, 1, 1).exterior, [hole.exterior])
    two = MultiPolygon([box(2, 0, 2.1, 0.1), box(3, 0, 3.1, 0.1)])
    locator = Locator(zones_of(ring, hole, two))
    assert at(locator, (0.5, 0.5), (0.3, 0.5), (0.4, 0.5)) == [1, 0, 0]
    assert at(locator, (2.05, 0.05), (2.5, 0.05), (3.05, 0.05)) == [2, -1, 2]


def test_overlapping_zones_give_the_lowest() -> None:
    locator = Locator(zones_of(box(0, 0, 2, 1), box(1, 0, 3, 1)))
    assert at(locator, (0.5, 0.5), (1.5, 0.5), (2.5, 0.5)) == [0, 0, 1]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 80))
def test_every_position_in_the_area_has_a_zone_and_shapely_agrees(seed: int, count: int) -> None:
    zones = voronoi_zones(seed, count)
    rng = np.random.default_rng(seed + 1)
    corners = shapely.get_coordinates(zones.geometry)
    anywhere = np.round(rng.uniform(-0.05, 1.05, (3000, 2)), 7)
    points = np.concatenate((anywhere, corners, np.round(corners, 4)))
    found = Locator(zones).locate(points[:, 0], points[:, 1])
    clear = (
        shapely.distance(
            shapely.union_all(shapely.boundary(zones.geometry)), shapely.points(points)
        )
        > 2e-7
    )
    assert (found == by_shapely(zones.geometry, points))[clear].all()
    # Corners are in the lowest of their zones, exactly: no rounding is left.
    owner = shapely.get_coordinates(zones.geometry, return_index=True)[1]
    assert (found[3000 : 3000 + len(corners)] <= owner).all()
    assert (found[3000 : 3000 + len(corners)] >= 0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), min_size=3, max_size=7),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([0, 300, 3000]),
)
def test_every_single_position_of_a_small_lattice(
    rings: list[list[tuple[int, int]]], far: int
) -> None:
    """Exhaustive, against shapely on whole numbers: corners, their latitudes, edges, all of it.

    A distant zone makes the raster's squares coarser than the lattice.
    """
    hulls = [shapely.convex_hull(shapely.multipoints(ring)) for ring in rings]
    stars = [Polygon(ring) for ring in rings]
    shapes = [s for s in (*stars, *hulls) if s.geom_type == "Polygon" and s.is_valid and s.area]
    if not shapes:
        return
    if far:
        shapes.append(box(far, far, far + 5, far + 5))
    zones = zones_of(*[shapely.transform(s, lambda xy: xy * 1e-7) for s in shapes])
    points = np.stack(np.meshgrid(np.arange(-2, 27), np.arange(-2, 27)), axis=-1).reshape(-1, 2)
    found = Locator(zones).locate(points[:, 0] * 1e-7, points[:, 1] * 1e-7)
    assert found.tolist() == by_shapely(np.array(shapes, dtype=object), points).tolist()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 700))
def test_neither_batches_nor_order_change_the_answer(seed: int, size: int) -> None:
    zones = voronoi_zones(seed % 5, 30)
    locator = Locator(zones)
    rng = np.random.default_rng(seed)
    lon, lat = rng.uniform(0, 1, (2, 1500))
    whole = locator.locate(lon, lat)
    pieces = [
        locator.locate(lon[k : k + size], lat[k : k + size]) for k in range(0, lon.size, size)
    ]
    assert np.concatenate(pieces).tolist() == whole.tolist()
    order = rng.permutation(lon.size)
    assert locator.locate(lon[order], lat[order]).tolist() == whole[order].tolist()


def test_zones_smaller_and_larger_than_the_raster() -> None:
    """A zone of a metre in a corner of a continent: the raster is coarser than the zone."""
    continent, dot = box(-20, 30, 40, 70), box(2.0, 48.0, 2.00001, 48.00001)
    locator = Locator(zones_of(dot, continent))
    assert at(locator, (2.000005, 48.000005), (2.00002, 48.0), (40, 70)) == [0, 1, 1]


def test_long_slanted_edges_cross_the_raster_unseen_by_no_square() -> None:
    sliver = Polygon([(0, 0), (1, 0.9999), (1, 1)])
    zones = zones_of(sliver, box(0, 0, 1, 1))
    points = np.round(np.random.default_rng(4).uniform(0, 1, (20_000, 2)), 7)
    points[:10_000, 1] = np.round(points[:10_000, 0] - 2e-5 * np.arange(10_000) / 10_000, 7)
    found = Locator(zones).locate(points[:, 0], points[:, 1])
    near = shapely.distance(shapely.boundary(sliver), shapely.points(points)) < 2e-7
    assert (found == by_shapely(zones.geometry, points))[~near].all()
    assert (found == 0).sum() > 1000


def test_other_number_types_and_strides() -> None:
    locator = Locator(zones_of(box(0, 0, 1, 1)))
    both = np.array([[0.5, 0.5], [2.0, 0.5]])
    assert locator.locate(both[:, 0], both[:, 1]).tolist() == [0, -1]
    assert locator.locate(both[:, 0].astype(np.float32), both[:, 1]).tolist() == [0, -1]
    assert locator.locate(np.array([0, 2]), np.array([1, 1])).tolist() == [0, -1]


def test_what_is_refused(maps) -> None:
    with pytest.raises(UsageError, match="towers have no area"):
        Locator(maps.towers([(1, 1)]))
    with pytest.raises(UsageError, match="same length"):
        Locator(maps.zones()).locate(np.zeros(2), np.zeros(3))
    with pytest.raises(InputError, match="'z0000' has no area"):
        Locator(zones_of(box(0, 0, 1e-9, 1e-9), box(1, 1, 2, 2)))


@pytest.mark.real_data
def test_the_cabs_of_san_francisco(real_data: Path) -> None:
    """Eleven million fixes to 195 tracts, more than a million a CPU-second."""
    import geopandas as gpd
    import pyarrow.parquet as pq

    tracts = gpd.read_file(real_data / "cabspotting_sf" / "sf_tracts_2010.geojson")
    zones = Places.of(PlaceKind.ZONES, list(tracts["tractce10"]), list(tracts.geometry))
    locator = Locator(zones)
    locator.locate(np.zeros(1), np.zeros(1))  # compiled, or read from the cache
    table = pq.read_table(
        real_data / "cabspotting_sf" / "cabspotting_sf_2008.parquet", columns=["lon_e5", "lat_e5"]
    )
    lon, lat = (table[name].to_numpy() / 1e5 for name in ("lon_e5", "lat_e5"))
    before = time.process_time()
    found = locator.locate(lon, lat)
    spent = time.process_time() - before
    assert lon.size / spent > 1e6
    assert (found >= 0).mean() == pytest.approx(0.881, abs=0.001)
    some = np.random.default_rng(1).integers(0, lon.size, 50_000)
    assert (found[some] == by_shapely(zones.geometry, np.column_stack((lon, lat))[some])).all()
