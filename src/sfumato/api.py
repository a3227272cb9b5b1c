"""`sfumato.release`: from events to a published density, in one call.

    sfumato.release(
        "events.parquet", towers="towers.csv", start="2007-09-10", end="2007-09-17", slot="1h",
        tz="Europe/Paris", dataset="metro subscribers", epsilon=0.3, delta=2e-7,
        expected_users=2_000_000, out="release/week-37",
    )

The budget is reserved in the ledger before the noise is drawn; run again after an
interruption, the call finishes the same release and pays once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato import __version__
from sfumato.density.disclosure import density_manifest
from sfumato.density.layout import layout_of_cells, layout_of_zones
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Parameter, Plan, PublicFacts
from sfumato.density.table import density_table, with_local_times
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.writers import write_bytes, write_csv, write_parquet
from sfumato.io.zones import read_zones
from sfumato.model.bound import Bound, Counting, SampleBound, WeightBound
from sfumato.model.errors import SfumatoError, UsageError
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger import Claim, Ledger, Reservation
from sfumato.privacy.manifest import MANIFEST_NAME, Manifest, manifest_text, read_manifest
from sfumato.privacy.statement import statement
from sfumato.privacy.transaction import digests, publish
from sfumato.privacy.wall import Wall


@dataclass(frozen=True, slots=True)
class Release:
    """A published density: where it is, its privacy statement, and how this run ended.

    `how` is `new`, `resumed` (an interrupted run was finished) or `already` (nothing was done).
    """

    folder: Path
    manifest: Manifest
    how: str

    def table(self) -> pa.Table:
        """zone_id, time_start, time_end, count, lower, upper."""
        return pq.read_table(self.folder / "density.parquet")

    def statement(self) -> str:
        """The privacy statement in plain words."""
        return statement(self.manifest)


@dataclass(frozen=True, slots=True)
class Request:
    """A release that has been asked for and checked, but not begun."""

    facts: PublicFacts
    scheme: str
    counted: Places
    released: Places
    dataset: str
    name: str

    def plan(self) -> Plan:
        """What it will cost and how exact it will be, from public facts alone."""
        return scheme_named(self.scheme).plan(self.facts)

    def config(self) -> dict[str, Any]:
        """Everything that shapes the output: what a rerun must have in common."""
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
    scheme: str = "gaussian",
    bound: Bound | str = "weight:3",
    counting: Counting | str = Counting.VISITS,
    expected_users: int | None = None,
    parameters: Mapping[str, Parameter] | None = None,
) -> Request:
    """Check everything about a release that is public; the events are not looked at."""
    if grid is None:
        if start is None or end is None or tz is None:
            raise UsageError(
                "The period is missing: it is a public choice and never read from the data.",
                remedy="Give --from, --to, --slot and --tz.",
            )
        grid = TimeGrid.between(_day(start), _day(end), slot, tz)
    to = None if zones is None else _places(zones, lambda s: read_zones(s))
    at = None if towers is None else _places(towers, lambda s: read_towers(s, zones=to, tz=tz))
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
    facts = PublicFacts(
        place_ids=counted.ids,
        grid=grid,
        epsilon=epsilon,
        delta=delta,
        expected_users=expected_users,
        bound=parse_bound(bound) if isinstance(bound, str) else bound,
        counting=what,
        overlay=shares,
        parameters=dict(parameters or {}),
        layout=where,
        zone_layout=zone_layout,
    )
    return Request(facts, scheme, counted, counted if to is None else to, dataset, name)


def release(
    events: object,
    *,
    out: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    delta: float,
    name: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    keep_key: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Release:
    """Publish a density of `events` in the folder `out`; the other settings are `request`'s."""
    folder = Path(out).absolute()
    asked = request(
        dataset=dataset,
        epsilon=epsilon,
        delta=delta,
        name=name if name is not None else folder.name,
        tz=tz,
        **settings,
    )
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    described = (
        events if isinstance(events, Events) else read_events(events, columns=columns, tz=tz)
    )
    source = LocalSource(described, asked.counted, asked.facts.grid, progress=progress)
    try:
        return publish_request(asked, source, book, folder, keep_key=keep_key)
    finally:
        source.close()


def publish_request(
    asked: Request, source: LocalSource, book: Ledger, out: Path, *, keep_key: bool = False
) -> Release:
    """Reserve, draw, persist, commit."""
    scheme, facts, plan = scheme_named(asked.scheme), asked.facts, asked.plan()
    secret = book.fingerprint_key()

    def fingerprint() -> str:
        return source.fingerprint(secret)

    def replan(epsilon: float) -> list[PrivacyEvent]:
        return list(scheme.plan(replace(facts, epsilon=epsilon)).events.values())

    def persist(reservation: Reservation, folder: Path) -> None:
        density = scheme.run(source, Wall(reservation, reservation.key), facts)
        if density.tainted:
            raise SfumatoError("Noise from a test seed is never published.")
        table = density_table(density, facts.grid)
        write_parquet(folder / "density.parquet", table)
        write_csv(folder / "density.csv", with_local_times(table, facts.grid))

        def manifest() -> Manifest:
            return density_manifest(
                facts,
                asked.scheme,
                density,
                reservation,
                asked.counted,
                asked.released,
                digests(folder),
            )

        write_bytes(folder / "README.txt", statement(manifest()).encode())
        write_bytes(folder / MANIFEST_NAME, manifest_text(manifest()).encode())

    claim = Claim(
        dataset=asked.dataset,
        name=asked.name,
        unit=facts.unit,
        delta=facts.delta,
        period=(int(facts.grid.edges[0]), int(facts.grid.edges[-1])),
        events=tuple(plan.events.items()),
        config=asked.config(),
        fingerprint=fingerprint(),
        out=str(out),
    )
    outcome = publish(
        book,
        claim,
        out,
        fingerprint,
        persist,
        check_input=lambda: _read(source),
        keep_key=keep_key,
        replan=replan,
    )
    return Release(out, read_manifest(out / MANIFEST_NAME), outcome.how)


def _read(source: LocalSource) -> None:
    """Read all events now, so that a fault in them is found before anything is reserved."""
    _ = source.drops


def _places(source: object, read: Callable[[object], Places]) -> Places:
    return source if isinstance(source, Places) else read(source)


def _day(day: date | str) -> date:
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"{day!r} is not a date.", remedy="Write it as 2007-09-10.") from None
