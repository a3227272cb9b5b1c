"""`sfumato release`: publish a density through the wall, charged to the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import (
    OUTPUT,
    PLACES,
    PRIVACY,
    AsJson,
    AtBorder,
    BoundText,
    Columns,
    Contact,
    Counted,
    CsvForm,
    Dataset,
    Delta,
    DropBadTowers,
    DryRun,
    Earlier,
    End,
    Engine,
    Epsilon,
    EventsTz,
    Fold,
    Format,
    Grid,
    KeyFile,
    Layer,
    LicenceName,
    Master,
    MaybeExpectedUsers,
    NewFolder,
    Parameters,
    Pipeline,
    Publisher,
    Quiet,
    Region,
    ReleaseName,
    RepairZones,
    SchemeName,
    Slot,
    SparkConf,
    Start,
    TimeUnit,
    Title,
    Towers,
    Tz,
    Where,
    ZoneId,
    ZoneName,
    Zones,
    ZoningOf,
    called,
    open_ledger,
)
from sfumato.cli.telling import RowsRead, Working, print_json

if TYPE_CHECKING:
    from sfumato.density.publish import Price
    from sfumato.model.source import Progress
    from sfumato.published.release import Release


def release(
    events: Annotated[
        str,
        typer.Argument(
            help="Events: files or a folder (CSV, Parquet, NDJSON, GPX, T-Drive, Geolife, "
            "Cabspotting), or postgresql://…/database/schema.table."
        ),
    ],
    out: NewFolder,
    dataset: Dataset,
    epsilon: Epsilon,
    delta: Delta,
    start: Start,
    end: End,
    tz: Tz,
    towers: Towers = None,
    zones: Zones = None,
    grid: Grid = None,
    region: Region = None,
    pipeline: Pipeline = None,
    zoning: ZoningOf = None,
    slot: Slot = "1h",
    fold: Fold = None,
    scheme: SchemeName = "bayes",
    bound: BoundText = None,
    count: Counted = "visits",
    expected_users: MaybeExpectedUsers = None,
    name: ReleaseName = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    border: AtBorder = None,
    parameter: Parameters = None,
    hierarchy: Annotated[
        Path | None,
        typer.Option(
            help="Table of zone_id and parent_id: adds districts and city.", rich_help_panel=PLACES
        ),
    ] = None,
    hierarchy_column: Annotated[
        str | None,
        typer.Option(help="The same from a column of the zones' file.", rich_help_panel=PLACES),
    ] = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Whole numbers only.", rich_help_panel=OUTPUT)
    ] = False,
    csv: CsvForm = "auto",
    title: Title = None,
    publisher: Publisher = None,
    licence: LicenceName = None,
    contact: Contact = None,
    earlier: Earlier = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    dry_run: DryRun = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Publish although a forecast says that it would be of no use.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    keep_key: Annotated[
        bool,
        typer.Option(
            "--keep-key",
            help="Keep the key, with which the noise can be redrawn.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    engine: Engine = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish a density. Killed and run again, it finishes the same release and pays once.

    Example:
        sfumato release events.parquet --towers towers.csv --zones zones.geojson
        --from 2007-09-10 --to 2007-09-17 --slot 1h --tz Europe/Paris
        --dataset "metro subscribers" --epsilon 0.3 --delta 1e-7
        --expected-users 2000000 --out releases/week-37
    """
    options, told = dict(locals()), RowsRead(silent=quiet)
    with Working(quiet or as_json, "opening events and places") as progress:
        from sfumato.density import publish

        if dry_run:
            price = _price(options, progress)
            progress.close()
            _tell_price(price, as_json)
            return
        made = called(publish.release, options, internal=told, progress=progress)
    if as_json:
        print_json(_summary(made), told.counts)
    elif not quiet:
        _tell(made, str(open_ledger(ledger, ledger_key).database))


def _price(options: dict[str, Any], progress: Progress) -> Price:
    """What the release would cost; its events are not opened."""
    from sfumato.density import publish
    from sfumato.density.request import request
    from sfumato.geography.places import PlaceOptions
    from sfumato.io.beforehand import of_fleet
    from sfumato.model.time_grid import period_of

    slots, said = called(period_of, options), called(PlaceOptions, options)
    with called(publish.opened_inputs, options, places=said, grid=slots, progress=None) as (
        _,
        places,
    ):
        name = options["name"] or options["out"].absolute().name
        asked = called(request, options, places=places, grid=slots, name=name)
    book = open_ledger(options["ledger"], options["ledger_key"])
    fleet = called(of_fleet, options, source=options["events"])
    return publish.price(asked, book, options["anyway"], options["grid"], progress, fleet)


def _tell_price(price: Price, as_json: bool) -> None:
    plan, cost = price.plan, price.spend
    if as_json:
        data = {"lines": list(plan.lines), "sd": plan.sd, "fits": price.budget is None}
        data |= {"epsilon": cost.epsilon, "delta": cost.delta, "rho": cost.rho}
        data |= {"fitness": None if price.fitness is None else price.fitness.answer()}
        print_json(data)
    else:
        for line in (*plan.lines, *(() if price.fitness is None else price.fitness.lines())):
            typer.echo(line)
        typer.echo(f"It {'fits' if price.budget is None else 'does NOT fit'} the budget.")
        typer.echo("Nothing was read and nothing was spent.")
    if price.budget is not None:
        raise price.budget
    if price.refusal is not None:
        raise price.refusal


def _summary(made: Release) -> dict[str, Any]:
    privacy = made.manifest.privacy
    return {
        "how": made.how,
        "folder": str(made.folder),
        "release": made.manifest.release.id,
        "unit": privacy.unit,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "rho": privacy.rho,
        "caveats": made.manifest.caveats,
        "total": None if made.manifest.total is None else made.manifest.total.model_dump(),
        "lifetime": privacy.cumulative.lifetime.model_dump(),
        "worst_period": privacy.cumulative.worst_period.model_dump(),
    }


def _tell(made: Release, ledger: str) -> None:
    from sfumato.model.rounding import rounded_up
    from sfumato.published.statement import by_rules_words, take_note

    privacy = made.manifest.privacy
    total, life = privacy.cumulative, privacy.cumulative.lifetime
    how = {
        "new": "Published",
        "resumed": "An interrupted run was finished; it was paid once",
        "already": "Published before and intact; nothing was done or charged",
        "repeated": "Made again from its kept key, with the same bytes; nothing was charged",
    }[made.how]
    typer.echo(f"{how}: {made.folder}")
    if note := take_note(made.manifest):
        typer.echo(note)
    if made.manifest.total is not None:
        typer.echo(f"All counts together: {made.manifest.total.words()}.")
    paid = "Charged to" if made.how in ("new", "resumed") else "Charged then, to"
    typer.echo(f"{paid} {ledger}.")
    typer.echo(
        f"This release: epsilon {rounded_up(privacy.epsilon, 4)} at delta "
        f"{rounded_up(privacy.delta)}."
    )
    first = "with noise" if total.by_rules else "about these people"
    every = (
        f"It is the first {first}"
        if life.releases == 1
        else f"All {life.releases} releases about these people together"
    )
    typer.echo(
        f"{every}; at the cap's delta: epsilon {rounded_up(life.epsilon, 4)} at delta "
        f"{rounded_up(life.delta)}."
    )
    if total.releases is not None and total.releases > life.releases:
        typer.echo(f"Besides these, {total.releases - life.releases} for other units.")
    typer.echo(f"Read {made.folder / 'README.txt'} for what that means.")
    if total.by_rules:
        typer.echo(by_rules_words(total.by_rules))
