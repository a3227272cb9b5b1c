"""`sfumato query`: questions to the data, charged to the ledger unless what is known suffices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    PRIVACY,
    QUESTION,
    AsJson,
    Columns,
    DropBadTowers,
    End,
    Engine,
    EventsTz,
    Format,
    Grid,
    KeyFile,
    Layer,
    Master,
    MaybeAnalyst,
    MaybeDataset,
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
from sfumato.cli.telling import RowsRead, Working, print_json


def _own(panel: str, flag: str, help: str) -> Any:
    """An option of this command alone."""
    return typer.Option(flag, help=help, rich_help_panel=panel)


def query(
    events: Annotated[
        str | None, typer.Argument(help="As for release; left out with --dummy.")
    ] = None,
    *,
    question: QuestionTexts,
    start: Start,
    end: End,
    tz: Tz,
    dataset: MaybeDataset = None,
    slot: Slot = "1h",
    delta: Annotated[
        float, shared(PRIVACY, "--delta", "Of one question, or of all asked together.")
    ] = 0.0,
    mechanism: Annotated[
        str, _own(PRIVACY, "--mechanism", "Noise of a question: gaussian or laplace.")
    ] = "gaussian",
    plan: Annotated[
        bool, _own(QUESTION, "--plan", "Say cost and ± of each; read and spend nothing.")
    ] = False,
    together: Annotated[
        str | None, _own(QUESTION, "--together", "All on one --epsilon: batch or mwem.")
    ] = None,
    session: Annotated[
        str | None,
        _own(QUESTION, "--session", "Ask in this session of multiplicative weights."),
    ] = None,
    epsilon: Annotated[
        float | None,
        _own(PRIVACY, "--epsilon", "Of all questions together, or of the session."),
    ] = None,
    visits: Annotated[
        float, _own(QUESTION, "--visits", "Batch: visits of a busy person, a public guess.")
    ] = 30,
    rounds: Annotated[
        int | None,
        _own(QUESTION, "--rounds", "MWEM: how many questions are measured; default: 30."),
    ] = None,
    clip: Annotated[
        int | None,
        _own(QUESTION, "--clip", "Session: most visits of a person in a question; default: 24."),
    ] = None,
    updates: Annotated[
        int | None,
        _own(QUESTION, "--updates", "Session: how often its table is corrected; default: 20."),
    ] = None,
    threshold: Annotated[
        int | None, _own(QUESTION, "--threshold", "Session: how far its table may be off.")
    ] = None,
    towers: Towers = None,
    zones: Zones = None,
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    release: Annotated[
        Path | None, _own(QUESTION, "--release", "Folder of a release whose sums are free.")
    ] = None,
    analyst: MaybeAnalyst = None,
    edition: Annotated[
        str, _own(QUESTION, "--edition", "State of the data; other answers are not used.")
    ] = "",
    dummy: Annotated[
        bool, _own(QUESTION, "--dummy", "Answer from made-up people; read and spend nothing.")
    ] = False,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    engine: Engine = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask the data. What stored answers or a release say well enough is free.

    Everything else is measured, charged, and stored. Killed and run again, it gives the same
    answer and pays once.

    Example:
        sfumato query events.parquet --towers towers.csv --from 2007-09-10 --to 2007-09-17
        --tz Europe/Paris --dataset "metro subscribers" --delta 1e-7
        --question question.json
    """
    options = dict(locals())
    from sfumato.queries.query import query as find

    rows = RowsRead(quiet or as_json)
    with Working(quiet or as_json, "looking at what is known") as progress:
        found = called(find, options, events=events, internal=rows, progress=progress)
    if as_json:
        print_json(found.numbers(), rows.counts or None)
    elif not quiet:
        typer.echo(str(found))
