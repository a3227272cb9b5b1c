"""Squares and hexagons: they cover the region and keep their ids."""

from __future__ import annotations

import h3
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import Point, Polygon, box

from sfumato.errors import InputError, UsageError
from sfumato.geography import grids
from sfumato.geography.grids import grid_crs, h3_grid, square_grid
from sfumato.geography.locate import Locator
from sfumato.geography.projection import Projection
from sfumato.model.places import PlaceKind, Places

PARIS = box(2.30, 48.84, 2.36, 48.88)


def uncovered(grid: Places, region: shapely.Geometry) -> float:
    return float(shapely.area(shapely.difference(region, shapely.union_all(grid.geometry))))


def test_squares_have_the_size_they_say_and_cover_the_region() -> None:
    grid = square_grid(PARIS, 500)
    assert grid.kind is PlaceKind.ZONES
    areas = shapely.area(Projection.around(grid).shapes(grid.geometry))
    np.testing.assert_allclose(areas, 250_000, rtol=1e-5)  # EPSG:3035 is equal-area too
    assert uncovered(grid, PARIS) < 1e-12
    assert (shapely.area(shapely.intersection(grid.geometry, PARIS)) > 0).all()


def test_a_square_is_named_by_its_corner_in_the_european_grid() -> None:
    """Notre-Dame stands in the kilometre square with this corner."""
    square = square_grid(Point(2.3499, 48.8530).buffer(1e-6), 1000)
    assert square.ids.tolist() == ["CRS3035RES1000mN2889000E3760000"]


def test_ids_do_not_depend_on_the_region() -> None:
    whole = square_grid(PARIS, 500)
    part = square_grid(box(2.33, 48.85, 2.34, 48.86), 500)
    shared = np.isin(whole.ids, part.ids)
    assert set(part.ids) <= set(whole.ids)
    assert (whole.geometry[shared] == part.geometry).all()
    hexagons, some = h3_grid(PARIS, 8), h3_grid(box(2.33, 48.85, 2.34, 48.86), 8)
    assert set(some.ids) <= set(hexagons.ids)


@pytest.mark.parametrize(
    ("region", "crs"),
    [
        (PARIS, "EPSG:3035"),
        (box(-122.52, 37.70, -122.35, 37.83), "EPSG:32610"),
        (box(-46.8, -23.7, -46.4, -23.4), "EPSG:32723"),
        (box(120.0, 30.1, 120.4, 30.4), "EPSG:32651"),
        (box(179.0, -17.0, 179.9, -16.0), "EPSG:32760"),
    ],
)
def test_the_projection_follows_the_place(region: Polygon, crs: str) -> None:
    assert grid_crs(region) == crs
    grid = square_grid(region, 5000)
    assert all(key.startswith(f"CRS{crs[5:]}RES5000mN") for key in grid.ids)
    assert uncovered(grid, region) < 1e-9


def test_the_projection_may_be_named() -> None:
    grid = square_grid(PARIS, 1000, crs="EPSG:32631")
    assert all(key.startswith("CRS32631RES1000m") for key in grid.ids)
    for bad, match in (
        ("EPSG:4326", "in metres"),
        ("EPSG:2263", "in metres"),
        ("XYZ", "not a known"),
    ):
        with pytest.raises(UsageError, match=match):
            square_grid(PARIS, 1000, crs=bad)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.floats(-170, 170),
    st.floats(-70, 70),
    st.floats(0.001, 0.05),
    st.integers(6, 9),
)
def test_hexagons_cover_any_region(lon: float, lat: float, side: float, resolution: int) -> None:
    thin = Polygon([(lon, lat), (lon + side, lat), (lon + side, lat + side / 50)])
    grid = h3_grid(thin, resolution)
    assert uncovered(grid, thin) <= 1e-9 * side**2
    assert all(h3.get_resolution(str(key)) == resolution for key in grid.ids)
    points = shapely.get_coordinates(thin)
    found = Locator(grid).locate(points[:, 0], points[:, 1])
    assert (found >= 0).all()


def test_hexagons_follow_a_parallel_for_hundreds_of_kilometres() -> None:
    strip = box(0, 60, 8, 60.005)
    assert uncovered(h3_grid(strip, 8), strip) < 1e-9


def test_a_hexagon_holds_the_points_that_h3_gives_it() -> None:
    grid = h3_grid(PARIS, 8)
    points = np.random.default_rng(8).uniform((2.30, 48.84), (2.36, 48.88), (2000, 2))
    ours = grid.ids[Locator(grid).locate(points[:, 0], points[:, 1])]
    theirs = np.array([h3.latlng_to_cell(lat, lon, 8) for lon, lat in points])
    assert (ours == theirs).mean() > 0.999  # H3's edges are great circles, ours straight


def test_squares_do_not_overlap_and_leave_no_gap() -> None:
    grid = square_grid(PARIS, 250)
    points = np.random.default_rng(9).uniform((2.30, 48.84), (2.36, 48.88), (20_000, 2))
    point, _ = shapely.STRtree(grid.geometry).query(shapely.points(points), predicate="within")
    assert (np.bincount(point, minlength=len(points)) == 1).all()


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (0, -5, 2.5, True):
        with pytest.raises(UsageError, match="whole metres"):
            square_grid(PARIS, size)  # type: ignore[arg-type]
    for resolution in (-1, 16, 2.5, True):
        with pytest.raises(UsageError, match="0 to 15"):
            h3_grid(PARIS, resolution)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no area"):
        square_grid(shapely.LineString([(2, 48), (3, 49)]), 500)
    date_line = box(179.99, -17.0, 180.0, -16.99)
    with pytest.raises(InputError, match="antimeridian"):
        h3_grid(date_line, 6)
    with pytest.raises(InputError, match="antimeridian"):
        square_grid(date_line, 5000)
    monkeypatch.setattr(grids, "MAX_CELLS", 100)
    with pytest.raises(UsageError, match="more than 100 squares"):
        square_grid(PARIS, 100)
    with pytest.raises(UsageError, match="more than 100 cells"):
        h3_grid(PARIS, 11)
