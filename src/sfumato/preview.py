"""`sfumato.inspect`: a look at the rows, or at a verb carried out on them. INTERNAL.

Alone it looks at the files (`sfumato.io.inspect`). With `as_` it carries out `release`, `stream`,
`sanitise` or `synth` as they would be, from the same request, plan and reader, and says what would
count, what it would cost and how good it would be. Three things differ from the verb itself:

* its ledger is a stand-in in a scratch folder that goes at the end, so the noise comes from a key
  that nobody keeps; the holder's ledger is asked whether there is room and never written;
* its folder lies there as well, is compared with the truth and goes, too, whatever happens:
  an error, Ctrl-C, and, at the next scratch folder of this user, a process that was killed;
* what would refuse it (a cap, a forecast that says it is of no use) is told, not raised.

It differs from `plan` and from a dry run in that it reads the records. Those follow from public
facts, so that what they say may be used and passed on; this is about people: it is for the holder
alone, and settings that are chosen by it, or a release that is made or not by it, are outside the
guarantee.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from inspect import signature
from pathlib import Path
from typing import Any

import sfumato
from sfumato.density.evaluate import evaluate
from sfumato.engine.local import DropReason
from sfumato.errors import BudgetRefused, Unfit, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.inspect import look
from sfumato.io.inspection import Inspection
from sfumato.io.write import Scratch, write_bytes
from sfumato.model.rounding import number_of, percent, rounded_up
from sfumato.model.source import Progress
from sfumato.privacy.events import Unit, UnitKind
from sfumato.privacy.ledger import Cap, Claim, Ledger
from sfumato.privacy.ledger.ledger import cap_unit
from sfumato.privacy.ledger.limits import Replan
from sfumato.published.folder import check_internal, make_internal_folder
from sfumato.published.manifest import Manifest
from sfumato.streams.kafka import is_topic
from sfumato.streams.publish import PIPE

PREVIEWED = ("release", "stream", "sanitise", "synth")
FILE = "internal-inspection.json"
_ENOUGH = 1e9
"""Epsilon of the stand-in's cap: the holder's ledger says what there is room for."""
_POINT = cap_unit(Unit(UnitKind.POINT))
_DIFFERS = (
    "`plan` and a dry run follow from public facts and read no record; this has read them. It is "
    "for the holder alone. Whoever chooses settings by it, or publishes or not, is outside the "
    "guarantee. Nothing was published, nothing charged, and the key of its noise is gone."
)


@dataclass(slots=True)
class Preview:
    """What a verb would do with these records. All of it is internal."""

    verb: str
    name: str
    rows: dict[str, Any] = field(default_factory=dict)
    """Read, counted and dropped, by reason."""
    places: str = "places"
    """What the rows were held against."""
    cost: dict[str, Any] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """Why the verb itself would end before anything is read or charged."""
    published: str | None = None
    """The sum of all counts as its readers would see it …"""
    true: float | None = None
    """… and as it is."""
    figures: dict[str, float] = field(default_factory=dict)
    """The error, as `evaluate` has it."""
    remarks: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        return int(self.rows.get("rows_read", 0))

    @property
    def counted(self) -> int:
        """Rows that would count."""
        if "rows_counted" in self.rows:
            return int(self.rows["rows_counted"])
        return self.read - int(sum(self.rows.get("rows_dropped", {}).values()))

    def lines(self) -> list[str]:
        """For the holder's eyes."""
        dropped = self.rows.get("rows_dropped", {})
        lines = [
            f"{self.verb} {self.name!r}, carried out for nobody to see:",
            f"  what would count: {self.counted:,} of {number_of(self.read, 'rows')} "
            f"({percent(self.counted / max(self.read, 1), 2)})",
        ]
        if not self.counted and any(dropped.get(str(reason)) for reason in _NOWHERE):
            lines.append(f"  0 match your {self.places}")
        lines += [f"  {number:,} dropped: {why}" for why, number in dropped.items() if number]
        if self.rows.get("files_without_rows"):
            lines.append(f"  {number_of(self.rows['files_without_rows'], 'files')} give no rows")
        if not self.counted:
            lines.append("  NOTHING would be counted: it would be noise around zero, and paid for.")
        lines.append(
            f"  what it would cost: epsilon {rounded_up(self.cost['epsilon'], 4)} at delta "
            f"{rounded_up(self.cost['delta'])}, for the unit {self.cost['unit']}"
        )
        lines += [f"  it would be refused: {why}" for why in self.refusals]
        if self.published is not None:
            true = "" if self.true is None else f"; they are {self.true:,.0f}"
            lines.append(f"  how good it would be: all counts together {self.published}{true}")
        if self.figures:
            lines.append("  against the truth:" if self.published else "  how good it would be:")
            lines += [f"    {key.replace('_', ' ')}: {v:.4g}" for key, v in self.figures.items()]
        return lines + [f"  {remark}" for remark in self.remarks] + [_DIFFERS]

    def numbers(self) -> dict[str, Any]:
        """The same for a program, under `internal` where it is printed."""
        return {
            "as": self.verb,
            "name": self.name,
            "rows": self.rows | {"rows_counted": self.counted},
            "cost": self.cost,
            "refusals": self.refusals,
            "all_counts": {"published": self.published, "true": self.true},
            "figures": self.figures,
            "remarks": self.remarks,
        }

    def __repr__(self) -> str:
        return f"<Preview, INTERNAL: {self.verb} {self.name!r}>"

    def _repr_html_(self) -> str:
        return f"<pre>internal: do not publish\n{escape(chr(10).join(self.lines()))}</pre>"


