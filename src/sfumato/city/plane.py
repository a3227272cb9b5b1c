"""A local plane in metres around one point.

The map is affine in longitude and latitude, so straight edges stay straight and a cover
without overlap stays one. Within 20 km of the centre lengths are right to about 0.3 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

_SEMI_MAJOR = 6_378_137.0
_ECCENTRICITY2 = 6.694379990141e-3

DEGREE_STEP = 1e-7


@dataclass(frozen=True, slots=True)
class Plane:
    """Metres east and north of (lon, lat)."""

    lon: float
    lat: float

    @property
    def metres_per_degree(self) -> tuple[float, float]:
        """Along the parallel and along the meridian, on the WGS84 ellipsoid."""
        phi = math.radians(self.lat)
        bend = 1 - _ECCENTRICITY2 * math.sin(phi) ** 2
        prime = _SEMI_MAJOR / math.sqrt(bend)
        meridian = _SEMI_MAJOR * (1 - _ECCENTRICITY2) / bend**1.5
        return math.radians(1) * prime * math.cos(phi), math.radians(1) * meridian

    def to_metres(self, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, 2) longitudes and latitudes to metres."""
        return (degrees - (self.lon, self.lat)) * self.metres_per_degree

    def to_degrees(self, metres: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, 2) metres to longitudes and latitudes."""
        return metres / self.metres_per_degree + (self.lon, self.lat)

    def shapes_to_metres(self, shapes: NDArray[np.object_]) -> NDArray[np.object_]:
        return np.asarray(shapely.transform(shapes, self.to_metres), dtype=object)

    def shapes_to_degrees(self, shapes: NDArray[np.object_]) -> NDArray[np.object_]:
        """On seven decimals, as they are written to files, and valid there: slivers thinner
        than a centimetre vanish instead of crossing themselves."""
        moved = shapely.make_valid(
            shapely.transform(shapes, self.to_degrees), method="structure", keep_collapsed=False
        )
        return np.asarray(shapely.set_precision(moved, DEGREE_STEP), dtype=object)
