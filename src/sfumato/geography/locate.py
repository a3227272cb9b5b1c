"""Point in polygon: in which zone a position lies, exactly, for many millions of positions.

A raster in front: squares that lie wholly in one zone answer at once, the others test the
few edges that pass their row. Zones and positions are rounded to 1e-7 degrees (a centimetre).
Coordinates then fit in 32 bits and products of two differences in 63, so the side of an edge on
which a point lies is computed on whole numbers without rounding: the answer does not depend on
batch size, order or machine. A position on a shared border, and one in overlapping zones, belongs
to the lowest index: to exactly one zone.
"""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.model.compiled import compiled
from sfumato.model.places import PlaceKind, Places

DEGREE = 1e7
"""Lattice points a degree: about a centimetre."""
OUTSIDE, BORDER, INSIDE = 0, 1, 2


@compiled
def mark_borders(
    edges: NDArray[np.int64],
    zone_of: NDArray[np.int64],
    origin: NDArray[np.int64],
    pitch: NDArray[np.int64],
    box: NDArray[np.int64],
    at: NDArray[np.int64],
    state: NDArray[np.uint8],
) -> None:
    """Mark, in each zone's window of the raster, the squares that its edges may pass.

    For every raster row that an edge crosses, the columns between its ends in that row are
    marked, with one lattice point more on either side: that absorbs the rounding of the
    crossing, and no edge can then pass unmarked between two squares.
    """
    for e in range(edges.shape[0]):
        x0, y0, x1, y1 = edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3]
        z = zone_of[e]
        first_row, first_col = box[z, 0], box[z, 1]
        rows, cols = box[z, 2] - first_row, box[z, 3] - first_col
        low, high = (y0 - origin[1]) // pitch[1], (y1 - origin[1]) // pitch[1]
        for row in range(low, high + 1):
            bottom = max(y0, origin[1] + row * pitch[1])
            top = min(y1, origin[1] + (row + 1) * pitch[1])
            if y1 == y0:
                a, b = float(x0), float(x1)
            else:
                slope = (x1 - x0) / (y1 - y0)
                a, b = x0 + slope * (bottom - y0), x0 + slope * (top - y0)
            left = (int(np.floor(min(a, b))) - 1 - origin[0]) // pitch[0]
            right = (int(np.ceil(max(a, b))) + 1 - origin[0]) // pitch[0]
            r = row - first_row
            if r < 0 or r >= rows:
                continue
            for column in range(max(left, first_col), min(right + 1, first_col + cols)):
                state[at[z] + r * cols + column - first_col] = BORDER


@compiled
def covers(
    x: int,
    y: int,
    first: int,
    last: int,
    edges: NDArray[np.int64],
) -> bool:
    """Even-odd rule over `edges[first:last]` (lower end first); on an edge counts as inside."""
    odd = False
    for e in range(first, last):
        x0, y0, x1, y1 = edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3]
        if y < y0 or y > y1:
            continue
        if y0 == y1:
            if min(x0, x1) <= x <= max(x0, x1):
                return True
            continue
        across, along = (x - x0) * (y1 - y0), (x1 - x0) * (y - y0)
        if across == along:
            return True
        if y < y1 and across < along:
            odd = not odd
    return odd


@compiled
def fill_insides(
    edges: NDArray[np.int64],
    bucket: NDArray[np.int64],
    bucket_at: NDArray[np.int64],
    origin: NDArray[np.int64],
    pitch: NDArray[np.int64],
    box: NDArray[np.int64],
    at: NDArray[np.int64],
    state: NDArray[np.uint8],
) -> None:
    """Unmarked squares lie wholly inside or outside: test the first of each run in a row."""
    for z in range(box.shape[0]):
        rows, cols = box[z, 2] - box[z, 0], box[z, 3] - box[z, 1]
        for r in range(rows):
            known = False
            inside = False
            y = origin[1] + (box[z, 0] + r) * pitch[1] + pitch[1] // 2
            for c in range(cols):
                cell = at[z] + r * cols + c
                if state[cell] == BORDER:
                    known = False
                    continue
                if not known:
                    x = origin[0] + (box[z, 1] + c) * pitch[0] + pitch[0] // 2
                    k = bucket_at[z] + r
                    inside = covers(x, y, bucket[k], bucket[k + 1], edges)
                    known = True
                state[cell] = INSIDE if inside else OUTSIDE