_NOWHERE = (DropReason.UNKNOWN_PLACE, DropReason.OUTSIDE_ZONES)


class _StandIn(Ledger):
    """A ledger that goes with its folder. The real one is asked for room, and only read."""

    def __init__(self, folder: Path, real: Ledger, refused: list[str]) -> None:
        super().__init__(folder / "ledger.sqlite", folder / "ledger.key")
        self._real, self._refused = real, refused
        self.initialise()

    def require_room(self, claim: Claim, replan: Replan | None = None) -> None:
        if claim.dataset in self.book().caps:
            return
        try:
            self._real.require_room(claim, replan)
        except BudgetRefused as error:
            self._refused.append(str(error))
        room = Cap(epsilon=_ENOUGH, delta=claim.delta)
        self.add_dataset(claim.dataset, room, Unit.parse(cap_unit(claim.unit)))


def preview(
    verb: str, events: object, asked: Mapping[str, object], progress: Progress | None = None
) -> Preview:
    """Carry out a verb on the events for the holder alone. INTERNAL.

    Args:
        verb: `release`, `stream`, `sanitise` or `synth`.
        events: What it would read.
        asked: What else it would be asked, by name. Beside its `out`, where nothing is put, a
            folder `internal-NAME` gets the file `internal-inspection.json`; without one nothing
            is written.
        progress: Told the stage.

    Raises:
        SfumatoError: What the verb itself raises for what does not go together or cannot be read.
    """
    if verb not in PREVIEWED:
        raise UsageError(
            f"{verb!r} cannot be looked at beforehand.",
            remedy=f"Choose from {', '.join(PREVIEWED)}.",
        )
    words = {key: value for key, value in asked.items() if value is not None}
    _refuse_open_end(verb, events, words)
    out = words.pop("out", None)
    where = Path(os.fspath(out if out is not None else verb)).absolute()  # type: ignore[call-overload]
    internal = where.parent / f"internal-{where.name}"
    for folder in (internal, *internal.parents) if out is not None else ():
        check_internal(folder)
    ledger = words.pop("ledger", None)
    real = ledger if isinstance(ledger, Ledger) else Ledger(ledger)  # type: ignore[arg-type]
    name = str(words.pop("name", where.name))
    outcome = Preview(verb, name, places=_places(words))
    with Scratch() as scratch:
        arguments = {
            **words,
            "name": name,
            "out": Path(scratch) / "made",
            "ledger": _StandIn(Path(scratch), real, outcome.refusals),
            "internal": lambda log: _take(outcome, log),
            "progress": progress,
        }
        publisher = getattr(sfumato, verb)
        result = _carried_out(publisher, events, arguments, outcome)
        manifest = sfumato.read_release(result.folder).manifest
        _price(outcome, manifest)
        if verb == "sanitise":
            _judge_traces(outcome, manifest, result.withheld)
        elif outcome.counted:
            _judge(outcome, result.folder, events, words, progress)
    if out is not None:
        text = json.dumps({"internal": outcome.numbers()}, indent=2, sort_keys=True)
        write_bytes(make_internal_folder(internal) / FILE, f"{text}\n".encode(), mode=0o600)
    return outcome


def _refuse_open_end(verb: str, events: object, words: dict[str, Any]) -> None:
    """Nothing is looked at that is yet to come, or that costs nothing."""
    for word in ("resume", "follow", "keep_key"):
        words.pop(word, None)
    coming = events is None or hasattr(events, "read")
    coming = coming or (isinstance(events, str) and (events == PIPE or is_topic(events)))
    if coming or words.get("release") is not None:
        raise UsageError(
            f"There is nothing to read for a {verb} yet.",
            remedy="Give events that are there: files, a folder, a table.",
        )


def _places(words: Mapping[str, object]) -> str:
    kinds = {"towers": "towers", "zones": "zones", "grid": "cells", "region": "region"}
    return next((kind for key, kind in kinds.items() if words.get(key) is not None), "places")


