"""Compiled point-in-zone on whole numbers of 1e-7 degrees: every decision is exact.

Coordinates fit in 32 bits and products of two differences in 63, so the side of an edge on
which a point lies is computed without rounding, the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

DEGREE = 1e7
"""Lattice points a degree: about a centimetre."""
OUTSIDE, BORDER, INSIDE = 0, 1, 2


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
