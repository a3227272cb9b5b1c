"""Places that are written come back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import shapely

from sfumato.io.towers import read_towers
from sfumato.io.write import geojson, write_places
from sfumato.io.zones import read_zones
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places


def test_zones_come_back(tmp_path: Path) -> None:
    ring = shapely.box(2.0, 48.0, 2.1, 48.1)
    holed = ring.difference(shapely.box(2.04, 48.04, 2.06, 48.06))
    parts = shapely.union(shapely.box(3.0, 48.0, 3.1, 48.1), shapely.box(3.2, 48.0, 3.3, 48.1))
    zones = Places.of(PlaceKind.ZONES, ["b", "007"], [holed, parts], ['Bé "x"', "007"])
    write_places(tmp_path / "zones.geojson", zones)
    back = read_zones(tmp_path / "zones.geojson")
    assert back.ids.tolist() == ["007", "b"]
    assert back.names.tolist() == zones.names.tolist()
    assert back.fingerprint() == zones.fingerprint()


def test_towers_come_back_with_their_validity(tmp_path: Path) -> None:
    towers = Places.of(
        PlaceKind.TOWERS,
        ["a", "a", "b"],
        list(shapely.points([2.0, 2.1, 2.2], [48.0, 48.1, 48.123456789])),
        valid_from=np.array([ALWAYS_FROM, 1_700_000_000_000_000, 0]),
        valid_to=np.array([1_700_000_000_000_000, ALWAYS_TO, 1_700_000_000_001_000]),
    )
    write_places(tmp_path / "towers.geojson", towers)
    back = read_towers(tmp_path / "towers.geojson")
    assert back.valid_from.tolist() == towers.valid_from.tolist()
    assert back.valid_to.tolist() == towers.valid_to.tolist()
    assert back.fingerprint() == towers.fingerprint()


def test_outer_rings_turn_as_the_standard_says_and_bytes_are_fixed() -> None:
    clockwise = shapely.Polygon([(0, 0), (0, 1), (1, 1), (1, 0)])
    zones = Places.of(PlaceKind.ZONES, ["z"], [clockwise])
    written = json.loads(geojson(zones))
    ring = shapely.linearrings(written["features"][0]["geometry"]["coordinates"][0])
    assert shapely.is_ccw(ring)
    again = Places.of(PlaceKind.ZONES, ["z"], [clockwise])
    assert geojson(zones) == geojson(again)
