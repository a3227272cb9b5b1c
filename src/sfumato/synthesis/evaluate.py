"""`sfumato.evaluate` on synthetic folders: made-up people and trips beside the true ones. INTERNAL.

For the holder's eyes only, like every comparison with the truth: files are marked internal and
readable by their owner alone, and nothing is charged because nothing here may be published. People
with a clock are judged by `utility.mobility`, trips by `utility.trips`. With people who were held
back from the synthesis, `utility.copying` looks for copies; those checks are never a gate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.engine.local import DropLog, Judge
from sfumato.errors import InputError, UsageError
from sfumato.geography.locate import Locator
from sfumato.geography.overlay import centres
from sfumato.geography.places import OpenedPlaces, PlaceOptions
from sfumato.geography.projection import Plane
from sfumato.io.events import all_rows, read_events, resolved
from sfumato.io.traces import coded_users, read_traces
from sfumato.io.write import folder_to_fill, make_folder, write_bytes
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid
from sfumato.model.traces import MICROSECONDS, Box, Traces, run_starts
from sfumato.published.folder import parquet_table
from sfumato.published.manifest import MANIFEST_NAME
from sfumato.published.release import Release
from sfumato.reports.internal import head, table
from sfumato.synthesis.folder import EVENTS
from sfumato.utility.copying import NEVER_A_GATE, copying_checks, life_points, trip_points
from sfumato.utility.density import Evaluation
from sfumato.utility.mobility import Lives, judge_density, judge_lives
from sfumato.utility.trips import TripJudge, Trips, exact_repeats

SUMMARY = "internal-synthetic.json"
PAGE = "internal-synthetic.html"
WRITTEN = (PAGE, SUMMARY)
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_MARK = "True records went into these figures. Do not publish them."
_STILL_KM = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticComparison:
    """How synthetic folders compare with the truth: for the holder's eyes only."""

    published: tuple[Release, ...]
    evaluations: tuple[Evaluation, ...]
    remarks: tuple[str, ...] = ()
    written: tuple[str, ...] = WRITTEN

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self.evaluations)
        return f"<SyntheticComparison, INTERNAL: {names}>"


@dataclass(frozen=True, slots=True)
class _Read:
    """How the holder's files are read."""

    column: Mapping[str, str] | None
    tz: str
    time_unit: str | None
    format: str | None

    def said(self) -> dict[str, Any]:
        return {
            "columns": self.column,
            "tz": self.tz,
            "time_unit": self.time_unit,
            "format": self.format,
        }


def evaluate_synthetic(
    published: Sequence[Release],
    events: object,
    *,
    held_back: object = None,
    places: PlaceOptions,
    tz: str | None = None,
    events_tz: str | None = None,
    column: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    out: str | os.PathLike[str] | None = None,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
) -> SyntheticComparison:
    """`sfumato.evaluate` for folders of kind `synthetic`; its arguments are explained there.

    Raises:
        UsageError: Not all are synthetic, or they are about other places or periods.
    """
    tell = progress or (lambda *_: None)
    if any(one.kind != "synthetic" for one in published):
        raise UsageError(
            "Synthetic people and tables of counts are judged by different figures.",
            remedy="Evaluate them one at a time.",
        )
    first = published[0]
    if any(one.manifest.grid.sha256 != first.manifest.grid.sha256 for one in published):
        raise UsageError("What is compared must be about the same period.")
    reading = _Read(column, events_tz or tz or first.manifest.grid.tz, time_unit, format)
    tell("reading events", -1.0)
    ways = {"region" in one.manifest.public_inputs for one in published}
    if len(ways) > 1:
        raise UsageError("People at places and trips in a region are judged by different figures.")
    found = (_trips if ways == {True} else _people)(
        published, events, held_back, places, reading, internal, tell
    )
    remarks = () if held_back is None else (NEVER_A_GATE,)
    compared = SyntheticComparison(tuple(published), found, remarks)
    if out is not None:
        write_synthetic(compared, folder_to_fill(out))
    return compared


