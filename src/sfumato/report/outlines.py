"""Shapes for the screen: an equal-area plane, a lattice of 16,384 steps, shared arcs as varints.

The plane is Lambert's azimuthal equal-area one on a sphere around the middle of the zones, so
that equal areas look equal and the page can turn lattice points back into degrees with four
lines. Areas in km² are computed here on the ellipsoid, because people per km² is what a map
of zones of unequal size should show.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato.report.numbers import deflated
from sfumato.report.topology import Topology, build_topology

LATTICE = 1 << 14
EARTH_M = 6_371_007.2
_POINTS = (40_000, 30)
"""Arc points that are always allowed, and that are allowed per zone, before simplifying."""


def encode_outlines(geometry: NDArray[np.object_]) -> dict[str, Any] | None:
    """Zones (or points) as base64 text with the plane they are on; `None` if nothing has a shape.

    The stream of varints: number of arcs; for each its number of points and their zigzag steps;
    number of zones; for each its number of rings, for each of these its number of arc
    references and the zigzag references; then for each zone 1 and its anchor's steps, or 0.
    """
    plane = _Plane.around(geometry)
    if plane is None:
        return None
    zones = [plane.rings(shape) for shape in geometry]
    tolerance, allowed = 0.0, max(_POINTS[0], _POINTS[1] * len(zones))
    topology = build_topology(zones)
    while sum(map(len, topology.arcs)) > allowed and tolerance < 64:
        tolerance = 2 * tolerance or 1.0
        topology = build_topology(zones, tolerance)
    anchors = [plane.anchor(shape) for shape in geometry]
    return {
        "lon": plane.lon,
        "lat": plane.lat,
        "metres": plane.metres,
        "left": plane.left,
        "top": plane.top,
        "size": [plane.width, plane.height],
        "data": deflated(_varints(_stream(topology, anchors))),
        "km2": [_significant(area) for area in areas_km2(geometry)],
        "tolerance_m": round(tolerance * plane.metres + plane.metres / 2, 2),
    }


def areas_km2(geometry: NDArray[np.object_]) -> list[float]:
    """Area of each zone on the ellipsoid; 0 for points and for zones without a shape."""
    globe = pyproj.Geod(ellps="WGS84")
    return [
        0.0
        if shape is None or shapely.get_dimensions(shape) < 2
        else abs(globe.geometry_area_perimeter(shapely.orient_polygons(shape))[0]) / 1e6
        for shape in geometry
    ]


class _Plane:
    """The lattice and how degrees get onto it."""

    def __init__(self, lon: float, lat: float, bounds: tuple[float, float, float, float]) -> None:
        self.lon, self.lat = lon, lat
        left, bottom, right, top = bounds
        extent = max(right - left, top - bottom, 1.0)
        self.metres = extent / LATTICE
        self.left, self.top = left, top
        self.width = max(1, round((right - left) / self.metres))
        self.height = max(1, round((top - bottom) / self.metres))

    @classmethod
    def around(cls, geometry: NDArray[np.object_]) -> _Plane | None:
        degrees = shapely.get_coordinates(geometry)
        degrees = degrees[np.isfinite(degrees).all(axis=1)]
        if degrees.size == 0:
            return None
        if np.ptp(degrees[:, 0]) > 180:  # zones on both sides of the date line
            west = degrees[:, 0] < 0
            degrees = degrees + np.column_stack([360.0 * west, np.zeros(west.size)])
        middle = (degrees.min(axis=0) + degrees.max(axis=0)) / 2
        lon = round((float(middle[0]) + 180) % 360 - 180, 6)
        lat = round(float(middle[1]), 6)
        flat = project(degrees, lon, lat)
        low, high = flat.min(axis=0), flat.max(axis=0)
        return cls(lon, lat, (float(low[0]), float(low[1]), float(high[0]), float(high[1])))

    def lattice(self, degrees: NDArray[np.float64]) -> NDArray[np.int64]:
        flat = project(degrees, self.lon, self.lat)
        steps = (flat - [self.left, self.top]) / [self.metres, -self.metres]
        return np.rint(steps).astype(np.int64)

    def rings(self, shape: Any) -> list[NDArray[np.int64]]:
        if shape is None or shapely.get_dimensions(shape) < 2:
            return []
        return [
            self.lattice(shapely.get_coordinates(ring))
            for part in shapely.get_parts(shape)
            for ring in shapely.get_rings(part)
        ]

    def anchor(self, shape: Any) -> tuple[int, int] | None:
        """Where a label or a dot belongs: inside the zone's largest part."""
        if shape is None or shapely.is_empty(shape):
            return None
        parts = shapely.get_parts(shape)
        largest = parts[int(np.argmax(shapely.area(parts)))]
        if shapely.get_dimensions(largest) == 2 and shapely.is_valid(largest):
            circle = shapely.maximum_inscribed_circle(largest)
            spot = shapely.get_coordinates(circle)[:1]
        else:
            spot = shapely.get_coordinates(shapely.centroid(largest))
        x, y = self.lattice(spot)[0]
        return int(x), int(y)


def project(degrees: NDArray[np.float64], lon: float, lat: float) -> NDArray[np.float64]:
    """Metres east and north of (lon, lat) on the equal-area plane."""
    east = np.radians(degrees[:, 0] - lon)
    north, middle = np.radians(degrees[:, 1]), math.radians(lat)
    cosine = np.sin(middle) * np.sin(north) + np.cos(middle) * np.cos(north) * np.cos(east)
    k = EARTH_M * np.sqrt(2 / np.maximum(1 + cosine, 1e-9))
    x = k * np.cos(north) * np.sin(east)
    y = k * (np.cos(middle) * np.sin(north) - np.sin(middle) * np.cos(north) * np.cos(east))
    return np.column_stack([x, y])


def _stream(topology: Topology, anchors: list[tuple[int, int] | None]) -> list[int]:
    numbers = [len(topology.arcs)]
    last = (0, 0)
    for arc in topology.arcs:
        numbers.append(len(arc))
        for point in arc:
            numbers += [_zigzag(point[0] - last[0]), _zigzag(point[1] - last[1])]
            last = point
    numbers.append(len(topology.zones))
    for zone in topology.zones:
        numbers.append(len(zone))
        for ring in zone:
            numbers.append(len(ring))
            numbers += [_zigzag(ref) for ref in ring]
    last = (0, 0)
    for anchor in anchors:
        if anchor is None:
            numbers.append(0)
        else:
            numbers += [1, _zigzag(anchor[0] - last[0]), _zigzag(anchor[1] - last[1])]
            last = anchor
    return numbers


def _zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _varints(numbers: list[int]) -> bytes:
    out = bytearray()
    for number in numbers:
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)
    return bytes(out)


def _significant(value: float) -> float:
    return float(f"{value:.6g}")
