"""`sfumato stream`: publish slot after slot, from a history, a folder that fills, or a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from sfumato.cli.options import (
    DATA,
    OUTPUT,
    PRIVACY,
    AsJson,
    Columns,
    Dataset,
    Epsilon,
    EventsTz,
    KeyFile,
    MaybeEnd,
    MaybeExpectedUsers,
    Quiet,
    ReleaseName,
    Results,
    Slot,
    Start,
    TimeUnit,
    Towers,
    Tz,
    UnitName,
    Where,
    Zones,
    open_ledger,
    shared,
)
from sfumato.cli.telling import RowsRead, print_json, tell
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.model.places import Places
    from sfumato.model.time_grid import TimeGrid
    from sfumato.privacy.ledger import Ledger
    from sfumato.stream.facts import StreamFacts
    from sfumato.stream.input import Item, Options
    from sfumato.stream.live import LiveStream, StreamRequest
    from sfumato.stream.scheme import Publication

_ENDLESS_DAYS = 3653


def stream(
    events: Annotated[
        str,
        typer.Argument(
            help="A history (file or pattern), a folder with --follow, or - for NDJSON."
        ),
    ],
    out: Results,
    dataset: Dataset,
    epsilon: Epsilon,
    start: Start,
    tz: Tz,
    end: MaybeEnd = None,
    delta: Annotated[
        float, shared(PRIVACY, "--delta", "Well below one over the people; 0 is pure.")
    ] = 0.0,
    unit: UnitName = "user-day",
    slot: Slot = "1h",
    towers: Towers = None,
    zones: Zones = None,
    scheme: Annotated[
        str | None,
        shared(
            PRIVACY,
            "--scheme",
            "How the numbers are made; default: rhythm, or profile for few days.",
        ),
    ] = None,
    expected_users: MaybeExpectedUsers = None,
    delay: Annotated[
        str,
        typer.Option(help="How long a slot stays open after its end.", rich_help_panel=DATA),
    ] = "0",
    whole: Annotated[
        str,
        typer.Option(
            "--consistency",
            help="none, nearest or random: non-negative counts.",
            rich_help_panel=OUTPUT,
        ),
    ] = "none",
    follow: Annotated[
        bool,
        typer.Option("--follow", help="EVENTS is a folder that fills.", rich_help_panel=DATA),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a stream begun before.", rich_help_panel=OUTPUT),
    ] = False,
    name: ReleaseName = None,
    column: Columns = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    clock: Annotated[
        str,
        typer.Option(
            help="Whose clock closes slots of a pipe: machine, or feed.", rich_help_panel=DATA
        ),
    ] = "machine",
    ledger: Where = None,
    ledger_key: KeyFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish counts while people move. Killed and resumed, it goes on with the same numbers.

    Without --to it is endless, and the unit is a day, a window or an event.

    Example:
        sfumato stream incoming/ --follow --zones zones.geojson --from 2024-03-04
        --tz Europe/Paris --unit user-day --dataset "metro subscribers" --epsilon 1
        --delta 1e-7 --expected-users 2000000 --out streams/metro
    """
    from sfumato.stream.live import LiveStream
    from sfumato.stream.registry import default_name

    pipe = events == "-"
    if end is None and not (unit.startswith("w-event") or unit in ("event", "user-day")):
        raise UsageError(
            "An endless stream cannot have the unit user-period.",
            remedy="Give --to, or --unit user-day or w-event:N.",
        )
    grid = _grid(start, end, slot, tz)
    places = _places(towers, zones, tz)
    facts = _facts(places, grid, epsilon, delta, unit, expected_users)
    scheme = scheme or default_name(facts, finished=not (pipe or follow))
    names = _columns(column)
    if clock not in ("machine", "feed"):
        raise UsageError(f"{clock!r} is no clock.", remedy="Write --clock machine or feed.")
    fed_clock = clock == "feed"
    reading = _options(places, grid, names, events_tz or tz, time_unit, fed_clock)
    request = _request(dataset, name, scheme, facts, grid, places, reading, out, whole, delay)
    book = open_ledger(ledger, ledger_key)
    if not quiet:
        _say_unit(facts)
    if request.scheme.finished and (pipe or follow):
        raise UsageError(
            f"{scheme} needs each window as a whole before its first slot leaves.",
            remedy="Give it a finished history, or choose another --scheme.",
        )
    if pipe or follow:
        with LiveStream(book, request, resume=resume) as live:
            told = _Telling(live, quiet or as_json)
            internal = _follow(live, request, places, events, pipe, reading, told, quiet)
            done = _finish(live, grid)
    else:
        done, internal = _replay(book, request, places, events, reading, resume, quiet, as_json)
    if as_json:
        summary = {"finished": done[0], "next_slot": done[1], "folder": str(out)}
        print_json(summary | _privacy(out), internal, indent=None)
    elif not quiet:
        typer.echo(f"{done[1]} slots are out in {out}" + ("." if done[0] else "; more may come."))
        typer.echo(f"Read {out / 'README.txt'} for what is promised.")


