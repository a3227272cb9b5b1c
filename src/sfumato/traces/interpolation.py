"""Movement between reports, drawn on great circles.

*Geodesic interpolation* between the windows' noisy points: whoever knows that a report stands for a
whole window draws the missing movement, on the great circle from the first point of each window to
that of the next of the same trip, in proportion to time. In the last window of a trip the point
stays. It reads published reports only: users of traces draw it in, and so do adversaries.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.traces.bounds import printed_windows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def unit_vectors(lon: Floats, lat: Floats) -> Floats:
    """Points of the sphere as vectors, n x 3."""
    out = np.empty((lon.size, 3))
    for i in range(lon.size):
        phi, turn = math.radians(lat[i]), math.radians(lon[i])
        out[i, 0] = math.cos(phi) * math.cos(turn)
        out[i, 1] = math.cos(phi) * math.sin(turn)
        out[i, 2] = math.sin(phi)
    return out


@compiled
def degrees_of(vector: Floats, lon: Floats, lat: Floats) -> None:
    """Longitude and latitude of vectors of any length."""
    for i in range(lon.size):
        lon[i] = math.degrees(math.atan2(vector[i, 1], vector[i, 0]))
        lat[i] = math.degrees(math.atan2(vector[i, 2], math.hypot(vector[i, 0], vector[i, 1])))


@compiled
def between(vectors: Floats, before: Ints, after: Ints, share: Floats) -> Floats:
    """Points on the great circle from one vector to another, by spherical interpolation."""
    out = np.empty((before.size, 3))
    for i in range(before.size):
        a, b = vectors[before[i]], vectors[after[i]]
        dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
        angle = 2.0 * math.asin(min(1.0, 0.5 * math.sqrt(dx * dx + dy * dy + dz * dz)))
        if angle < 1e-12:
            wa, wb = 1.0 - share[i], share[i]
        else:
            wa = math.sin((1.0 - share[i]) * angle) / math.sin(angle)
            wb = math.sin(share[i] * angle) / math.sin(angle)
        for k in range(3):
            out[i, k] = wa * a[k] + wb * b[k]
    return out


def interpolate(reports: Traces, window_s: int) -> Traces:
    """Reports on the printed clock, with the movement inside windows drawn in."""
    if len(reports) == 0:
        return reports
    return between_heads(reports, printed_windows(reports, window_s))


def between_heads(reports: Traces, head: Ints) -> Traces:
    """The same for any windows: `head` is the index of the first fix of each fix's window."""
    heads = np.unique(head)
    following = np.append(heads[1:], heads[-1])
    same = (reports.user[heads] == reports.user[following]) & (
        reports.trip[heads] == reports.trip[following]
    )
    following = np.where(same, following, heads)
    after = following[np.searchsorted(heads, head)]
    return _between(reports, head, after)


def resample(traces: Traces, every_s: float) -> Traces:
    """Fixes every so many seconds on the great circles between a trip's own fixes."""
    step = round(every_s * MICROSECONDS)
    starts = traces.starts
    first, last = traces.time[starts[:-1]], traces.time[starts[1:] - 1]
    counts = (last - first) // step + 1
    trip = np.repeat(np.arange(counts.size), counts)
    rank = np.arange(trip.size) - np.repeat(np.cumsum(counts) - counts, counts)
    time = first[trip] + rank * step
    # Keys that ascend over all trips: the fix at or before each new instant.
    span = int(last.max() - first.min()) + step + 1
    own = np.repeat(np.arange(counts.size), np.diff(starts))
    key = own * span + (traces.time - int(first.min()))
    before = np.searchsorted(key, trip * span + (time - int(first.min())), side="right") - 1
    after = np.minimum(before + 1, starts[1:][trip] - 1)
    gap = np.maximum(traces.time[after] - traces.time[before], 1)
    share = np.where(after > before, (time - traces.time[before]) / gap, 0.0)
    vectors = between(unit_vectors(traces.lon, traces.lat), before, after, share)
    lon, lat = np.empty(time.size), np.empty(time.size)
    degrees_of(vectors, lon, lat)
    at = starts[:-1][trip]
    rows = np.arange(time.size, dtype=np.int64)
    return Traces(traces.names, traces.user[at], traces.trip[at], time, lon, lat, rows)


def _between(reports: Traces, before: np.ndarray, after: np.ndarray) -> Traces:
    gap = np.maximum(reports.time[after] - reports.time[before], 1)
    share = np.where(after > before, (reports.time - reports.time[before]) / gap, 0.0)
    vectors = between(unit_vectors(reports.lon, reports.lat), before, after, share)
    lon, lat = np.empty(len(reports)), np.empty(len(reports))
    degrees_of(vectors, lon, lat)
    return reports.at(lon, lat)
