"""Left of the wall: true traces, cut to what was charged, before they reach a mechanism.

Everything here works on true fixes and gives boxes (`Private`) that only a mechanism can open.
What one user may contribute is fixed by public bounds: the period, `most_reports`, the windows of
a clock. They look at users and instants, never at a location: the unit is a point, and a row that
vanished because of a location would tell something about it.

Two clocks. *As printed* (the trace study of geo-indistinguishability on Geolife): windows of
each trip count from its first fix, and the first fix of a window stands for all of it. The claim
is then *given all time stamps*, which are published exactly: when someone moved, how often a device
measured and where windows begin is not hidden, and "hiding the frequency of movements" has no
formal content. *On a public clock* the windows are the same for everybody, fixed before the data
is seen, and every user has one report in every window of the period, measured or not: the location
of the last fix so far (the first one for windows before it). The rows are then the same whatever
the record is, and the claim holds for any two records of one user, with no condition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.private import Private
from sfumato.model.traces import MICROSECONDS, Traces, run_starts
from sfumato.privacy.mechanisms.planar import Shown
from sfumato.traces.request import Kind, SanitiseRequest

Ints = NDArray[np.int64]


class TraceSource:
    """True traces: what `sanitise` is given. It names its input and gives boxes, nothing else."""

    def __init__(self, traces: Traces) -> None:
        self.__traces = traces
        self.withheld = 0
        """Fixes that the last rule left out: for the holder's eyes."""

    def fingerprint(self, key: bytes) -> str:
        """A keyed digest of the fixes and whose they are."""
        return traces_fingerprint(self.__traces, key)

    def bounded(self, rule: Callable[[Traces], Traces]) -> Private[Traces]:
        """The fixes that a rule on users and instants keeps, in a box."""
        kept = rule(self.__traces)
        self.withheld = len(self.__traces) - len(kept)
        return Private(kept, "true traces")

    def __repr__(self) -> str:
        return "<true traces>"


def traces_fingerprint(traces: Traces, key: bytes) -> str:
    """What reservations of traces are bound to."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=32)
    digest.update(b"sfumato-traces/1")
    digest.update(repr(traces.names.tolist()).encode())
    for column in (traces.user, traces.trip, traces.time, traces.lon, traces.lat):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def eligible(traces: Traces, asked: SanitiseRequest) -> Traces:
    """Fixes of the public period, at most the stated number of reports a user."""
    inside = traces.between(*asked.period)
    if asked.kind is Kind.PRINTED_CLOCK:
        assert asked.window_s is not None
        return first_windows(inside, asked.window_s, asked.most_reports)
    if asked.kind is Kind.PREDICTIVE:  # the walk itself stops fresh reports at the bound
        return inside
    return first_of_each(inside, asked.most_reports)


def first_of_each(traces: Traces, most: int | None) -> Traces:
    """At most the first `most` fixes of every user in time: a public bound, given beforehand."""
    if most is None or len(traces) == 0:
        return traces
    order = np.lexsort((traces.time, traces.user))
    user = traces.user[order]
    begins = np.flatnonzero(np.diff(user, prepend=user[0] - 1))
    lengths = np.diff(np.append(begins, user.size))
    rank = np.arange(user.size) - np.repeat(begins, lengths)
    kept = np.zeros(user.size, np.bool_)
    kept[order] = rank < most
    return traces.pick(kept)


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


def shown(traces: Traces, asked: SanitiseRequest) -> Shown:
    """The rows that will be published and the fix whose noisy location each of them shows."""
    if asked.kind is Kind.CLOCK:
        assert asked.window_s is not None
        return Shown.each(true_on_clock(traces, asked.clock, asked.window_s))
    if asked.kind is Kind.PRINTED_CLOCK:
        assert asked.window_s is not None
        return Shown(traces, printed_windows(traces, asked.window_s))
    return Shown.each(traces)
