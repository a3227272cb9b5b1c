"""Data of the page in few bytes: quantised counts and intervals, and outlines as shared arcs.

**Counts and intervals** are whole multiples of a stated step, predicted, deflated. The page shows
every number rounded to a step of 1, 0.1 or 0.01 (`step_for`), and holds exactly what it shows. Per
zone and slot three integers are stored as residuals:

    count   minus the count of the zone's slot before (or nothing, whichever is smaller),
    up      = upper - count, minus that of the slot before,
    low     = lower - max(0, count - up); the 0 only where no lower end is negative.

Symmetric intervals of constant width, also cut off at zero, thus cost nearly nothing. Residuals
are zigzag-coded and split into byte planes before raw deflate; browsers undo that themselves. Where
no interval is stated, up and low are absent. A median, where there is one, is stored as its
difference from the count.

**Topology.** Every border between zones is held once, simplified once, and drawn once. Rings on an
integer lattice are cut at junctions, the points where borders part. A piece between two junctions
is an arc, stored in one direction and referred to by both neighbours (the other way round as
~index). Because an arc is simplified by itself and its ends stay, neighbours keep sharing it: no
slivers and no gaps appear.

**Outlines** for the screen lie in an equal-area plane, on a lattice of 16,384 steps, their shared
arcs written as varints. The plane is Lambert's azimuthal equal-area one on a sphere around the
middle of the zones, so that equal areas look equal and the page can turn lattice points back into
degrees with four lines. Areas in km² are computed here on the ellipsoid, because people per km² is
what a map of zones of unequal size should show.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.model.tiles import tiles
from sfumato.reports.steps import kind_for, step_for

Table = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
_LARGEST = 1 << 30


def quantise(
    values: Table,
    step: float,
    other: Table | None = None,
    kind: type[np.signedinteger[Any]] = np.int64,
) -> tuple[Integers, Integers]:
    """Values (or others where they are missing) in steps, and flat positions of missing ones."""
    whole = np.empty(values.shape, kind)
    missing = np.flatnonzero(~np.isfinite(values))
    for rows in tiles(values.shape):
        filled = values[rows]
        if other is not None:
            filled = np.where(np.isfinite(filled), filled, other[rows])
        filled = np.rint(np.where(np.isfinite(filled), filled, 0.0) * round(1 / step))
        if np.abs(filled).max(initial=0.0) > _LARGEST:
            raise InputError(
                "a number of the density is too large for the page.",
                remedy="Counts of people are below one thousand million.",
            )
        whole[rows] = filled
    return whole, missing


def encode_numbers(
    count: Table,
    lower: Table | None = None,
    upper: Table | None = None,
    median: Table | None = None,
) -> dict[str, Any]:
    """The tables as base64 text with what is needed to read them."""
    step = step_for(count, lower, upper)
    kind = kind_for(step, count, lower, upper, median)
    whole, missing = quantise(count, step, kind=kind)
    plain: dict[str, Any] = {"step": step, "shape": list(count.shape)}
    plain |= {"count": layer(whole), "missing": missing.tolist()}
    if median is not None:  # absent otherwise: pages without one are as they always were
        middle = quantise(median, step, kind=kind)[0]
        middle -= whole
        plain["median"] = layer(middle)
        del middle
    if lower is None or upper is None:
        return plain | {"floor": False, "up": None, "low": None, "no_interval": []}
    no_interval = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper)))
    up, _ = quantise(upper, step, count, kind)
    up -= whole
    above = layer(up)
    low, _ = quantise(lower, step, count, kind)
    floor = bool(low.min(initial=0) >= 0)
    for rows in tiles(low.shape):
        low[rows] -= predicted_low(whole[rows], up[rows], floor)
    plain |= {"floor": floor, "up": above, "low": layer(low)}
    return plain | {"no_interval": no_interval.tolist()}


def decode_numbers(data: dict[str, Any]) -> tuple[Table, Table, Table]:
    """What the page's own script reads back, NaN where a number is missing. For tests."""
    shape = tuple(data["shape"])
    if data["up"] is None:
        count = unlayer(data["count"], shape) / round(1 / data["step"])
        count.ravel()[data["missing"]] = np.nan
        nothing = np.full(shape, np.nan)
        return count, nothing, nothing
    whole, up, rest = (unlayer(data[name], shape) for name in ("count", "up", "low"))
    low = rest + predicted_low(whole, up, data["floor"])
    tables = [table / round(1 / data["step"]) for table in (whole, low, whole + up)]
    tables[0].ravel()[data["missing"]] = np.nan
    for table in tables[1:]:
        table.ravel()[data["no_interval"]] = np.nan
    return tables[0], tables[1], tables[2]


def predicted_low(whole: Integers, up: Integers, floor: bool) -> Integers:
    """Where the lower end would be if the interval were symmetric."""
    mirrored = whole - up
    return np.maximum(mirrored, 0) if floor else mirrored


_LARGE = 1 << 20
"""Numbers of a table from which on its form is chosen by a quick look at both."""


