"""Time-dependent noise: one noisy location for every window of length T.

*As printed* (the trace study of geo-indistinguishability on Geolife): windows of each trip
count from its first fix; the first fix of a window gets noise and stands for all of the
window. Claim: epsilon times the distances between the windows' first fixes, *given all time
stamps*, which are published exactly. When someone moved, how often a device measured and
where windows begin is not hidden: "hiding the frequency of movements" has no formal content.

*On a public clock* the windows are the same for everybody, fixed before the data is seen,
and every user has one report in every window of the period, measured or not: the location of
the last fix so far (the first one for windows before it) with fresh noise. Claim: for any two
records of one user, epsilon times the sum over windows of the distance between the two
locations, with no condition: the output has the same rows whatever the record is. Cost: number
of windows times epsilon, known beforehand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.noise import BitStream
from sfumato.traces.lattice import Lattice
from sfumato.traces.level import Strength
from sfumato.traces.model import MICROSECONDS, Traces, run_starts
from sfumato.traces.planar_laplace import Earth, planar_laplace

Ints = NDArray[np.int64]


def printed_windows(traces: Traces, window_s: int) -> Ints:
    """Index of the first fix of each fix's window."""
    if window_s < 1:
        raise UsageError("A window lasts at least a second.")
    if len(traces) == 0:
        return np.empty(0, np.int64)
    starts = traces.starts
    begun = np.repeat(traces.time[starts[:-1]], np.diff(starts))
    number = (traces.time - begun) // (window_s * MICROSECONDS)
    firsts = run_starts(traces.user, traces.trip, number)
    return np.repeat(firsts[:-1], np.diff(firsts)).astype(np.int64)


def first_windows(traces: Traces, window_s: int, most: int | None) -> Traces:
    """At most the first `most` windows of every user in time: a public bound."""
    if most is None or len(traces) == 0:
        return traces
    first = printed_windows(traces, window_s)
    heads, which = np.unique(first, return_inverse=True)
    order = np.lexsort((traces.time[heads], traces.user[heads]))
    user = traces.user[heads][order]
    begins = np.flatnonzero(np.diff(user, prepend=user[0] - 1))
    rank = np.arange(user.size) - np.repeat(begins, np.diff(np.append(begins, user.size)))
    allowed = np.zeros(heads.size, np.bool_)
    allowed[order] = rank < most
    return traces.pick(allowed[which])


def on_printed_clock(
    traces: Traces,
    window_s: int,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
    earth: Earth = "sphere",
) -> Traces:
    """The same fixes, each at the noisy first location of its window."""
    first = printed_windows(traces, window_s)
    heads, which = np.unique(first, return_inverse=True)
    lon, lat = planar_laplace(
        traces.lon[heads], traces.lat[heads], strength, stream, lattice=lattice, earth=earth
    )
    return traces.at(lon[which], lat[which])


def windows_between(start_us: int, end_us: int, window_s: int) -> Ints:
    """The public clock: beginnings of the windows in epoch microseconds."""
    if window_s < 1 or end_us <= start_us:
        raise UsageError("A public clock needs a period and windows of at least a second.")
    return np.arange(start_us, end_us, window_s * MICROSECONDS, dtype=np.int64)


def true_on_clock(traces: Traces, clock: Ints, window_s: int) -> Traces:
    """Last known location of every user in every window: private still."""
    users = np.unique(traces.user)
    order = np.lexsort((traces.time, traces.user))
    user, time = traces.user[order], traces.time[order]
    begins = np.searchsorted(user, users)
    slots = (time - clock[0]) // (window_s * MICROSECONDS)
    # One sorted key for (user, window): the last fix at or before the window's end.
    span = clock.size + 2
    key = np.searchsorted(users, user) * span + np.clip(slots + 1, 0, span - 1)
    base = np.repeat(np.arange(users.size), clock.size) * span
    wanted = base + np.tile(np.arange(clock.size), users.size) + 1
    last = np.searchsorted(key, wanted, side="right") - 1
    source = order[np.maximum(last, np.repeat(begins, clock.size))]
    return Traces(
        traces.names,
        np.repeat(users, clock.size).astype(np.int64),
        np.zeros(source.size, np.int64),
        np.tile(clock, users.size),
        traces.lon[source],
        traces.lat[source],
        np.arange(source.size, dtype=np.int64),
    )


def on_public_clock(
    traces: Traces,
    clock: Ints,
    window_s: int,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
) -> Traces:
    """One noisy report of every user in every window of the clock."""
    whole = true_on_clock(traces, clock, window_s)
    lon, lat = planar_laplace(whole.lon, whole.lat, strength, stream, lattice=lattice)
    return whole.at(lon, lat)
