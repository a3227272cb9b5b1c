"""Map projections in metres: an equal-area plane for a region, a local plane around a point.

`Projection` is Lambert's azimuthal equal-area projection on WGS84, centred on the region's middle
rounded to whole degrees: the same region, or the same with one more zone, gives the same plane, and
nothing but public geometry decides it. Areas are exact; lengths are off by less than 1 part
in 10,000 within 150 km of the centre (the distortion is (distance / Earth radius)^2 / 8).

`Plane` is a local map around one point, affine in longitude and latitude, so straight edges stay
straight and a cover without overlap stays one. Within 20 km of the centre lengths are right to
about 0.3 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.model.places import Places

LONGEST_EDGE_DEGREES = 0.02
"""A straight line on the map of degrees is a curve on the plane. Edges are cut to this length
(about 2 km) first, which keeps the two within 0.2 m of each other up to latitude 70."""


@dataclass(frozen=True, eq=True)
class Projection:
    """Longitude and latitude to metres and back, around a centre in whole degrees."""

    lon: int
    lat: int

    def __post_init__(self) -> None:
        if not (-180 <= self.lon <= 180 and -90 <= self.lat <= 90):
            raise InputError("The centre of the projection is not on the globe.")

    @classmethod
    def around(cls, where: Places | shapely.Geometry | NDArray[np.object_]) -> Projection:
        """The plane for these public shapes (WGS84)."""
        shapes = where.geometry if isinstance(where, Places) else where
        bounds = shapely.total_bounds(shapes)
        if not np.isfinite(bounds).all():
            raise InputError("The region is empty.", remedy="Give zones or a bounding polygon.")
        west, south, east, north = (float(value) for value in bounds)
        if east - west > 180:  # both sides of the antimeridian: measure from Greenwich eastwards
            lon = shapely.get_coordinates(shapes)[:, 0] % 360
            west, east = float(lon.min()), float(lon.max())
        middle = (west + east) / 2
        middle = middle - 360 if middle > 180 else middle
        return cls(math.floor(middle + 0.5), math.floor((south + north) / 2 + 0.5))

    @property
    def proj(self) -> str:
        """The plane in PROJ's words, for a manifest."""
        return f"+proj=laea +lat_0={self.lat} +lon_0={self.lon} +datum=WGS84 +units=m"

    @cached_property
    def _transformer(self) -> pyproj.Transformer:
        return pyproj.Transformer.from_crs("EPSG:4326", self.proj, always_xy=True)

    def points(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.float64]:
        """n x 2 metres; rows that are nowhere on the plane are not finite."""
        x, y = self._transformer.transform(np.asarray(lon), np.asarray(lat))
        return np.column_stack((x, y)).astype(np.float64)

    def shapes(
        self, geometry: NDArray[np.object_] | Sequence[shapely.Geometry]
    ) -> NDArray[np.object_]:
        """The shapes on the plane, edges cut first so that curves stay curves."""
        fine = shapely.segmentize(np.asarray(geometry, dtype=object), LONGEST_EDGE_DEGREES)
        found: NDArray[np.object_] = shapely.transform(
            fine, lambda xy: self.points(xy[:, 0], xy[:, 1])
        )
        if not np.isfinite(shapely.get_coordinates(found)).all():
            raise InputError(
                "Some coordinates cannot be projected.",
                remedy="Coordinates are longitude and latitude in degrees (WGS84).",
            )
        return found

    def shape(self, geometry: shapely.Geometry) -> shapely.Geometry:
        """One shape on the plane."""
        found: shapely.Geometry = self.shapes([geometry])[0]
        return found

    def back(
        self, geometry: NDArray[np.object_] | Sequence[shapely.Geometry]
    ) -> NDArray[np.object_]:
        """Shapes of the plane in longitude and latitude again, for maps and files."""

        def degrees(xy: NDArray[np.float64]) -> NDArray[np.float64]:
            lon, lat = self._transformer.transform(xy[:, 0], xy[:, 1], direction="INVERSE")
            return np.column_stack((lon, lat))

        found: NDArray[np.object_] = shapely.transform(np.asarray(geometry, dtype=object), degrees)
        return found


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
