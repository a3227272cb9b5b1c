"""Zones from every format and coordinate system; outlines that are refused or repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely
from tests.io.planted import refused

from sfumato.errors import InputError
from sfumato.io.zones import read_zones
from sfumato.model.places import PlaceKind, Places

Written = Callable[..., Path]
LEFT, RIGHT = shapely.box(2.0, 48.0, 2.1, 48.1), shapely.box(2.1, 48.0, 2.2, 48.1)
BOW = shapely.Polygon([(2.0, 48.0), (2.1, 48.1), (2.1, 48.0), (2.0, 48.1)])


def frame(shapes: list[Any] | None = None, **columns: Any) -> geopandas.GeoDataFrame:
    shapes = [LEFT, RIGHT] if shapes is None else shapes
    columns = columns or {"zone_id": [f"0{k}" for k in range(len(shapes))]}
    return geopandas.GeoDataFrame(columns, geometry=shapes, crs="EPSG:4326")


def same(zones: Places) -> None:
    assert zones.kind is PlaceKind.ZONES
    assert zones.ids.tolist() == ["00", "01"]
    found = np.array([shape.bounds for shape in zones.geometry])
    assert np.allclose(found, [LEFT.bounds, RIGHT.bounds], atol=1e-6)


@pytest.mark.parametrize("ending", ["geojson", "gpkg", "shp", "parquet"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:2154", "EPSG:3035"])
def test_formats_and_coordinate_systems(ending: str, crs: str, tmp_path: Path) -> None:
    path = tmp_path / f"zones.{ending}"
    shapes = frame().to_crs(crs)
    if ending == "parquet":
        shapes.to_parquet(path)
    elif ending == "geojson":
        shapes.to_file(path, driver="GeoJSON")
    else:
        shapes.to_file(path)
    same(read_zones(path))
    same(read_zones(shapes))


@pytest.mark.parametrize("name", ["tile_ID", "grid_id", "code_iris", "GEOID", "id", "Zone-ID"])
def test_names_of_ids(name: str) -> None:
    zones = read_zones(frame(**{name: ["b", "a"], "pop": [1, 2], "nom_iris": ["Bé", None]}))
    assert zones.ids.tolist() == ["a", "b"]
    assert zones.names.tolist() == ["a", "Bé"]


def test_ids_and_names_can_be_chosen() -> None:
    two = frame(zone_id=[1, 2], tile_id=[10.0, 20.0], note=["x", "y"])
    assert "'zone_id', 'tile_id' could all be the zone" in refused(lambda: read_zones(two))
    zones = read_zones(two, "tile_id", "note")
    assert zones.ids.tolist() == ["10", "20"]
    assert zones.names.tolist() == ["x", "y"]
    assert "no such column" in refused(lambda: read_zones(two, "tile_id", "title"))
    nameless = frame(pop=[1, 2])
    assert "zone_id=NAME" in refused(lambda: read_zones(nameless))
    bare = frame().drop(columns="zone_id")
    assert "recognised as the zone" in refused(lambda: read_zones(bare))


def test_ids_of_features_are_ids(csv_file: Written) -> None:
    feature = {"type": "Feature", "id": 12, "properties": {}, "geometry": LEFT.__geo_interface__}
    path = csv_file(json.dumps({"type": "FeatureCollection", "features": [feature]}), "a.geojson")
    assert read_zones(path).ids.tolist() == ["12"]


def test_text_that_is_not_utf8(csv_file: Written) -> None:
    feature = {"type": "Feature", "properties": {"id": "aSPOILb"}, "geometry": None}
    text = json.dumps({"type": "FeatureCollection", "features": [feature]}).encode()
    path = csv_file(text.replace(b"SPOIL", b"\xff\xfe"), "a.geojson")
    assert "column 'id': the text is not UTF-8" in refused(lambda: read_zones(path))


def test_a_self_crossing_outline_names_the_zone_and_can_be_repaired() -> None:
    crossing = frame([BOW, RIGHT])
    text = refused(lambda: read_zones(crossing))
    assert "row 1: the outline of zone '00' is not valid (self-intersection)" in text
    assert "`repair_zones`" in text
    notes: list[str] = []
    zones = read_zones(crossing, repair=True, tell=notes.append)
    assert shapely.is_valid(zones.geometry).all()
    assert zones.geometry[0].geom_type == "MultiPolygon"
    assert notes == ["table: 1 outlines repaired"]
    flat = frame([shapely.Polygon([(2.0, 48.0), (2.1, 48.1), (2.0, 48.0)]), RIGHT])
    assert "zone '00' has no area" in refused(lambda: read_zones(flat, repair=True))


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ([LEFT, None], "row 2: the zone has no shape"),
        ([LEFT, shapely.Polygon()], "row 2: the zone has no shape"),
        ([LEFT, shapely.Point(2.0, 48.0)], "row 2: the zone is not a polygon"),
        ([LEFT, LEFT.boundary], "row 2: the zone is not a polygon"),
        ([shapely.box(200.0, 48.0, 201.0, 49.0), LEFT], "zone '00' lies outside the range"),
        ([shapely.box(48.0, 102.0, 48.1, 102.1)], "longitude and latitude look swapped"),
        ([LEFT, shapely.box(2.05, 48.0, 2.2, 48.1)], "zones '00' and '01' overlap by 50.0 %"),
        ([LEFT, shapely.box(2.01, 48.01, 2.02, 48.02)], "zones '00' and '01' overlap by 100.0 %"),
    ],
)
def test_shapes_that_are_refused(shapes: list[Any], problem: str) -> None:
    text = refused(lambda: read_zones(frame(shapes)))
    assert problem in text


def test_coordinates_that_are_not_numbers() -> None:
    with np.errstate(invalid="ignore"):
        ring = shapely.linearrings([[2.0, 48.0], [np.nan, 48.1], [2.1, 48.0], [2.0, 48.0]])
    assert "row 1: the outline has a coordinate that is not a number" in refused(
        lambda: read_zones(frame([shapely.Polygon(ring), RIGHT]))
    )


def test_seams_pass_with_a_note() -> None:
    notes: list[str] = []
    seam = shapely.box(2.0999, 48.0, 2.2, 48.1)
    assert len(read_zones(frame([LEFT, seam]), tell=notes.append)) == 2
    assert notes == ["table: zones overlap at their seams, by 0.10 % at most"]


def test_ids_stand_once() -> None:
    text = refused(lambda: read_zones(frame(zone_id=["a", "a"])))
    assert "column 'zone_id', row 2: the zone id 'a' stands twice" in text


def test_a_missing_coordinate_system() -> None:
    degrees = frame().set_crs(None, allow_override=True)
    same(read_zones(degrees))
    metres = frame().to_crs("EPSG:2154").set_crs(None, allow_override=True)
    assert "does not state its coordinate system" in refused(lambda: read_zones(metres))
    turned = shapely.transform(LEFT, lambda p: np.column_stack([p[:, 1], p[:, 0] + 100]))
    swapped = frame([turned]).set_crs(None, allow_override=True)
    assert "look swapped" in refused(lambda: read_zones(swapped))


def test_heights_are_dropped() -> None:
    zones = read_zones(frame([shapely.force_3d(LEFT, 35.0), RIGHT]))
    assert not shapely.has_z(zones.geometry).any()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("zones.csv", b"zone_id,name\na,b\n"),
        ("zones.geojson", b'{"type":"FeatureCollection","features":[]}'),
        ("zones.geojson", b'{"type":"FeatureCollection","features":[{"type":"Feature"'),
        ("zones.geojson", b"\x89PNG\r\n\x1a\n"),
        ("zones.gpkg", b"SQLite format 3\0junk"),
        ("zones.txt", b"hello"),
    ],
)
def test_files_without_zones(name: str, content: bytes, csv_file: Written) -> None:
    path = csv_file(content, name)
    assert str(path) in refused(lambda: read_zones(path))


def test_what_is_no_place_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_zones(tmp_path / "none.gpkg")
    with pytest.raises(InputError, match="cannot be read as a file of places"):
        read_zones(tmp_path)