def deflated(raw: bytes, level: int = 6) -> str:
    """Raw deflate as base64, at the usual level: the highest took five times the CPU for .6 % fewer
    bytes (a week in 989 zones), a quarter of a whole stream's for 5 % (3,478 cells, 336 slots).

    Among noisy numbers repetitions are chance, and looking for them costs bytes: without it, which
    takes a tenth of the time, strengths are a seventh smaller and tables a twentieth.
    """
    forms = []
    for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY):
        squeezer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
        forms.append(squeezer.compress(raw) + squeezer.flush())
    return base64.b64encode(min(forms, key=len)).decode("ascii")


def inflated(text: str) -> bytes:
    """The bytes behind `deflated`."""
    return zlib.decompress(base64.b64decode(text), -15)


def layer(whole: Integers) -> dict[str, Any]:
    """Whole numbers, row by row: as they are or from column to column, whichever is smaller."""
    if whole.size < _LARGE:
        forms = [_planes(whole, delta) for delta in (True, False)]
        return min(forms, key=lambda form: len(form["data"]))
    quick = [len(_planes(whole, delta, 1)["data"]) for delta in (True, False)]
    return _planes(whole, quick[0] <= quick[1])


def _planes(whole: Integers, delta: bool, level: int = 6) -> dict[str, Any]:
    size = 2 if whole.itemsize == 1 else 4  # of a difference of bytes, and of any other
    zigzag = np.empty(whole.shape, f"<u{size}")
    for rows in tiles(whole.shape):
        residual = whole[rows].astype(np.int64)
        residual = np.diff(residual, axis=1, prepend=0) if delta else residual
        zigzag[rows] = (residual << 1) ^ (residual >> 63)
    width = max(1, (int(zigzag.max(initial=0)).bit_length() + 7) // 8)
    planes = zigzag.view(np.uint8).reshape(-1, size)[:, :width].T
    return {"delta": delta, "bytes": width, "data": deflated(planes.tobytes(), level)}


def unlayer(form: dict[str, Any], shape: tuple[int, ...]) -> Integers:
    """What `layer` wrote."""
    planes = np.frombuffer(inflated(form["data"]), np.uint8).reshape(form["bytes"], -1)
    zigzag = np.zeros(planes.shape[1], np.int64)
    for k, plane in enumerate(planes):
        zigzag |= plane.astype(np.int64) << (8 * k)
    residual = ((zigzag >> 1) ^ -(zigzag & 1)).reshape(shape)
    return np.cumsum(residual, axis=1) if form["delta"] else residual


Ring = NDArray[np.int64]
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Topology:
    """Arcs on the lattice, and for each zone its rings as lists of arc references."""

    arcs: tuple[tuple[Point, ...], ...]
    zones: tuple[tuple[tuple[int, ...], ...], ...]


def build_topology(zones: Sequence[Sequence[Ring]], tolerance: float = 0.0) -> Topology:
    """Cut, share and simplify. Rings are closed (last point equals first) and may be given
    in any direction; those with fewer than three distinct points are dropped."""
    rings = [[_clean(ring) for ring in zone] for zone in zones]
    rings = [[ring for ring in zone if len(ring) >= 3] for zone in rings]
    junctions = _junctions([ring for zone in rings for ring in zone])
    arcs: list[tuple[Point, ...]] = []
    index: dict[tuple[Point, ...], int] = {}

    def reference(piece: tuple[Point, ...]) -> int:
        back = piece[::-1]
        key, turned = (piece, False) if piece <= back else (back, True)
        if key not in index:
            index[key] = len(arcs)
            arcs.append(key)
        return ~index[key] if turned else index[key]

    built = tuple(
        tuple(tuple(map(reference, _pieces(ring, junctions))) for ring in zone) for zone in rings
    )
    if tolerance <= 0 or not arcs:
        return Topology(tuple(arcs), built)
    return Topology(_simplified(arcs, built, tolerance), built)


def ring_points(topology: Topology, ring: Sequence[int]) -> list[Point]:
    """A ring's points in order, the first not repeated."""
    points: list[Point] = []
    for ref in ring:
        arc = topology.arcs[~ref][::-1] if ref < 0 else topology.arcs[ref]
        points.extend(arc[:-1])
    return points


def _clean(ring: Ring) -> list[Point]:
    """Distinct consecutive points, open."""
    points: list[Point] = [(int(x), int(y)) for x, y in ring]
    kept = [p for k, p in enumerate(points) if k == 0 or p != points[k - 1]]
    while len(kept) > 1 and kept[0] == kept[-1]:
        kept.pop()
    return kept


def _junctions(rings: list[list[Point]]) -> set[Point]:
    """Points whose neighbours are not the same pair wherever they occur."""
    seen: dict[Point, frozenset[Point]] = {}
    parted: set[Point] = set()
    for ring in rings:
        for k, point in enumerate(ring):
            pair = frozenset((ring[k - 1], ring[(k + 1) % len(ring)]))
            if seen.setdefault(point, pair) != pair:
                parted.add(point)
    return parted


def _pieces(ring: list[Point], junctions: set[Point]) -> list[tuple[Point, ...]]:
    cuts = [k for k, point in enumerate(ring) if point in junctions]
    if not cuts:  # an island: one closed arc, begun where every ring through it would begin
        start = min(range(len(ring)), key=lambda k: ring[k])
        turned = ring[start:] + ring[:start]
        return [(*turned, turned[0])]
    turned = ring[cuts[0] :] + ring[: cuts[0]] + [ring[cuts[0]]]
    marks = [k - cuts[0] for k in cuts] + [len(ring)]
    return [tuple(turned[a : b + 1]) for a, b in pairwise(marks)]


def _simplified(
    arcs: list[tuple[Point, ...]], zones: tuple[tuple[tuple[int, ...], ...], ...], tolerance: float
) -> tuple[tuple[Point, ...], ...]:
    lines = np.array([shapely.LineString(arc) for arc in arcs], dtype=object)
    thin: NDArray[np.object_] = np.asarray(
        shapely.simplify(lines, tolerance, preserve_topology=False), dtype=object
    )
    lighter = [tuple((int(x), int(y)) for x, y in shapely.get_coordinates(t)) for t in thin]
    trial = Topology(tuple(lighter), zones)
    whole = Topology(tuple(arcs), zones)
    result = list(lighter)
    for zone in zones:  # a zone that would nearly vanish keeps its outline as it is
        for ring in zone:
            before, after = _area(ring_points(whole, ring)), _area(ring_points(trial, ring))
            if after < 0.5 * before or after == 0:
                for ref in ring:
                    k = ~ref if ref < 0 else ref
                    result[k] = arcs[k]
    return tuple(result)


def _area(points: list[Point]) -> float:
    if len(points) < 3:
        return 0.0
    xy = np.array(points, dtype=np.float64)
    x, y = xy[:, 0], xy[:, 1]
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


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
    zones = plane.rings(geometry)
    tolerance, allowed = 0.0, max(_POINTS[0], _POINTS[1] * len(zones))
    topology = build_topology(zones)
    while sum(map(len, topology.arcs)) > allowed and tolerance < 64:
        tolerance = 2 * tolerance or 1.0
        topology = build_topology(zones, tolerance)
    anchors = plane.anchors(geometry)
    return {
        "lon": plane.lon,
        "lat": plane.lat,
        "metres": plane.metres,
        "left": plane.left,
        "top": plane.top,
        "size": [plane.width, plane.height],
        "data": deflated(_varints(_stream(topology, anchors))),
        "km2": areas_km2(geometry),
        "tolerance_m": round(tolerance * plane.metres + plane.metres / 2, 2),
    }


def areas_km2(geometry: NDArray[np.object_]) -> list[float]:
    """Area of each zone on the ellipsoid, to six digits; 0 for points and zones without a shape."""
    globe = pyproj.Geod(ellps="WGS84")
    return [
        _significant(abs(globe.geometry_area_perimeter(shape)[0]) / 1e6) if flat else 0.0
        for shape, flat in zip(
            shapely.orient_polygons(geometry), shapely.get_dimensions(geometry) == 2, strict=True
        )
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

    def rings(self, geometry: NDArray[np.object_]) -> list[list[NDArray[np.int64]]]:
        """The rings of every zone, all coordinates projected at once."""
        flat = np.flatnonzero(shapely.get_dimensions(geometry) == 2)
        parts, zone_of = shapely.get_parts(geometry[flat], return_index=True)
        rings, part_of = shapely.get_rings(parts, return_index=True)
        degrees, ring_of = shapely.get_coordinates(rings, return_index=True)
        cuts = np.searchsorted(ring_of, np.arange(1, len(rings)))
        zones: list[list[NDArray[np.int64]]] = [[] for _ in geometry]
        for part, ring in zip(part_of, np.split(self.lattice(degrees), cuts), strict=False):
            zones[flat[zone_of[part]]].append(ring)  # of no rings, one empty split
        return zones

    def anchors(self, geometry: NDArray[np.object_]) -> list[tuple[int, int] | None]:
        """Where a label or a dot belongs: inside each zone's largest part."""
        shown = np.flatnonzero(~(shapely.is_missing(geometry) | shapely.is_empty(geometry)))
        parts, of = shapely.get_parts(geometry[shown], return_index=True)
        order = np.lexsort((-shapely.area(parts), of))
        largest = parts[order[np.searchsorted(of[order], np.arange(shown.size))]]
        spots = shapely.centroid(largest)
        wide = (shapely.get_dimensions(largest) == 2) & shapely.is_valid(largest)
        spots[wide] = shapely.get_point(shapely.maximum_inscribed_circle(largest[wide]), 0)
        found: list[tuple[int, int] | None] = [None] * len(geometry)
        for at, (x, y) in zip(shown, self.lattice(shapely.get_coordinates(spots)), strict=True):
            found[at] = (int(x), int(y))
        return found


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