def _people(
    published: Sequence[Release],
    events: object,
    held_back: object,
    places: PlaceOptions,
    reading: _Read,
    internal: Callable[[DropLog], None] | None,
    tell: Callable[[str, float], None],
) -> tuple[Evaluation, ...]:
    """People with a clock, at places."""
    grid = published[0].grid
    opened = places.open(period=grid, tz=reading.tz)
    for one in published:
        if one.manifest.released.sha256 != opened.released.fingerprint():
            raise UsageError(
                "These are not the places of the synthetic people.",
                remedy="Give the `towers`, `zones` or `grid` that they were made with.",
            )
    middles = centres(opened.released) / 1000.0
    true, density = _lived(events, opened, grid, reading, internal)
    outside = None if held_back is None else _lived(held_back, opened, grid, reading, None)[0]
    shown = OpenedPlaces(opened.released, opened.released)
    own = _Read(None, "UTC", None, None)
    judged = []
    for one in published:
        tell("comparing people", -1.0)
        made, seen = _lived(one.folder / EVENTS, shown, grid, own, None)
        overall = judge_density(density, seen) | judge_lives(true, made, middles)
        if outside is not None:
            points = [life_points(lives, middles) for lives in (true, outside, made)]
            overall |= _copying(one, *points)
        judged.append(Evaluation(one.label, overall, {}, {}))
    return tuple(judged)


def _lived(
    events: object,
    places: OpenedPlaces,
    grid: TimeGrid,
    reading: _Read,
    internal: Callable[[DropLog], None] | None,
) -> tuple[Lives, Floats]:
    """Records by person at released places, and distinct people by released place and slot."""
    zones = places.counted.kind is PlaceKind.ZONES
    described = resolved(read_events(events, period=grid.period, **reading.said()), zones)
    try:
        parts, described = all_rows(described, described.user)
        rows = [some for part in parts for some in part]
        bits = max(1, (len(places.counted) - 1).bit_length())
        judge = Judge(places.counted, grid, bits)
        cells = np.concatenate([np.empty(0, np.int64), *(judge.cells(some) for some in rows)])
        user, _ = coded_users([some.user for some in rows], described.user)
        time = np.concatenate([np.empty(0, np.int64), *(some.time for some in rows)])
        if internal is not None:
            internal(judge.log(len(described.unfit)))
    finally:
        described.close()
    kept = (cells >= 0) & (user >= 0)
    user, time = user[kept], time[kept]
    counted, slot = cells[kept] & ((1 << bits) - 1), cells[kept] >> bits
    shape = (len(places.counted), grid.slots)
    once = np.unique((user * shape[0] + counted) * shape[1] + slot)
    counts = np.bincount(once % (shape[0] * shape[1]), minlength=shape[0] * shape[1])
    density = counts.reshape(shape).astype(np.float64)
    if places.shares is None:
        return Lives.of(user, time, counted, grid.tz), density
    at = _zone_of_tower(places.counted, places.released)[counted]
    return Lives.of(user, time, at, grid.tz), places.shares.to_zones(density)


def _zone_of_tower(towers: Places, zones: Places) -> Ints:
    """The zone that each tower stands in; -1 for none."""
    at = shapely.get_coordinates(towers.geometry)
    return Locator(zones).locate(at[:, 0], at[:, 1]).astype(np.int64)


