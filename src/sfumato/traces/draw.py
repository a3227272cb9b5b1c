"""From true traces to reports, as a request asks: charge first, then draw.

This is the one place where traces pass the wall. `Charger.charge` is called before a single
digit of the stream is read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.charging import Charger
from sfumato.privacy.noise import BitStream
from sfumato.traces.mechanisms.gaussian import gaussian
from sfumato.traces.mechanisms.independent import first_of_each, independent
from sfumato.traces.mechanisms.predictive import predictive
from sfumato.traces.mechanisms.windows import (
    first_windows,
    on_printed_clock,
    on_public_clock,
)
from sfumato.traces.model import Traces
from sfumato.traces.outside import apply
from sfumato.traces.request import Kind, SanitiseRequest

LABEL = "locations"


def eligible(traces: Traces, asked: SanitiseRequest) -> Traces:
    """Fixes of the public period, at most the stated number of reports a user."""
    inside = traces.between(*asked.period)
    if asked.kind is Kind.PRINTED_CLOCK:
        assert asked.window_s is not None
        return first_windows(inside, asked.window_s, asked.most_reports)
    if asked.kind is Kind.PREDICTIVE:  # the walk itself stops fresh reports at the bound
        return inside
    return first_of_each(inside, asked.most_reports)


def draw_reports(
    traces: Traces, asked: SanitiseRequest, charger: Charger, stream: BitStream
) -> Traces:
    """Noisy reports of eligible traces, under pseudonyms, after the outside policy."""
    charger.charge(LABEL, asked.event)
    noise, on = stream.child("noise"), asked.lattice
    match asked.kind:
        case Kind.INDEPENDENT:
            assert asked.strength is not None
            made = independent(traces, asked.strength, noise, lattice=on)
        case Kind.PRINTED_CLOCK:
            assert asked.strength is not None
            assert asked.window_s is not None
            made = on_printed_clock(traces, asked.window_s, asked.strength, noise, lattice=on)
        case Kind.CLOCK:
            assert asked.strength is not None
            assert asked.window_s is not None
            made = on_public_clock(
                traces, asked.clock, asked.window_s, asked.strength, noise, lattice=on
            )
        case Kind.PREDICTIVE:
            assert asked.prediction is not None
            made = predictive(traces, asked.prediction, noise, lattice=on).traces
        case Kind.GAUSSIAN:
            assert asked.gaussian is not None
            made = gaussian(traces, asked.gaussian, noise, lattice=on)
    return apply(asked.outside, asked.box, pseudonyms(made, stream.child("names")))


def pseudonyms(traces: Traces, stream: BitStream) -> Traces:
    """Names from a random order of the users, and rows in the order of the names.

    A name hides nothing that the trace itself tells; it only keeps ids out of the file.
    """
    users = np.unique(traces.user)
    # Distinct random keys sort the users; ties of 64-bit words are broken by position.
    keys = stream.words(users.size)
    rank = np.empty(users.size, np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(users.size)
    width = len(str(max(users.size - 1, 1)))
    names: NDArray[np.object_] = np.array(
        [f"p{number:0{width}d}" for number in range(users.size)], dtype=object
    )
    user = rank[np.searchsorted(users, traces.user)]
    order = np.lexsort((traces.time, traces.trip, user))
    trips = traces.trip[order]
    moved = Traces(
        names,
        user[order],
        trips,
        traces.time[order],
        traces.lon[order],
        traces.lat[order],
        np.arange(order.size, dtype=np.int64),
    )
    starts = moved.starts
    outing = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    first = outing[np.searchsorted(moved.user, np.arange(users.size))]
    return Traces(
        names, moved.user, outing - first[moved.user], moved.time, moved.lon, moved.lat, moved.row
    )