def _carried_out(
    verb: Callable[..., Any], events: object, arguments: dict[str, Any], outcome: Preview
) -> Any:
    """The verb's result; what a forecast refuses is made all the same, and the refusal told."""
    try:
        return verb(events, **arguments)
    except Unfit as refusal:
        outcome.refusals.append(str(refusal))
        return verb(events, **{**arguments, "anyway": True})


def _take(outcome: Preview, log: Any) -> None:
    """What was read, as each verb tells it."""
    if hasattr(log, "internal_counts"):
        outcome.rows = log.internal_counts() or outcome.rows
    else:
        outcome.rows = {
            "rows_read": log.rows,
            "rows_counted": log.rows - log.dropped,
            "files_without_rows": log.unfit,
        }
        outcome.remarks += log.lines()


def _price(outcome: Preview, manifest: Manifest) -> None:
    """What is charged, in the unit that a cap has, and what readers would see of the total."""
    privacy = manifest.privacy
    capped = (loss for loss in privacy.cumulative.per_unit if loss.unit == _POINT)
    loss = next(capped, privacy) if outcome.verb == "sanitise" else privacy
    outcome.cost = {key: getattr(loss, key) for key in ("unit", "epsilon", "delta")}
    if manifest.total is not None:
        outcome.published = manifest.total.words()


def _judge(
    outcome: Preview,
    folder: Path,
    events: object,
    words: Mapping[str, Any],
    progress: Progress | None,
) -> None:
    """How far it is from the truth."""
    parameters = signature(evaluate).parameters
    same = {key: value for key, value in words.items() if key in parameters}
    judged = evaluate(folder, events, **same, earth_mover=False, progress=progress)
    outcome.figures = {key: float(v) for key, v in judged.evaluations[0].overall.items()}
    truth = getattr(judged, "truth", None)
    outcome.true = None if truth is None else float(truth.sum())


def _judge_traces(outcome: Preview, manifest: Manifest, withheld: int) -> None:
    """Every report is as far from its place as its noise is expected to be."""
    outcome.rows["rows_counted"] -= withheld
    outcome.rows["rows_dropped"] = {"left out by the public bounds": withheld}
    reports = manifest.privacy.measurements[0]
    outcome.remarks.append(f"{number_of(reports.cells, 'reports')} would be published")
    if reports.sd is not None:
        outcome.figures = {"expected_noise_m": round(reports.sd * 2**0.5, 3)}


def inspect(
    events: object,
    *,
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    column: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    format: str | None = None,
    as_: str | None = None,
    asked: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Inspection | Preview:
    """Look at events before they are released: columns, clock, span, what would be dropped.

    With `as_` it carries out a verb on them and says what would count, what it would cost and how
    good it would be: no folder is published, nothing is charged, and the noise is thrown away.

    INTERNAL: it is about people's records. Nothing may be decided by it without a person who
    writes the decision down.

    Args:
        events: Files, folders, an address, a table or a data frame.
        towers: Towers that the events may name.
        zones: Zones that they may lie in.
        grid: Cells instead of zones.
        region: What the grid covers.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset.
        format: Format of the events, where names do not tell.
        as_: A verb to carry out: release, stream, sanitise or synth.
        asked: What the verb is asked besides, by name: `{"dataset": "taxis", "epsilon": 1, …}`.
            With an `out`, where nothing is put, a folder `internal-…` beside it gets the findings.
        progress: Told the stage.

    Returns:
        What was found; `lines()` is for the holder's eyes. Without `as_`, `toml()` are the lines
        that say how the events can be read.

    Raises:
        InputError: There is nothing to look at. Whatever the rows say, it comes to an end.
        UsageError: What the verb is asked does not go together.

    Example:
        >>> print("\\n".join(sfumato.inspect("events.parquet").lines()))   # doctest: +SKIP
    """
    own: dict[str, Any] = {
        "towers": towers,
        "zones": zones,
        "grid": grid,
        "region": region,
        "zone_id": zone_id,
        "zone_name": zone_name,
        "layer": layer,
        "repair_zones": repair_zones or None,
        "drop_bad_towers": drop_bad_towers or None,
        "column": column,
        "time_unit": time_unit,
        "events_tz": events_tz,
        "format": format,
    }
    if as_ is not None:
        given = {key: value for key, value in own.items() if value is not None}
        return preview(as_, events, {**given, **(asked or {})}, progress)
    if asked is not None:
        raise UsageError("What a verb is asked goes with the verb.", remedy="Name it with `as_`.")
    places = PlaceOptions(
        *(towers, zones, grid, region, zone_id, zone_name, layer),
        *(repair_zones, drop_bad_towers),
        column=column,
    )
    masts, areas = places.read(events_tz or "UTC")
    return look(
        events,
        columns=column,
        tz=events_tz,
        time_unit=time_unit,
        format=format,
        places=areas if masts is None else masts,
        zones=None if masts is None else areas,
    )
