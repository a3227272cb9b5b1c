"""Metres between places, on the ellipsoid and on the plane."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from shapely.geometry import Point

from sfumato.geography.overlay import between_centres, centres, geodesic
from sfumato.model.places import PlaceKind, Places


def test_a_degree_of_latitude_and_the_way_over_the_antimeridian() -> None:
    metres = geodesic(
        np.array([2.0, 179.5]), np.array([0.0, 0.0]), np.array([2.0, -179.5]), np.array([1.0, 0.0])
    )
    assert metres == pytest.approx([110_574.4, 111_319.5], abs=0.1)


def test_lengths_on_the_plane_are_those_of_the_ground() -> None:
    places = Places.of(
        PlaceKind.TOWERS, ["a", "b", "c"], [Point(2.0, 48.5), Point(2.5, 49.0), Point(3.3, 49.5)]
    )
    lon, lat = shapely.get_coordinates(places.geometry).T
    true = geodesic(np.repeat(lon, 3), np.repeat(lat, 3), np.tile(lon, 3), np.tile(lat, 3))
    found = between_centres(places)
    np.testing.assert_allclose(found, true.reshape(3, 3), rtol=1e-4)
    assert centres(places).shape == (3, 2)
