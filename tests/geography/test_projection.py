"""The plane: equal areas, a stable centre."""

from __future__ import annotations

import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import box

from sfumato.errors import InputError
from sfumato.geography.projection import Projection


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(-179, 178), st.floats(-80, 79), st.floats(0.01, 0.5))
def test_areas_are_those_of_the_ellipsoid(lon: float, lat: float, side: float) -> None:
    """Against the area under geodesics, in a box whose edges are fine enough to be either."""
    square = shapely.segmentize(box(lon, lat, lon + side, lat + side), 0.001)
    on_plane = shapely.area(Projection.around(square).shape(square))
    on_globe = abs(pyproj.Geod(ellps="WGS84").geometry_area_perimeter(square)[0])
    assert on_plane == pytest.approx(on_globe, rel=1e-6)


def test_the_centre_is_public_and_does_not_move_with_a_zone_more() -> None:
    paris = box(2.22, 48.81, 2.47, 48.90)
    assert Projection.around(paris) == Projection(2, 49)
    assert Projection.around(box(2.20, 48.80, 2.48, 48.91)) == Projection(2, 49)
    assert Projection(2, 49).proj == "+proj=laea +lat_0=49 +lon_0=2 +datum=WGS84 +units=m"


def test_a_region_on_both_sides_of_the_antimeridian_has_its_centre_there() -> None:
    fiji = shapely.MultiPolygon([box(177, -19, 180, -16), box(-180, -19, -178, -16)])
    assert Projection.around(fiji) == Projection(180, -17)
    assert np.abs(shapely.get_coordinates(Projection.around(fiji).shape(fiji))).max() < 400_000


def test_there_and_back() -> None:
    square = box(2.22, 48.81, 2.47, 48.90)
    plane = Projection.around(square)
    again = plane.back(plane.shapes([square]))[0]
    assert shapely.equals_exact(
        again, shapely.segmentize(square, 0.02), tolerance=1e-8
    )  # a millimetre


def test_what_cannot_be_projected() -> None:
    with pytest.raises(InputError, match="empty"):
        Projection.around(shapely.Polygon())
    with pytest.raises(InputError, match="not on the globe"):
        Projection(48, 200)
    with pytest.raises(InputError, match="cannot be projected"):
        Projection(2, 49).shapes([shapely.Point(np.inf, 0)])
