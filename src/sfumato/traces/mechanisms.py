"""From bounded true traces in a box to published reports: what each kind asks of the wall.

The kinds differ in what they show and in the measurement they take (`privacy.mechanisms.planar`,
where the claims are): `independent` noise on every fix, one noisy location for every window of a
clock (`bounds`), the predictive mechanism, and Gaussian noise on a plane. All that happens left of
the measurement stays in the box; all that happens to its answer (back to degrees, the lattice,
pseudonyms, the outside policy) is post-processing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.private import Private
from sfumato.model.traces import Box, Traces
from sfumato.privacy.mechanisms.planar import OnPlane, Reports, Shown
from sfumato.privacy.noise.planar import Lattice, Strength
from sfumato.privacy.wall import Wall
from sfumato.traces.bounds import printed_windows, shown
from sfumato.traces.request import LABEL, GaussianTraces, Kind, Outside, SanitiseRequest

NAMES = "names"
"""The random order of the users, from which their pseudonyms come."""


def draw_reports(box: Private[Traces], asked: SanitiseRequest, wall: Wall) -> Reports:
    """Noisy reports of eligible traces, under pseudonyms, after the outside policy."""
    on = asked.lattice
    if asked.kind is Kind.PREDICTIVE:
        assert asked.prediction is not None
        found: Reports = wall.predictive(box, setting=asked.prediction, label=LABEL, lattice=on)
    elif asked.kind is Kind.GAUSSIAN:
        assert asked.gaussian is not None
        found = gaussian(box, asked.gaussian, wall, lattice=on)
    else:
        assert asked.strength is not None
        found = wall.planar(
            box.map(lambda traces: shown(traces, asked)),
            strength=asked.strength,
            most_reports=asked.reports,
            label=LABEL,
            lattice=on,
        )
    named = pseudonyms(found.traces, wall)
    return replace(found, traces=outside(asked.outside, asked.box, named))


def gaussian(
    box: Private[Traces],
    setting: GaussianTraces,
    wall: Wall,
    *,
    lattice: Lattice | None = None,
    label: str = LABEL,
) -> Reports:
    """The same fixes with Gaussian noise; no user may have more than the stated reports."""
    placed = box.map(lambda rows: OnPlane(rows, setting.to_plane(rows.lon, rows.lat)))
    found = wall.plane_gaussian(
        placed,
        reach=setting.reach,
        most_reports=setting.most_reports,
        sigma2=setting.event.sigma2,
        label=label,
    )
    on = lattice or Lattice()
    return replace(found, traces=found.traces.at(*on.snap(*setting.to_degrees(found.units))))


def outside(policy: Outside, box: Box | None, reports: Traces) -> Traces:
    """The reports after the policy."""
    if policy is Outside.KEEP:
        return reports
    if box is None:
        raise UsageError("Clamping and dropping need a public region.", remedy="Give `region`.")
    if policy is Outside.CLAMP:
        return reports.at(*box.clamp(reports.lon, reports.lat))
    return reports.pick(box.inside(reports.lon, reports.lat))


def simulated(
    traces: Traces, strength: Strength, wall: Wall, label: str, *, window_s: int | None = None
) -> Traces:
    """What planar noise would make of these traces: for attacks and studies, which know the truth.

    With `window_s` one location stands for each window that counts from a trip's first fix. The
    wall must be a seeded one, so that nothing made here can ever be published.
    """
    if not wall.tainted:
        raise UsageError("Noise is simulated on a seeded wall only.")
    by = (
        Shown.each(traces) if window_s is None else Shown(traces, printed_windows(traces, window_s))
    )
    most = max(int(np.bincount(traces.user, minlength=1).max()), 1)
    box = Private(by, "traces of a study")
    made = wall.planar(box, strength=strength, most_reports=most, label=label).traces
    return replace(made, names=traces.names, row=traces.row)


def pseudonyms(traces: Traces, wall: Wall) -> Traces:
    """Names from a random order of the users, and rows in the order of the names.

    A name hides nothing that the trace itself tells; it only keeps ids out of the file.
    """
    users = np.unique(traces.user)
    rank = wall.random_order(users.size, NAMES)
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
