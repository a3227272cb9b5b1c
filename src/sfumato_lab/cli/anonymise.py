"""`sfumato anonymise`: syntactic protection, exact or suppressed figures. NOT private."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import (
    OUTPUT,
    PRIVACY,
    AsJson,
    Columns,
    Dataset,
    DropBadTowers,
    End,
    Engine,
    EventsTz,
    Format,
    Grid,
    KeyFile,
    Layer,
    Master,
    MaybeExpectedUsers,
    Parameters,
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
    Where,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import RowsRead, Working, print_json, tell

if TYPE_CHECKING:
    from sfumato_lab.syntactic.anonymise import Anonymised

app = typer.Typer(
    help="Protection by rules about the output (k-anonymity and others). NOT differential privacy.",
    epilog="Example:\n\nsfumato anonymise traces -h",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Protection by rules about the output (k-anonymity and others). NOT differential privacy."""


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
    dataset: Dataset,
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
    ledger: Where = None,
    ledger_key: KeyFile = None,
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
        --log questions.internal.jsonl --dataset "metro subscribers" --out answers
    """
    options = dict(locals())
    from sfumato_lab.syntactic.answers import anonymise_answers
    from sfumato_lab.syntactic.statement import LABEL, AuditorName

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


Events = Annotated[str, typer.Argument(help="Files, a folder, or the address of a table.")]
Sensitive = Annotated[
    str | None,
    typer.Option(
        "--sensitive",
        help="Sensitive places: ids between commas, or a table of them.",
        rich_help_panel=PRIVACY,
    ),
]
Attacked = Annotated[
    bool,
    typer.Option(
        "--attack/--no-attack",
        help="Attack it at once; figures go to the internal folder beside it.",
        rich_help_panel=OUTPUT,
    ),
]
Lots = Annotated[
    int | None,
    typer.Option("--seed", help="The same seed gives the same result; default: fresh."),
]
Folder = Annotated[
    Path, shared(OUTPUT, "--out", "Folder to make, or of an earlier run to write again.")
]


@app.command()
def counts(
    events: Events,
    k: Annotated[
        int,
        typer.Option(
            "--k", "-k", help="Smallest count that is published.", rich_help_panel=PRIVACY
        ),
    ],
    start: Start,
    end: End,
    tz: Tz,
    out: Folder,
    dataset: Dataset,
    slot: Slot = "1h",
    totals: Annotated[
        bool,
        typer.Option(
            "--totals",
            help="Publish sums over places and over slots as well.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    secondary: Annotated[
        bool,
        typer.Option(
            "--secondary/--no-secondary",
            help="With totals: leave out more, so that nothing left out follows from them.",
            rich_help_panel=PRIVACY,
        ),
    ] = True,
    rounding: Annotated[
        str,
        typer.Option("--rounding", help="none, nearest or random.", rich_help_panel=PRIVACY),
    ] = "none",
    base: Annotated[
        int,
        typer.Option("--base", help="Rounded counts are multiples of it.", rich_help_panel=PRIVACY),
    ] = 5,
    towers: Towers = None,
    zones: Zones = None,
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    sensitive: Sensitive = None,
    attack: Attacked = True,
    seed: Lots = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish counts by place and slot without the small ones. NOT differential privacy.

    Example:
        sfumato anonymise counts events.parquet --towers towers.csv
        --from 2007-09-10 --to 2007-09-17 --tz Europe/Paris -k 10 --totals
        --dataset "metro subscribers" --out counts-37
    """
    options = dict(locals())
    from sfumato_lab.syntactic.anonymise import anonymise_counts

    rows = RowsRead(silent=quiet or as_json)
    with Working(quiet or as_json, "counting") as progress:
        found = called(anonymise_counts, options, internal=rows, progress=progress)
    _told(found, rows, quiet, as_json)


@app.command()
def traces(
    events: Events,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="generalise, suppress, never-walk-alone, wait-for-me, km, km-local, km-distance, "
            "probabilistic-km or p-confidentiality.",
            rich_help_panel=PRIVACY,
        ),
    ],
    start: Start,
    end: End,
    tz: Tz,
    out: Folder,
    dataset: Dataset,
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", help="Fewest records that are alike.", rich_help_panel=PRIVACY),
    ] = None,
    parameter: Parameters = None,
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
    hierarchy: Annotated[
        Path | None,
        typer.Option(
            "--hierarchy",
            help="Table of children and parents; default: the map halved again and again.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    roads: Annotated[
        str | None,
        typer.Option(
            "--roads",
            help="Of p-confidentiality: table of two places a row, or neighbours to make them.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    stops: Annotated[
        Path | None,
        typer.Option(
            "--stops",
            help="Of p-confidentiality: table of places and how likely people stop there.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    sensitive: Sensitive = None,
    attack: Attacked = True,
    seed: Lots = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish records of people by a method of the field. NOT differential privacy.

    Example:
        sfumato anonymise traces events.parquet --towers towers.csv
        --from 2007-09-10 --to 2007-09-17 --tz Europe/Paris
        --method never-walk-alone -k 5 --parameter delta=2000
        --dataset "metro subscribers" --out walks-37
    """
    options = dict(locals())
    from sfumato_lab.syntactic.anonymise import anonymise_traces

    rows = RowsRead(silent=quiet or as_json)
    with Working(quiet or as_json, "reading events") as progress:
        found = called(anonymise_traces, options, internal=rows, progress=progress)
    _told(found, rows, quiet, as_json)


def _told(found: Anonymised, rows: RowsRead, quiet: bool, as_json: bool) -> None:
    """What was published and what it is not; what only the holder may hear."""
    from sfumato_lab.syntactic.published import internal_folder
    from sfumato_lab.syntactic.statement import LABEL

    figures = found.internal_figures
    if as_json:
        print_json(dict(found.manifest), {**rows.counts, **figures})
        return
    if quiet:
        return
    typer.echo(found.words())
    tell(
        [f"{_plain(name)}: {_plain(value)}" for name, value in figures.items() if name != "attacks"]
    )
    own = internal_folder(found.folder)
    tell([f"{own}: whose record is whose, and what attacks make of it; never to be published"])
    typer.echo(f"{found.folder}: {LABEL}")


def _plain(value: object) -> str:
    """In words: names without underscores, tables as a list."""
    if isinstance(value, dict):
        return ", ".join(f"{_plain(name)} {_plain(one)}" for name, one in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")
