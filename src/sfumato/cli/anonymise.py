"""`sfumato anonymise`: the other door. Exact or suppressed figures, NOT differential privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import (
    OUTPUT,
    PRIVACY,
    AsJson,
    Columns,
    DropBadTowers,
    End,
    Engine,
    EventsTz,
    Format,
    Grid,
    Layer,
    Master,
    MaybeExpectedUsers,
    QuestionTexts,
    Quiet,
    Region,
    RepairZones,
    Slot,
    SparkConf,
    Start,
    TimeUnit,
    Towers,
    Tz,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import RowsRead, Working, print_json, tell

app = typer.Typer(
    help="The other door: syntactic protection, labelled. NOT differential privacy.",
    epilog="Example:\n\nsfumato anonymise answers -h",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """The other door: syntactic protection, labelled. NOT differential privacy."""


@app.command()
def answers(
    events: Annotated[str, typer.Argument(help="Files, a folder, or the address of a table.")],
    question: QuestionTexts,
    auditor: Annotated[
        str,
        typer.Option(
            "--auditor",
            help="Who decides: anyone, known or simulatable.",
            rich_help_panel=PRIVACY,
        ),
    ],
    least: Annotated[
        int,
        typer.Option(
            "--least",
            help="Fewest people in an answer; of simulatable, pairs of place and slot in a region.",
            rich_help_panel=PRIVACY,
        ),
    ],
    log: Annotated[
        Path,
        typer.Option(
            "--log",
            help="All questions ever, for the holder alone: a name that ends in .internal.jsonl.",
            rich_help_panel=PRIVACY,
        ),
    ],
    start: Start,
    end: End,
    tz: Tz,
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
    expected_users: MaybeExpectedUsers = None,
    known: Annotated[
        str | None,
        typer.Option(
            "--known",
            help="People known at each place: a number for all, or a table of places and people.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            help="Share of bits that rounding may recover beyond guessing; default: 0.05.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    engine: Engine = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    out: Annotated[
        Path | None, shared(OUTPUT, "--out", "Folder for answers, README and manifest.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Answer counting questions exactly, or refuse. NOT differential privacy.

    An auditor decides, from all questions in the log together; a set is refused as a whole.

    Example:
        sfumato anonymise answers events.parquet --towers towers.csv
        --from 2007-09-10 --to 2007-09-17 --tz Europe/Paris
        --question questions.jsonl --auditor simulatable --least 20
        --log questions.internal.jsonl --out answers
    """
    options = dict(locals())
    from sfumato.syntactic.answers import anonymise_answers
    from sfumato.syntactic.statement import LABEL, AuditorName

    rows = RowsRead(silent=quiet or as_json)
    with Working(quiet or as_json, "counting") as progress:
        found = called(anonymise_answers, options, internal=rows, progress=progress)
    why = [None if one is None else str(one) for one in found.internal_reasons]
    if as_json:
        print_json(found.numbers(), {**rows.counts, "refused_because": why})
        return
    for line in found.words():
        typer.echo(line)
    if quiet:
        return
    typer.echo(f"\n{found.statement.text()}", err=True)
    public = found.statement.auditor is AuditorName.SIMULATABLE  # its reasons follow from questions
    reasons = [f"question {n} was refused: {one}" for n, one in enumerate(why, 1) if one]
    if public:
        typer.echo("\n".join(reasons), err=True)
    else:
        tell(reasons)
    if out is not None:
        typer.echo(f"{out}: {LABEL}", err=True)
