"""Distances in metres between places: geodesic for pairs, on the equal-area plane for all."""

from __future__ import annotations

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato.geography.projection import Projection
from sfumato.model.places import Places


def geodesic(
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
    other_lon: NDArray[np.float64],
    other_lat: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Metres along the WGS84 ellipsoid between pairs of points."""
    _, _, metres = pyproj.Geod(ellps="WGS84").inv(lon, lat, other_lon, other_lat)
    return np.asarray(metres, dtype=np.float64)


def centres(places: Places, projection: Projection | None = None) -> NDArray[np.float64]:
    """n x 2 metres: the centroid of each place on the plane."""
    plane = projection or Projection.around(places)
    return shapely.get_coordinates(shapely.centroid(plane.shapes(places.geometry)))


def between_centres(places: Places, projection: Projection | None = None) -> NDArray[np.float64]:
    """n x n metres between centroids. Quadratic: for some thousand places at most."""
    at = centres(places, projection)
    apart = at[:, None, :] - at[None, :, :]
    return np.asarray(np.hypot(apart[:, :, 0], apart[:, :, 1]), dtype=np.float64)
