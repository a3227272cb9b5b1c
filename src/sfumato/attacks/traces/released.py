"""A folder of `sfumato sanitise` beside the true traces that it was made of. INTERNAL.

The folder has pseudonyms, so each of its users is first found among the true ones, as only the
holder can: at instants of the user's reports, whose true fix at that very instant is near, report
after report. No key is needed. Fixes of the truth that were not published (public bounds, a rolling
budget, reports outside of a region) stay out of all figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.errors import InputError, UsageError
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import MICROSECONDS, Traces, make_traces, run_starts
from sfumato.published.release import Release, read_release
from sfumato.traces.bounds import true_on_clock
from sfumato.traces.interpolation import unit_vectors
from sfumato.traces.request import Kind, windows_between

Ints = NDArray[np.int64]

_ASKED = 32
"""Reports of a user by which the user is found: one alone is as near to a neighbour's fix."""
_NEAR = 8
"""True fixes of an instant that a report may be of."""
_APART = 10.0
"""Between two instants, in radii of the earth: nothing is near at another one."""
_LEAST = 0.5
"""Below this share of reports with a true fix, the traces are not those of the release."""


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """Reports of a release under true names, and the true fix of each in the same row."""

    name: str
    kind: Kind
    noise_m: float
    window_s: int | None
    matched: float
    """Share of the release's reports whose true fix is among the traces."""
    reports: Traces
    true: Traces


def released(traces: Traces, folder: Path) -> Released:
    """The reports of a folder, put beside the traces that they were made of.

    Raises:
        UsageError: The folder holds no sanitised traces.
        InputError: It is damaged, or was made of other traces.
    """
    made = read_release(folder)
    if made.kind != "traces":
        raise UsageError(
            f"{folder} holds no sanitised traces.",
            remedy="Releases of counts are attacked by `sfumato attack RELEASE`.",
        )
    settings = made.manifest.scheme.parameters
    kind = Kind(made.manifest.scheme.name.partition("/")[2])
    noise, window = float(settings["expected_noise_m"]), settings.get("window_s")
    window_s = None if window is None else int(window)
    reports = _reports(made)
    true = traces
    if kind is Kind.CLOCK:  # its reports have the instants of the clock, not of the fixes
        assert window_s is not None
        start, end = (
            round(datetime.fromisoformat(edge).timestamp()) * MICROSECONDS
            for edge in (made.manifest.grid.start, made.manifest.grid.end)
        )
        clock = windows_between(start, end, window_s)
        true = true_on_clock(traces.between(start, end), clock, window_s)
    owner = _owners(reports, true, noise)
    named = replace(reports, names=true.names, user=owner[reports.user])
    at, there = _same_instants(named, true)
    if there.mean() < _LEAST:
        raise InputError(
            f"{folder} was not made of these traces: hardly a report has a true fix.",
            remedy="Give the traces that it was made of, and the options by which they were read.",
        )
    named, at = named.pick(there), at[there]
    return Released(
        made.manifest.release.name,
        kind,
        noise,
        window_s,
        float(there.mean()),
        named,
        named.at(true.lon[at], true.lat[at]),
    )


def _reports(made: Release) -> Traces:
    table = made.table()
    users = table["user"].combine_chunks().dictionary_encode()
    time = pc.cast(table["time"], pa.int64())
    traces, _ = make_traces(
        users.indices.to_numpy().astype(np.int64),
        np.array(users.dictionary.to_pylist(), dtype=object),
        time.to_numpy(),
        table["lon"].to_numpy(),
        table["lat"].to_numpy(),
        trip=table["trip"].to_numpy(),
    )
    if not len(traces):
        raise InputError("there is not a single report in the release.")
    return traces


def _owners(reports: Traces, true: Traces, noise_m: float) -> Ints:
    """The true user behind each pseudonym: whose fixes are near its reports, at their instants."""
    starts = run_starts(reports.user)
    lengths = np.diff(starts)[:, None]
    asked = np.unique(starts[:-1, None] + np.arange(_ASKED) * lengths // _ASKED)
    instants = np.unique(reports.time[asked])
    fixes = np.flatnonzero(np.isin(true.time, instants))
    if not fixes.size:
        return np.full(reports.names.size, -1)
    tree = cKDTree(_in_time(true, fixes, instants))
    points = _in_time(reports, asked, instants)
    nearest = tree.query(points, k=_NEAR, distance_upper_bound=_APART / 2)
    apart, near = (np.asarray(part) for part in nearest)
    there = near < fixes.size
    pseudonym = np.repeat(reports.user[asked], there.sum(axis=1))
    user = true.user[fixes[near[there]]]
    # Heavy tails: a window's report may be far from the fix, and must then not decide alone.
    weight = 1.0 / (1.0 + apart[there] * EARTH_RADIUS_M / noise_m)
    pairs, which = np.unique(pseudonym * true.names.size + user, return_inverse=True)
    votes = np.bincount(which, weight)
    owner = np.full(reports.names.size, -1)
    order = np.argsort(votes, kind="stable")  # the last one written has most
    owner[pairs[order] // true.names.size] = pairs[order] % true.names.size
    return owner


def _in_time(traces: Traces, rows: Ints, instants: Ints) -> NDArray[np.float64]:
    """Points of the sphere, each instant on a sphere of its own."""
    layer = _APART * np.searchsorted(instants, traces.time[rows])
    return np.column_stack((unit_vectors(traces.lon[rows], traces.lat[rows]), layer))


def _same_instants(named: Traces, true: Traces) -> tuple[Ints, NDArray[np.bool_]]:
    """The true fix of each report's user at its instant, and whether there is one."""
    instants = np.unique(true.time)
    key = true.user * instants.size + np.searchsorted(instants, true.time)
    order = np.argsort(key, kind="stable")
    rank = np.minimum(np.searchsorted(instants, named.time), instants.size - 1)
    wanted = named.user * instants.size + rank
    at = order[np.minimum(np.searchsorted(key[order], wanted), order.size - 1)]
    return at, (true.user[at] == named.user) & (true.time[at] == named.time)