def _privacy(out: Path) -> dict[str, Any]:
    """What the stream's own statement claims; nothing where an older version has finished it."""
    try:
        said = json.loads((out / "stream.json").read_text("utf-8"))["manifest"]
    except (OSError, ValueError, KeyError):
        return {}
    privacy, total = said["privacy"], said["privacy"]["cumulative"]
    claimed = {name: privacy[name] for name in ("unit", "rho", "epsilon", "delta", "method")}
    spent = {name: total[name] for name in ("lifetime", "worst_period")}
    return {"release": said["release"]["id"], **claimed, **spent}


def _say_unit(facts: StreamFacts) -> None:
    """Whose contribution is hidden, before anything is reserved: epsilon means nothing without."""
    from sfumato.published.statement import adds_up, whose

    unit = str(facts.unit)
    text = f"unit {unit}: epsilon {facts.epsilon:g} hides {whose(unit)}. {adds_up(unit)}"
    typer.echo(text.strip(), err=True)


def _columns(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or []]
    if any(not (role and sign and column) for role, sign, column in pairs):
        raise UsageError("A column is named as role=name.", remedy="Write --column user=imsi.")
    return {role: column for role, _, column in pairs}


def _grid(start: str, end: str | None, slot: str, tz: str) -> TimeGrid:
    from sfumato.model.time_grid import TimeGrid

    try:
        first = date.fromisoformat(start)
        last = date.fromisoformat(end) if end else first + timedelta(days=_ENDLESS_DAYS)
    except ValueError:
        raise UsageError("A day is written as 2007-09-10.", remedy="Check --from, --to.") from None
    return TimeGrid.between(first, last, slot, tz)


def _places(towers: Path | None, zones: Path | None, tz: str) -> Places:
    from sfumato.io.towers import read_towers
    from sfumato.io.zones import read_zones

    if (towers is None) == (zones is None):
        raise UsageError("Give either --towers or --zones.")
    return read_zones(zones) if zones is not None else read_towers(towers, tz=tz)


def _options(
    places: Places,
    grid: TimeGrid,
    names: dict[str, str],
    tz: str,
    time_unit: str | None,
    fed_clock: bool,
) -> Options:
    from sfumato.model.places import PlaceKind
    from sfumato.stream.input import Options

    return Options(places.kind is PlaceKind.ZONES, names, tz, time_unit, grid.period, fed_clock)


def _facts(
    places: Places,
    grid: TimeGrid,
    epsilon: float,
    delta: float,
    unit: str,
    expected_users: int | None,
) -> StreamFacts:
    from sfumato.model.time_grid import Calendar
    from sfumato.privacy.events import Unit
    from sfumato.stream.facts import StreamFacts, grid_columns, unit_in_slots

    return StreamFacts(
        len(places),
        Calendar.of(grid),
        epsilon,
        delta,
        unit_in_slots(Unit.parse(unit), grid),
        expected_users,
        grid_columns(places),
    )


def _request(
    dataset: str,
    name: str | None,
    scheme: str,
    facts: StreamFacts,
    grid: TimeGrid,
    places: Places,
    reading: Options,
    out: Path,
    whole: str,
    delay: str,
) -> StreamRequest:
    from sfumato.model.time_grid import parse_step
    from sfumato.stream.live import StreamRequest
    from sfumato.stream.output import Consistency
    from sfumato.stream.registry import stream_scheme

    if whole not in list(Consistency):
        raise UsageError(f"{whole!r} is no consistency.", remedy="Write none, nearest or random.")
    # Only what differs from the default: streams begun before there were such options go on.
    clock = {} if reading.tz == grid.tz else {"events_tz": str(reading.tz)}
    unit = {} if reading.time_unit is None else {"time_unit": reading.time_unit}
    said = sorted((dict(reading.columns) | clock | unit).items())
    seconds = 0 if delay == "0" else int(parse_step(delay).total_seconds())
    folder = out.absolute()
    return StreamRequest(
        dataset=dataset,
        name=name or folder.name,
        scheme=stream_scheme(scheme),
        facts=facts,
        grid=grid,
        place_ids=places.ids,
        out=folder,
        consistency=Consistency(whole),
        delay_seconds=seconds,
        reading=(("where places lie", places.fingerprint()), *said),
        place_kind=places.kind.value,
    )