@compiled
def locate(
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
    edges: NDArray[np.int64],
    bucket: NDArray[np.int64],
    bucket_at: NDArray[np.int64],
    first_row: NDArray[np.int64],
    origin: NDArray[np.int64],
    pitch: NDArray[np.int64],
    rows: int,
    columns: int,
    start: NDArray[np.int64],
    zone: NDArray[np.int32],
    whole: NDArray[np.bool_],
    found: NDArray[np.int32],
) -> None:
    """The lowest zone whose closed area holds each point, -1 where there is none."""
    for k in range(lon.size):
        found[k] = -1
        if not (-180.0 <= lon[k] <= 180.0 and -90.0 <= lat[k] <= 90.0):  # also NaN
            continue
        x, y = int(np.rint(lon[k] * DEGREE)), int(np.rint(lat[k] * DEGREE))
        column, row = (x - origin[0]) // pitch[0], (y - origin[1]) // pitch[1]
        if column < 0 or row < 0 or column >= columns or row >= rows:
            continue
        square = row * columns + column
        for c in range(start[square], start[square + 1]):
            z = zone[c]
            if whole[c]:
                found[k] = z
                break
            b = bucket_at[z] + row - first_row[z]
            if covers(x, y, bucket[b], bucket[b + 1], edges):
                found[k] = z
                break


_SQUARES_PER_ZONE = 1024
_MIN_SQUARES, _MAX_SQUARES = 1 << 14, 1 << 21