def _trips(
    published: Sequence[Release],
    events: object,
    held_back: object,
    places: PlaceOptions,
    reading: _Read,
    internal: Callable[[DropLog], None] | None,
    tell: Callable[[str, float], None],
) -> tuple[Evaluation, ...]:
    """Trips in a public region, time left out."""
    del places, internal
    first = published[0]
    box = Box.parse(str(first.manifest.public_inputs["region"]))
    plane = Plane((box.west + box.east) / 2, (box.south + box.north) / 2)
    ends = (first.manifest.grid.start, first.manifest.grid.end)
    period = [int(datetime.fromisoformat(end).timestamp() * MICROSECONDS) for end in ends]

    def read(source: object) -> Trips:
        found, _ = read_traces(source, own_trips=False, **reading.said())
        return trips_on_plane(found.between(*period).within(*box.bounds), plane)

    true = read(events)
    outside = None if held_back is None else read(held_back)
    judge, judged = TripJudge(true), []
    for one in published:
        tell("comparing trips", -1.0)
        made = made_trips(one, plane)
        overall = judge.judge(made) | {"exact_repeats": exact_repeats(made)}
        if outside is not None:
            overall |= _copying(one, *(trip_points(some) for some in (true, outside, made)))
        judged.append(Evaluation(one.label, overall, {}, {}))
    return tuple(judged)


def trips_on_plane(traces: Traces, plane: Plane) -> Trips:
    """Trips in kilometres; points that repeat the one before, within a decimetre, are left out."""
    x, y = (plane.to_metres(np.column_stack((traces.lon, traces.lat))) / 1000.0).T
    again = np.abs(np.diff(x, prepend=np.nan)) + np.abs(np.diff(y, prepend=np.nan)) <= _STILL_KM
    again[traces.starts[:-1]] = False
    starts = run_starts(traces.user[~again], traces.trip[~again])
    return Trips(x[~again].copy(), y[~again].copy(), starts)


def made_trips(release: Release, plane: Plane) -> Trips:
    """The trips of a synthetic folder: a trip is what its column says, or else a person."""
    columns = parquet_table(release.files, EVENTS)
    missing = sorted({"user_id", "lon", "lat"} - set(columns.column_names))
    if missing:
        where = str(release.folder / EVENTS)
        raise InputError("the column is missing.", file=where, column=missing[0])
    user, lon, lat = (columns[name].to_numpy() for name in ("user_id", "lon", "lat"))
    trip = columns["trip"].to_numpy() if "trip" in columns.column_names else np.zeros_like(user)
    rows = np.arange(user.size)
    made = Traces(np.empty(0, object), user, trip, rows, lon, lat, rows)
    return trips_on_plane(made, plane)


def _copying(
    made: Release, members: Floats, held_back: Floats, synthetic: Floats
) -> dict[str, float]:
    claim = made.manifest.privacy
    epsilon = claim.epsilon if made.manifest.differential_privacy else np.inf
    return copying_checks(members, held_back, synthetic, epsilon, claim.delta).figures()


def write_synthetic(found: SyntheticComparison, folder: Path) -> list[Path]:
    """Internal figures as JSON, and a page of them."""
    if (folder / MANIFEST_NAME).exists():
        raise UsageError(
            "Internal results do not go into a published folder.", remedy="Choose another `out`."
        )
    make_folder(folder)
    summary = {
        "internal": _MARK,
        "releases": [{"name": one.name, **one.overall} for one in found.evaluations],
        "remarks": list(found.remarks),
    }
    text = json.dumps(summary, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_bytes(folder / SUMMARY, text.encode(), mode=0o600)
    write_bytes(folder / PAGE, page(found).encode(), mode=0o600)
    return [folder / PAGE, folder / SUMMARY]


def page(found: SyntheticComparison) -> str:
    """The internal page: every figure, a column a folder."""
    keys = dict.fromkeys(key for one in found.evaluations for key in one.overall)
    rows = [
        [
            key.replace("_", " "),
            *(f"{one.overall.get(key, np.nan):.4g}" for one in found.evaluations),
        ]
        for key in keys
    ]
    names = [one.name for one in found.evaluations]
    parts = [
        head("Synthetic data beside the truth", "Made with true records"),
        "<h1>Synthetic data beside the truth</h1>",
        table(["figure", *names], rows),
        *(f"<p>{escape(remark)}</p>" for remark in found.remarks),
        "</html>\n",
    ]
    return "\n".join(parts)