class _Telling:
    """One line on standard error while the stream runs: slot, spent, left, error bound."""

    def __init__(self, live: LiveStream, silent: bool) -> None:
        self._live = live
        self._console = Console(stderr=True)
        self._silent = silent

    def __call__(self, slot: int, made: Publication) -> None:
        if self._silent:
            return
        spent = self._live.meter.share_spent(slot)
        self._console.print(
            f"slot {slot}: {'measured' if made.fresh else 'estimated'}; window spent "
            f"{spent:.0%}, left {1 - spent:.0%}; 95 % of the noise within ±{1.96 * made.sd:.3g}",
            end="\r" if self._console.is_terminal else "\n",
            highlight=False,
        )


def _follow(
    live: LiveStream,
    request: StreamRequest,
    places: Places,
    events: str,
    pipe: bool,
    reading: Options,
    told: Callable[[int, Publication], None],
    quiet: bool,
) -> dict[str, Any]:
    """Publish what a feed brings; returns what was read and dropped, for the holder alone."""
    from sfumato.io.rows import Positions
    from sfumato.stream.input import Unfit, folder_feed, ndjson_feed
    from sfumato.stream.slots import Buffer

    buffer = Buffer(request.grid, places, request.facts, next_slot=live.next_slot)
    if live.finished:
        return {}
    key = live.sampling_key()
    feed: Iterator[Item]
    if pipe:
        feed = ndjson_feed(sys.stdin.buffer, reading)
    else:
        feed = folder_feed(
            Path(events), reading, more=lambda: buffer.next_slot < request.grid.slots
        )
    for item in feed:
        if isinstance(item, Positions):
            buffer.add(item)
        elif isinstance(item, Unfit):
            buffer.dropped.files += 1
            if not quiet:
                tell([f"{item.name} gives no rows: {item.why}"])
        else:
            while buffer.next_slot < request.grid.slots and buffer.closes(
                buffer.next_slot, item.clock_us, request.delay_seconds
            ):
                slot = buffer.next_slot
                told(slot, live.publish(slot, buffer.close(key)))
    if not quiet:
        tell(buffer.dropped.internal_lines())
    return buffer.dropped.internal_counts()


def _replay(
    book: Ledger,
    request: StreamRequest,
    places: Places,
    events: str,
    reading: Options,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> tuple[tuple[bool, int], dict[str, Any]]:
    """Publish a finished history; returns how far it is, and what was dropped of it."""
    from dataclasses import replace

    from sfumato.engine.local import LocalSource
    from sfumato.io.events import read_events
    from sfumato.privacy.transaction import names_of_input
    from sfumato.stream.facts import begins_window, window_end
    from sfumato.stream.live import LiveStream
    from sfumato.stream.slots import SlotSource

    described = read_events(
        events,
        columns=reading.columns,
        tz=reading.tz,
        time_unit=reading.time_unit,
        period=reading.period,
    )
    source = LocalSource(described, places, request.grid)
    try:
        bound, read = names_of_input(source, book, request.dataset, request.name)
        # Read before anything is reserved; the counts are for the holder's eyes.
        rows = RowsRead(silent=quiet)
        rows(source.drops)
        with LiveStream(
            book, replace(request, fingerprint=bound, read=read), resume=resume
        ) as live:
            if not live.finished:
                told = _Telling(live, quiet or as_json)
                slots = SlotSource(source, request.facts, live.sampling_key())
                for slot in range(live.next_slot, request.grid.slots):
                    if request.scheme.finished and begins_window(request.facts, slot):
                        stop = window_end(request.facts, slot)
                        live.prepare(slots.window(slot, stop), slot)
                    told(slot, live.publish(slot, slots.slot(slot)))
            return _finish(live, request.grid), rows.counts
    finally:
        source.close()
        described.close()


def _finish(live: LiveStream, grid: TimeGrid) -> tuple[bool, int]:
    if live.next_slot >= grid.slots:
        live.close()
        return True, grid.slots
    return False, live.next_slot
