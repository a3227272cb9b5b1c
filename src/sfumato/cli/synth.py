"""`sfumato synth`: records of people who do not exist, charged to the ledger or from a release."""

from __future__ import annotations

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
    DropBadTowers,
    DryRun,
    Engine,
    EventsTz,
    Format,
    Grid,
    KeyFile,
    Layer,
    LicenceName,
    Master,
    MaybeDataset,
    MaybeDelta,
    MaybeEnd,
    MaybeEpsilon,
    MaybeExpectedUsers,
    MaybeStart,
    MaybeTz,
    NewFolder,
    Parameters,
    Publisher,
    Quiet,
    Region,
    ReleaseName,
    RepairZones,
    Seed,
    Slot,
    SparkConf,
    TimeUnit,
    Title,
    Towers,
    Where,
    ZoneId,
    ZoneName,
    Zones,
    called,
)
from sfumato.cli.telling import Working, print_json, tell

if TYPE_CHECKING:
    from sfumato.synthesis.request import SynthRequest


def synth(
    out: NewFolder,
    events: Annotated[
        str | None,
        typer.Argument(
            help="Events: files or a folder (CSV, Parquet, NDJSON, GPX, T-Drive, Geolife, "
            "Cabspotting), or postgresql://…/database/schema.table; none with --release."
        ),
    ] = None,
    dataset: MaybeDataset = None,
    epsilon: MaybeEpsilon = None,
    delta: MaybeDelta = None,
    start: MaybeStart = None,
    end: MaybeEnd = None,
    tz: MaybeTz = None,
    release: Annotated[
        Path | None,
        typer.Option(
            "--release",
            help="Folder of a release to make people from; free.",
            rich_help_panel=DATA,
        ),
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(
            "--on",
            help="Folder of a release of the same places and slots, whose table they match.",
            rich_help_panel=DATA,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="How synthetic people are made: weeks, or fit for trips. To compare with: where, "
            "and for trips ngrams, prefix, dpt, adatrace.",
            rich_help_panel=PRIVACY,
        ),
    ] = "weeks",
    people: Annotated[
        int | None,
        typer.Option(help="How many to make; default: --expected-users.", rich_help_panel=OUTPUT),
    ] = None,
    seed: Seed = 0,
    expected_users: MaybeExpectedUsers = None,
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
    border: AtBorder = None,
    title: Title = None,
    publisher: Publisher = None,
    licence: LicenceName = None,
    contact: Contact = None,
    name: ReleaseName = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    engine: Engine = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    keep_key: Annotated[
        bool,
        typer.Option(
            "--keep-key",
            help="Keep the key, with which the noise can be redrawn.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Publish although a forecast says that it would be of no use.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish records of made-up people. Killed and run again, it finishes the same files.

    Example:
        sfumato synth events.parquet --towers towers.csv --zones zones.geojson
        --from 2007-09-10 --to 2007-09-17 --tz Europe/Paris
        --dataset "metro subscribers" --epsilon 1 --delta 1e-7
        --expected-users 200000 --out releases/made-up-37
    """
    options = dict(locals())
    from sfumato.synthesis import publish

    if dry_run:
        _cost(_asked(options), as_json)
        return
    notes: list[str] = []

    def internal(found: Any) -> None:
        notes.extend(found.internal_lines() if hasattr(found, "internal_lines") else found.lines())
        if not (quiet or as_json):
            tell(notes)

    with Working(quiet or as_json, "opening events and places") as progress:
        made = called(publish.synth, options, internal=internal, progress=progress)
    privacy = made.manifest.privacy
    if as_json:
        summary: dict[str, Any] = {
            "how": made.how,
            "folder": str(made.folder),
            "unit": privacy.unit,
        }
        summary |= {"epsilon": privacy.epsilon, "delta": privacy.delta, "rho": privacy.rho}
        summary |= {"people": made.manifest.public_inputs["people"]}
        print_json(summary, {"notes": notes})
    elif not quiet:
        from sfumato.model.rounding import rounded_up

        how = {
            "new": "Published",
            "resumed": "An interrupted run was finished; it was paid once",
            "already": "Published before and intact; nothing was done or charged",
            "repeated": "Made again from its kept key, with the same bytes; nothing was charged",
            "made": "Made from the release; nothing was charged",
        }[made.how]
        typer.echo(f"{how}: {made.folder}")
        typer.echo(
            f"{made.manifest.public_inputs['people']:,} synthetic people: epsilon "
            f"{rounded_up(privacy.epsilon, 4)} at delta {rounded_up(privacy.delta)}."
        )
        typer.echo(f"Read {made.folder / 'README.txt'} for what that means.")


def _asked(options: dict[str, Any]) -> SynthRequest:
    """What is asked for; its events are not opened."""
    from sfumato.geography.places import PlaceOptions
    from sfumato.model.time_grid import period_of
    from sfumato.synthesis.publish import check_given
    from sfumato.synthesis.request import synth_request

    called(check_given, options)
    slots, said = called(period_of, options), called(PlaceOptions, options)
    title = options["name"] or options["out"].absolute().name
    made: SynthRequest = called(synth_request, options, places=said, grid=slots, name=title)
    return made


def _cost(asked: SynthRequest, as_json: bool) -> None:
    from sfumato.synthesis.fitness import forecast

    plan, expected = asked.plan(), forecast(asked.method, asked.facts)
    useful = [] if expected is None else expected.lines()
    if as_json:
        useless = expected is not None and expected.useless
        print_json(
            {"lines": list(plan.lines), "measurements": list(plan.events), "useless": useless}
        )
        return
    for line in (*plan.lines, *useful):
        typer.echo(line)
    typer.echo("Nothing was read and nothing was spent.")
