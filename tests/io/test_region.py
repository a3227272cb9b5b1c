"""Towers and zones must lie in one part of the world."""

from __future__ import annotations

import pyarrow as pa
import pytest
import shapely

from sfumato.errors import InputError
from sfumato.io.towers import check_same_region, read_towers
from sfumato.model.places import PlaceKind, Places

TOWERS = Places.of(PlaceKind.TOWERS, ["a", "b"], list(shapely.points([2.35, 2.36], [48.8, 48.9])))


def zones(west: float, south: float) -> Places:
    return Places.of(PlaceKind.ZONES, ["z"], [shapely.box(west, south, west + 1.0, south + 1.0)])


def test_towers_in_or_near_the_zones_pass() -> None:
    check_same_region(TOWERS, zones(2.0, 48.0))
    check_same_region(TOWERS, zones(2.5, 49.0))


def test_swapped_axes_are_named_whichever_side_swapped_them() -> None:
    with pytest.raises(InputError, match="look swapped"):
        check_same_region(TOWERS, zones(48.0, 2.0))


def test_another_city_is_an_error_of_its_own() -> None:
    with pytest.raises(InputError, match="50 km"):
        check_same_region(TOWERS, zones(-123.0, 37.0))


def test_near_the_diagonal_a_swap_does_not_matter() -> None:
    towers = Places.of(PlaceKind.TOWERS, ["a"], list(shapely.points([30.2], [30.4])))
    check_same_region(towers, zones(30.0, 30.0))


def test_the_reader_of_towers_asks() -> None:
    frame = {"bs": ["a"], "lon": [2.35], "lat": [48.8]}
    assert len(read_towers(pa.table(frame), zones=zones(2.0, 48.0))) == 1
    with pytest.raises(InputError, match="50 km"):
        read_towers(pa.table(frame), zones=zones(-123.0, 37.0))
