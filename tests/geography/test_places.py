"""Places are said in one way: what is counted, what is released, and what does not go together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import shapely

from sfumato.density.suggest import coarser_grids
from sfumato.errors import InputError, UsageError
from sfumato.geography.grids import geohash_grid, grid_places
from sfumato.geography.places import PlaceOptions, region_of
from sfumato.model.places import PlaceKind, Places

BOX = "2.30,48.84,2.36,48.88"
TOWERS = Places.of(
    PlaceKind.TOWERS,
    ["a", "b", "c"],
    shapely.points([[2.31, 48.85], [2.33, 48.86], [2.35, 48.87]]),
)


def test_towers_alone_are_counted_and_released() -> None:
    opened = PlaceOptions(TOWERS).open()
    assert opened.counted is opened.released is TOWERS
    assert opened.shares is None
    assert opened.zone_layout is None


@pytest.mark.parametrize("grid", ["1km", "500m@EPSG:32631", "h3:8", "geohash:6"])
def test_towers_are_spread_over_the_cells_of_any_grid(grid: str) -> None:
    opened = PlaceOptions(TOWERS, grid=grid, region=BOX).open()
    assert opened.shares is not None
    assert opened.zone_layout is not None
    whole = opened.shares.to_zones(np.array([10.0, 20.0, 30.0]))
    assert whole.shape == (len(opened.released),)
    assert 10 < whole.sum() <= 60, "what towers serve beyond the region is nobody's"
    assert opened.layout.areas.size == 3


@pytest.mark.parametrize("grid", ["1km", "h3:8", "geohash:6"])
def test_a_region_is_a_box_a_shape_places_or_a_file(grid: str, tmp_path: Path) -> None:
    outline = shapely.box(2.30, 48.84, 2.36, 48.88)
    zones = Places.of(PlaceKind.ZONES, ["all"], [outline])
    shapely_feature = {"type": "Feature", "properties": {}, "geometry": outline.__geo_interface__}
    file = tmp_path / "region.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [shapely_feature]}))
    said = [BOX, (2.30, 48.84, 2.36, 48.88), outline, zones, file, str(file)]
    found = [PlaceOptions(grid=grid, region=region).open().released for region in said]
    assert len({places.fingerprint() for places in found}) == 1
    assert len(found[0]) > 1


def test_geohashes_are_the_known_ones() -> None:
    """Niemeyer's own example, and the tower of Paris."""
    assert geohash_grid(shapely.Point(-5.6, 42.6).buffer(1e-4), 5).ids.tolist() == ["ezs42"]
    assert geohash_grid(shapely.Point(2.2945, 48.8584).buffer(1e-6), 7).ids.tolist() == ["u09tunq"]


def test_geohashes_tile_a_box() -> None:
    box = shapely.box(2.30, 48.84, 2.36, 48.88)
    cells = geohash_grid(box, 6)
    areas = shapely.area(cells.geometry)
    np.testing.assert_allclose(areas, areas[0])
    assert shapely.area(shapely.union_all(cells.geometry)) == pytest.approx(areas.sum())
    assert shapely.area(shapely.difference(box, shapely.union_all(cells.geometry))) < 1e-12


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "No places"),
        ({"grid": "1km"}, "region"),
        ({"region": BOX}, "grid"),
        ({"grid": "1km", "region": BOX, "zones": TOWERS}, "exclude"),
        ({"grid": "1 furlong", "region": BOX}, "not a grid"),
        ({"grid": "h3:99", "region": BOX}, "H3"),
        ({"grid": "geohash:0", "region": BOX}, "geohash"),
        ({"grid": "geohash:9", "region": "2,48,4,50"}, "more than"),
        ({"grid": "1m", "region": "2,48,4,50"}, "more than"),
        ({"grid": "1km", "region": "3,48,2,50"}, "west, south"),
        ({"grid": "500m@EPSG:4326", "region": BOX}, "metres"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word) as refused:
        PlaceOptions(**options).open()  # type: ignore[arg-type]
    assert "--" not in str(refused.value), "Python speaks Python"


def test_a_region_needs_polygons(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        region_of(tmp_path / "none.geojson")
    table = tmp_path / "towers.csv"
    table.write_text("tower_id,lon,lat\na,2.3,48.8\n")
    with pytest.raises(InputError, match="polygons"):
        region_of(table)


def test_ids_of_a_grid_come_from_the_grid() -> None:
    for said in ("500m", "h3:8", "geohash:6"):
        whole = grid_places(said, shapely.box(2.30, 48.84, 2.36, 48.88))
        part = grid_places(said, shapely.box(2.33, 48.85, 2.34, 48.86))
        assert set(part.ids) <= set(whole.ids)


@pytest.mark.parametrize("said", ["333m", "750m", "1km", "1.5km"])
def test_a_coarser_grid_that_is_proposed_can_be_said(said: str) -> None:
    """1 km and a half is `1.5km`, and half a metre more or less is none."""
    side = float(said.rstrip("km")) * (1000 if said.endswith("km") else 1)
    for text, fewer in coarser_grids(said):
        number = re.search(
            r"RES(\d+)m", grid_places(text, shapely.box(2.34, 48.85, 2.35, 48.86)).ids[0]
        )
        assert number is not None
        assert float(number[1]) == pytest.approx(side * fewer**0.5)


def test_squares_have_whole_metres() -> None:
    for said in ("0.5m", "1.0005km", "0m"):
        with pytest.raises(UsageError):
            grid_places(said, shapely.box(2.34, 48.85, 2.35, 48.86))
