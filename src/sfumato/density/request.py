"""What a release is asked to be: everything public about it, checked before it begins.

Earlier releases, read back as what a new one may expect.

What they say enters the next release uncharged, so it must be what was published: the table is
held against the digest in its manifest, and noise from a test seed is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.density.folder import Finish
from sfumato.density.refine.margins import EarlierTable, expected_pattern, pattern_digest
from sfumato.density.registry import OWN_BOUNDS, scheme_named
from sfumato.density.scheme import Parameter, Plan, PublicFacts
from sfumato.errors import InputError, UsageError
from sfumato.geography.overlay import layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_parent_column, read_parents, read_zones
from sfumato.model.counts import Bound, Counting, SampleBound, WeightBound
from sfumato.model.places import Places
from sfumato.model.time_grid import HourCalendar, TimeGrid
from sfumato.privacy.ledger import Claim
from sfumato.privacy.transaction import digests
from sfumato.published.release import Release, read_release


def pattern_of(
    folders: Sequence[str | os.PathLike[str]], released: Places, grid: TimeGrid
) -> NDArray[np.float64]:
    """The pattern of earlier releases on the slots of the next, over the same places."""
    tables = [_table(read_release(folder), released, grid) for folder in folders]
    return expected_pattern(tables, HourCalendar.of(grid.starts(), grid.ends()))


def _table(release: Release, released: Places, grid: TimeGrid) -> EarlierTable:
    manifest = release.manifest
    _check_published(release)
    if manifest.released.sha256 != released.fingerprint():
        raise InputError(
            "An earlier release is about other places than this one.",
            file=str(release.folder),
            remedy="Give releases for the same zones, or leave it out.",
        )
    if manifest.grid.step_seconds != grid.step.total_seconds() or manifest.grid.tz != grid.tz:
        raise InputError(
            "An earlier release has other time slots than this one.",
            file=str(release.folder),
            remedy="Give releases with the same --slot and --tz, or leave it out.",
        )
    table, slots = release.table(), manifest.grid.slots
    values = table.column("count").to_numpy().astype(np.float64).reshape(-1, slots)
    starts = table.column("time_start").slice(0, slots).to_pylist()
    ends = table.column("time_end").slice(0, slots).to_pylist()
    return EarlierTable(values, HourCalendar.of(starts, ends))


def _check_published(release: Release) -> None:
    found = digests(release.folder).get("density.parquet")
    if (
        release.manifest.tainted
        or found is None
        or release.manifest.files.get("density.parquet") != found
    ):
        raise InputError(
            "An earlier release is not as it was published.",
            file=str(release.folder),
            remedy="Give the folder as sfumato release made it, or leave it out.",
        )


@dataclass(frozen=True, slots=True)
class Request:
    """A release that has been asked for and checked, but not begun."""

    facts: PublicFacts
    scheme: str
    counted: Places
    released: Places
    dataset: str
    name: str
    finish: Finish

    def plan(self) -> Plan:
        """What it will cost and how exact it will be, from public facts alone."""
        return scheme_named(self.scheme).plan(self.facts)

    def claim(self, fingerprint: str, out: Path) -> Claim:
        """What the ledger is asked to set aside."""
        plan, edges = self.plan(), self.facts.grid.edges
        return Claim(
            dataset=self.dataset,
            name=self.name,
            unit=self.facts.unit,
            delta=self.facts.delta,
            period=(int(edges[0]), int(edges[-1])),
            events=tuple(plan.events.items()),
            config=self.config(),
            fingerprint=fingerprint,
            out=str(out),
            sums=plan.sums,
        )

    def config(self) -> dict[str, Any]:
        """Everything that shapes the output: what a rerun must have in common.

        The version is on record and not compared (`privacy.ledger.records.RECORDED`).
        """
        facts = self.facts
        return {
            "sfumato": __version__,
            "scheme": self.scheme,
            "parameters": dict(facts.parameters),
            "epsilon": facts.epsilon,
            "delta": facts.delta,
            "expected_users": facts.expected_users,
            "unit": str(facts.unit),
            "bound": bound_text(facts.bound),
            "counting": facts.counting.value,
            "places": self.counted.fingerprint(),
            "zones": self.released.fingerprint(),
            "time grid": facts.grid.fingerprint(),
            **self.finish.inputs(),
            **({} if facts.expected is None else {"earlier": pattern_digest(facts.expected)}),
        }


def parse_bound(text: str) -> Bound:
    """`weight:3` or `sample:30`."""
    kind, _, number = text.partition(":")
    try:
        if kind == "weight":
            return WeightBound(float(number))
        if kind == "sample":
            return SampleBound(int(number))
    except ValueError:
        pass
    raise UsageError(f"{text!r} is not a bound.", remedy="Write weight:3 or sample:30.")


def bound_text(bound: Bound) -> str:
    """What `parse_bound` reads."""
    if isinstance(bound, SampleBound):
        return f"sample:{bound.slots}"
    return f"weight:{bound.limit!r}"


def request(
    *,
    towers: object = None,
    zones: object = None,
    grid: TimeGrid | None = None,
    start: date | str | None = None,
    end: date | str | None = None,
    slot: str = "1h",
    tz: str | None = None,
    dataset: str,
    epsilon: float,
    delta: float,
    name: str,
    scheme: str = "bayes",
    bound: Bound | str | None = None,
    counting: Counting | str = Counting.VISITS,
    expected_users: int | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    hierarchy: object = None,
    hierarchy_column: str | None = None,
    integers: bool = False,
    earlier: Sequence[str | os.PathLike[str]] = (),
) -> Request:
    """Check everything about a release that is public; the events are not looked at.

    `zone_id` and `zone_name` name columns of the zones' file, `layer` its layer; `repair_zones`
    makes crossing outlines valid, `drop_bad_towers` leaves out towers without a usable place.
    `hierarchy` (a table of zone_id and parent_id) or `hierarchy_column` (a column of the zones'
    file) adds districts and the city, `integers` rounds counts to whole numbers. `earlier` are
    folders of releases of earlier periods, whose rhythms this one may expect; they cost nothing.
    """
    scheme_named(scheme)
    if bound is not None and scheme in OWN_BOUNDS:
        raise UsageError(
            f"The scheme {scheme} chooses its own bounds from the expected number of people.",
            remedy="Leave --bound out, or choose another --scheme.",
        )
    if grid is None:
        if start is None or end is None or tz is None:
            raise UsageError(
                "The period is missing: it is a public choice and never read from the data.",
                remedy="Give --from, --to, --slot and --tz.",
            )
        grid = period_of(start, end, slot, tz)
    to = (
        None
        if zones is None
        else _places(
            zones, lambda s: read_zones(s, zone_id, zone_name, repair=repair_zones, layer=layer)
        )
    )
    at = (
        None
        if towers is None
        else _places(towers, lambda s: read_towers(s, zones=to, tz=tz, drop_bad=drop_bad_towers))
    )
    counted = at if at is not None else to
    if counted is None:
        raise UsageError("Where the events are is missing.", remedy="Give --towers or --zones.")
    shares, where, zone_layout = None, layout_of_zones(counted), None
    if at is not None and to is not None:
        cells = voronoi_cells(at, to, period=grid)
        shares = overlay(cells, to)
        where, zone_layout = layout_of_cells(cells), layout_of_zones(to)
    try:
        what = Counting(counting)
    except ValueError:
        raise UsageError(
            f"{counting!r} cannot be counted.", remedy=f"Choose from {', '.join(Counting)}."
        ) from None
    released = counted if to is None else to
    if earlier and scheme != "bayes":
        raise UsageError(
            f"The scheme {scheme} does not learn from earlier releases.",
            remedy="Leave --earlier out, or take --scheme bayes.",
        )
    facts = PublicFacts(
        place_ids=counted.ids,
        grid=grid,
        epsilon=epsilon,
        delta=delta,
        expected_users=expected_users,
        bound=parse_bound(bound) if isinstance(bound, str) else bound or WeightBound(3.0),
        counting=what,
        overlay=shares,
        parameters=dict(parameters or {}),
        layout=where,
        zone_layout=zone_layout,
        expected=pattern_of(earlier, released, grid) if earlier else None,
    )
    finish = _finish(
        facts,
        zones,
        hierarchy,
        hierarchy_column,
        integers,
        id_column=zone_id,
        layer=layer,
    )
    return Request(facts, scheme, counted, released, dataset, name, finish)


def _finish(
    facts: PublicFacts,
    zones: object,
    hierarchy: object,
    column: str | None,
    integers: bool,
    **reading: str | None,
) -> Finish:
    """The form of the output, checked before anything is spent."""
    if integers and facts.parameters.get("clip") is False:
        raise UsageError(
            "Negative numbers cannot be rounded to counts.", remedy="Leave clip at true."
        )
    if hierarchy is None and column is None:
        return Finish(integers=integers)
    if zones is None:
        raise UsageError("Only zones have districts.", remedy="Give --zones.")
    if hierarchy is not None and column is not None:
        raise UsageError("Give --hierarchy or --hierarchy-column, not both.")
    if hierarchy is not None:
        return Finish(read_parents(hierarchy, facts.released_ids), integers)
    if isinstance(zones, Places):
        raise UsageError("Zones that were read already have no columns.")
    assert column is not None
    return Finish(read_parent_column(zones, column, facts.released_ids, **reading), integers)


def _places(source: object, read: Callable[[object], Places]) -> Places:
    return source if isinstance(source, Places) else read(source)


def period_of(start: date | str, end: date | str, slot: str, tz: str) -> TimeGrid:
    """The slots of the days from `start` (included) to `end` (excluded)."""
    return TimeGrid.between(day_of(start), day_of(end), slot, tz)


def day_of(day: date | str) -> date:
    """A date, or one written as 2007-09-10."""
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"{day!r} is not a date.", remedy="Write it as 2007-09-10.") from None
