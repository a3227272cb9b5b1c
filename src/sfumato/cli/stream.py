"""`sfumato stream`: publish slot after slot, from a history, a folder that fills, or a pipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import (
    DATA,
    OUTPUT,
    PRIVACY,
    AsJson,
    AtBorder,
    Columns,
    Contact,
    CsvForm,
    Dataset,
    DropBadTowers,
    Earlier,
    Epsilon,
    EventsTz,
    Format,
    Grid,
    KeyFile,
    Layer,
    LicenceName,
    MaybeEnd,
    MaybeExpectedUsers,
    Parameters,
    Publisher,
    Quiet,
    Region,
    ReleaseName,
    RepairZones,
    Results,
    Slot,
    Start,
    TimeUnit,
    Title,
    Towers,
    Tz,
    UnitName,
    Where,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import RowsRead, Working, print_json
from sfumato.model.rounding import number_of, percent

if TYPE_CHECKING:
    from sfumato.streams.facts import StreamFacts
    from sfumato.streams.run import Told


def _list_schemes(wanted: bool) -> None:
    if wanted:
        from sfumato.streams.registry import schemes_text

        typer.echo(schemes_text())
        raise typer.Exit


def stream(
    events: Annotated[
        str,
        typer.Argument(
            help="A history (file or pattern), a folder with --follow, - for NDJSON, or a topic: "
            "kafka://HOST:9092/NAME."
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
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    border: AtBorder = None,
    scheme: Annotated[
        str | None,
        shared(
            PRIVACY,
            "--scheme",
            "How the numbers are made; default: comb, or smoother for a history.",
        ),
    ] = None,
    parameter: Parameters = None,
    roads: Annotated[
        Path | None,
        typer.Option(
            help="Lines of a public road map, for fan-temporal, -spatial, -combined.",
            rich_help_panel=DATA,
        ),
    ] = None,
    adjacency: Annotated[
        Path | None,
        typer.Option(
            help="Table of two columns: ids of places that lie side by side.", rich_help_panel=DATA
        ),
    ] = None,
    earlier: Earlier = None,
    holidays: Annotated[
        list[str] | None,
        typer.Option(
            help="A date that is a free day, or a file of such (a date a line, or .ics).",
            rich_help_panel=DATA,
        ),
    ] = None,
    schemes: Annotated[
        bool,
        typer.Option(
            "--schemes",
            help="List the schemes with their parameters, ranges and defaults.",
            is_eager=True,
            callback=_list_schemes,
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    expected_users: MaybeExpectedUsers = None,
    delay: Annotated[
        str,
        typer.Option(help="How long a slot stays open after its end.", rich_help_panel=DATA),
    ] = "0",
    consistency: Annotated[
        str,
        typer.Option(
            "--consistency",
            help="none, nearest or random: non-negative counts.",
            rich_help_panel=OUTPUT,
        ),
    ] = "none",
    csv: CsvForm = "auto",
    title: Title = None,
    publisher: Publisher = None,
    licence: LicenceName = None,
    contact: Contact = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="EVENTS is a folder that fills.", rich_help_panel=DATA),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a stream begun before.", rich_help_panel=OUTPUT),
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Publish although public facts say that it would be of no use.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    name: ReleaseName = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    clock: Annotated[
        str,
        typer.Option(
            help="Whose clock says what is late: machine, feed (pipe) or broker (topic).",
            rich_help_panel=DATA,
        ),
    ] = "machine",
    kafka_config: Annotated[
        Path | None,
        typer.Option(help="Settings of the Kafka client: name=value.", rich_help_panel=DATA),
    ] = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish counts while people move. Killed and resumed, it goes on with the same numbers.

    Without --to it is endless, and the unit is a day, a window or an event.

    Example:
        sfumato stream incoming/ --follow --zones zones.geojson --from 2024-03-04
        --tz Europe/Paris --unit user-day --dataset "metro subscribers"
        --epsilon 1 --delta 1e-7 --expected-users 2000000 --out streams/metro
    """
    options, told = dict(locals()), RowsRead(silent=quiet)
    from sfumato.streams.publish import stream as publish

    with Working(quiet or as_json, "opening events and places") as stages:
        done = called(
            publish,
            options,
            begin=None if quiet else _say_before,
            watch=None if quiet or as_json else _Watching(stages),
            internal=told,
            progress=stages,
        )
    if as_json:
        summary = {"finished": done.finished, "next_slot": done.next_slot, "folder": str(out)}
        print_json(summary | _privacy(out), told.counts, indent=None)
    elif not quiet:
        more = "." if done.finished else "; more may come."
        typer.echo(f"{number_of(done.next_slot, 'slots')} published in {out}{more}")
        typer.echo(f"Read {out / 'README.txt'} for what is promised.")


def _privacy(out: Path) -> dict[str, Any]:
    """What the stream's own statement claims; nothing where the folder is gone."""
    try:
        said = json.loads((out / "stream.json").read_text("utf-8"))["manifest"]
    except OSError:
        return {}
    privacy, total = said["privacy"], said["privacy"]["cumulative"]
    claimed = {name: privacy[name] for name in ("unit", "rho", "epsilon", "delta", "method")}
    spent = {name: total[name] for name in ("lifetime", "worst_period")}
    return {"release": said["release"]["id"], **claimed, **spent}


def _say_before(facts: StreamFacts, notes: Sequence[str]) -> None:
    """What must be known before anything is reserved: whose contribution is hidden, since epsilon
    means nothing without, and which slots are over already."""
    from sfumato.cli.command import built, in_flags
    from sfumato.published.statement import adds_up, whose

    unit = str(facts.unit)
    text = f"unit {unit}: epsilon {facts.epsilon:g} hides {whose(unit)}. {adds_up(unit)}"
    spoken = (in_flags(note, built(stream).params) for note in notes)
    for line in (text.strip(), *spoken):
        typer.echo(line, err=True)


class _Watching:
    """One line on standard error while the stream runs: slot, sum, spent and left of the window.

    All of it is published, or follows from public facts: rows that came late or were dropped are
    told to the holder elsewhere, in lines marked internal.
    """

    def __init__(self, stages: Working) -> None:
        from rich.console import Console

        self._console, self._stages = Console(stderr=True), stages

    def __call__(self, told: Told) -> None:
        self._stages.close()  # from now on the slots themselves say how far it is
        how = "measured" if told.made.fresh else "estimated"
        self._console.print(
            f"slot {told.slot}, {told.start:%Y-%m-%d %H:%M}: sum {told.words}, {how}; "
            f"spent {percent(told.spent)}, left {percent(told.left)}",
            end="\r" if self._console.is_terminal else "\n",
            highlight=False,
            soft_wrap=True,
        )