class Locator:
    """Built once from zones (WGS84); `locate` may be called from several threads."""

    def __init__(self, zones: Places) -> None:
        if zones.kind is not PlaceKind.ZONES:
            raise UsageError("Positions are located in zones; towers have no area.")
        edges, zone_of = _edges(zones)
        xs, ys = edges[:, [0, 2]], edges[:, [1, 3]]
        low = np.array([xs.min(), ys.min()])
        span = np.array([xs.max(), ys.max()]) - low + 1
        squares = np.clip(_SQUARES_PER_ZONE * len(zones), _MIN_SQUARES, _MAX_SQUARES)
        side = np.maximum(np.ceil(span / np.sqrt(squares)), 1)  # same number of rows and columns
        self._origin, self._pitch = low, side.astype(np.int64)
        self._columns, self._rows = ((span - 1) // self._pitch + 1).tolist()

        # Each zone's window of the raster: first row and column, and the ones after the last.
        first = np.flatnonzero(np.diff(zone_of, prepend=-1))
        least = np.column_stack([np.minimum.reduceat(v.min(axis=1), first) for v in (xs, ys)])
        most = np.column_stack([np.maximum.reduceat(v.max(axis=1), first) for v in (xs, ys)])
        box = np.column_stack(
            (((least - low) // self._pitch)[:, ::-1], ((most - low) // self._pitch)[:, ::-1] + 1)
        )
        self._first_row = box[:, 0].copy()
        self._edges, self._bucket, self._bucket_at = _buckets(
            edges, zone_of, box, int(low[1]), int(self._pitch[1])
        )
        sizes = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
        at = np.concatenate(([0], np.cumsum(sizes)))
        state = np.zeros(int(at[-1]), dtype=np.uint8)
        mark_borders(edges, zone_of, low, self._pitch, box, at, state)
        fill_insides(self._edges, self._bucket, self._bucket_at, low, self._pitch, box, at, state)
        squares_of, zone, whole = _candidates(box, at, state, self._columns)
        self._zone, self._whole = zone, whole
        self._start = np.searchsorted(squares_of, np.arange(self._rows * self._columns + 1))

    def locate(self, lon: NDArray[np.floating], lat: NDArray[np.floating]) -> NDArray[np.int32]:
        """Index of the zone of each position in degrees, -1 for none or no position."""
        x = np.ascontiguousarray(lon, dtype=np.float64)
        y = np.ascontiguousarray(lat, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape:
            raise UsageError("Longitudes and latitudes are two lists of the same length.")
        found = np.empty(x.size, dtype=np.int32)
        locate(
            x, y, self._edges, self._bucket, self._bucket_at, self._first_row,
            self._origin, self._pitch, self._rows, self._columns,
            self._start, self._zone, self._whole, found,
        )  # fmt: skip
        return found


def _edges(zones: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every edge of every zone as (x0, y0, x1, y1) with y0 <= y1, and its zone."""
    parts, zone = shapely.get_parts(zones.geometry, return_index=True)
    parts, inner = shapely.get_parts(parts, return_index=True)  # collections of multipolygons
    zone = zone[inner]
    areas = shapely.get_type_id(parts) == shapely.GeometryType.POLYGON
    rings, part = shapely.get_rings(parts[areas], return_index=True)
    points, ring = shapely.get_coordinates(rings, return_index=True)
    if not np.isfinite(points).all():
        raise InputError("A zone has a corner without a position.", remedy="Repair the zones.")
    lattice = np.rint(points * DEGREE).astype(np.int64)
    edges = np.hstack((lattice[:-1], lattice[1:]))
    real = (ring[:-1] == ring[1:]) & (edges[:, :2] != edges[:, 2:]).any(axis=1)
    edges, zone_of = edges[real], zone[areas][part[ring[:-1][real]]].astype(np.int64)
    empty = np.setdiff1d(np.arange(len(zones)), zone_of)
    if empty.size:
        raise InputError(
            f"Zone {str(zones.ids[empty[0]])!r} has no area.", remedy="Remove it or repair it."
        )
    down = edges[:, 1] > edges[:, 3]
    edges[down] = edges[down][:, [2, 3, 0, 1]]
    return np.ascontiguousarray(edges), zone_of


def _buckets(
    edges: NDArray[np.int64],
    zone_of: NDArray[np.int64],
    box: NDArray[np.int64],
    bottom: int,
    pitch: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Edges repeated for each raster row they pass, grouped by zone and row.

    Group k = (bucket_at of the zone) + (row - first row of the zone) is `bucket[k:k+2]`.
    """
    bucket_at = np.concatenate(([0], np.cumsum(box[:, 2] - box[:, 0])))
    low, high = (edges[:, 1] - bottom) // pitch, (edges[:, 3] - bottom) // pitch
    times = high - low + 1
    which = np.repeat(np.arange(len(edges)), times)
    step = np.arange(which.size) - np.repeat(np.cumsum(times) - times, times)
    group = bucket_at[zone_of[which]] + low[which] + step - box[zone_of[which], 0]
    order = np.argsort(group, kind="stable")
    bucket = np.searchsorted(group[order], np.arange(bucket_at[-1] + 1))
    return np.ascontiguousarray(edges[which[order]]), bucket.astype(np.int64), bucket_at


def _candidates(
    box: NDArray[np.int64], at: NDArray[np.int64], state: NDArray[np.uint8], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """(square, zone, wholly inside) of every pair that meets, by square, then zone."""
    hit = np.flatnonzero(state)
    zone = np.searchsorted(at, hit, side="right") - 1
    row, column = np.divmod(hit - at[zone], (box[:, 3] - box[:, 1])[zone])
    square = (box[zone, 0] + row) * columns + box[zone, 1] + column
    order = np.lexsort((zone, square))
    return square[order], zone[order].astype(np.int32), state[hit][order] == INSIDE
