"""`sfumato release`: publish a density through the wall, charged to the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar

from sfumato.cli.options import (
    AsJson,
    Columns,
    Config,
    DropBadTowers,
    DryRun,
    Engine,
    EventsTz,
    KeyFile,
    Layer,
    Master,
    Parameters,
    Pipeline,
    Quiet,
    ReleaseName,
    RepairZones,
    RowsRead,
    SparkConf,
    TimeUnit,
    Where,
    ZoneId,
    ZoneName,
    ZoningOf,
    columns_of,
    open_ledger,
    opened,
    parameters_of,
    pipeline_inputs,
    print_json,
    spark_settings,
)
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.density.request import Request
    from sfumato.model.source import Progress
    from sfumato.privacy.ledger import Ledger
    from sfumato.published.release import Release


def release(
    events: Annotated[
        str,
        typer.Argument(
            help="Events: CSV, Parquet or NDJSON files, or postgresql://…/database/schema.table."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist yet.")],
    dataset: Annotated[str, typer.Option(help="Whose people these are, as the ledger knows them.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss of this release.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of people.")],
    start: Annotated[str, typer.Option("--from", help="First day, such as 2007-09-10.")],
    end: Annotated[str, typer.Option("--to", help="First day that is no longer part of it.")],
    tz: Annotated[str, typer.Option(help="Time zone, such as Europe/Paris.")],
    towers: Annotated[Path | None, typer.Option(help="Antennas that the events name.")] = None,
    zones: Annotated[Path | None, typer.Option(help="Zones to publish numbers for.")] = None,
    pipeline: Pipeline = None,
    zoning: ZoningOf = None,
    slot: Annotated[str, typer.Option(help="Length of a time slot: 15min, 1h, 1d.")] = "1h",
    scheme: Annotated[str, typer.Option(help="How the numbers are made.")] = "bayes",
    bound: Annotated[
        str | None, typer.Option(help="What one person may contribute: weight:3 or sample:30.")
    ] = None,
    count: Annotated[str, typer.Option(help="What is counted: visits or people.")] = "visits",
    expected_users: Annotated[
        int | None, typer.Option(help="How many people, from public knowledge, rounded.")
    ] = None,
    name: ReleaseName = None,
    column: Columns = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    parameter: Parameters = None,
    hierarchy: Annotated[
        Path | None, typer.Option(help="Table of zone_id and parent_id: adds districts and city.")
    ] = None,
    hierarchy_column: Annotated[
        str | None, typer.Option(help="The same from a column of the zones' file.")
    ] = None,
    integers: Annotated[bool, typer.Option("--integers", help="Whole numbers only.")] = False,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of an earlier release whose rhythms to expect; costs nothing."),
    ] = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    dry_run: DryRun = False,
    keep_key: Annotated[
        bool, typer.Option("--keep-key", help="Keep the key, with which the noise can be redrawn.")
    ] = False,
    engine: Engine = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    config: Config = None,  # noqa: ARG001 - read by its callback
) -> None:
    """Publish a density. Killed and run again, it finishes the same release and pays once."""
    from sfumato.density import publish as api

    settings: dict[str, Any] = {
        "towers": towers,
        "zones": zones,
        "start": start,
        "end": end,
        "slot": slot,
        "tz": tz,
        "dataset": dataset,
        "epsilon": epsilon,
        "delta": delta,
        "name": name if name is not None else out.absolute().name,
        "scheme": scheme,
        "bound": bound,
        "counting": count,
        "expected_users": expected_users,
        "parameters": parameters_of(parameter),
        "zone_id": zone_id,
        "zone_name": zone_name,
        "layer": layer,
        "repair_zones": repair_zones,
        "drop_bad_towers": drop_bad_towers,
        "hierarchy": hierarchy,
        "hierarchy_column": hierarchy_column,
        "integers": integers,
        "earlier": earlier or (),
    }
    book = open_ledger(ledger, ledger_key)
    found = pipeline_inputs(
        pipeline, zoning, events, settings, lambda: api.period_of(start, end, slot, tz)
    )
    if dry_run:
        _dry(api.request(**settings), book, as_json)
        return
    told = RowsRead(silent=quiet)
    with (
        _progress(quiet or as_json) as progress,
        opened(found, events, progress) as described,
    ):
        made = api.release(
            described,
            out=out,
            ledger=book,
            columns=columns_of(column),
            time_unit=time_unit,
            events_tz=events_tz,
            internal=told,
            keep_key=keep_key,
            progress=progress,
            engine=engine,
            master=master,
            spark=spark_settings(spark_conf),
            **settings,
        )
    if as_json:
        print_json(_summary(made), told.counts)
    elif not quiet:
        _tell(made)


def _dry(asked: Request, book: Ledger, as_json: bool) -> None:
    from sfumato.errors import BudgetRefused
    from sfumato.privacy.ledger.limits import Room, compose

    plan = asked.plan()
    state = book.book()
    if asked.dataset not in state.caps:
        raise UsageError(
            f"The ledger knows no data set {asked.dataset!r}.",
            remedy="Name it first with sfumato ledger init.",
        )
    claim = asked.claim("", Path())
    planned = list(plan.events.values())
    capped = bool(state.caps_of(asked.dataset, claim.unit))
    fits = capped and Room.under(state, claim).fits(planned)
    cost = compose(planned, asked.facts.delta)
    if as_json:
        data = {"lines": list(plan.lines), "sd": plan.sd, "fits": fits}
        data |= {"epsilon": cost.epsilon, "delta": cost.delta, "rho": cost.rho}
        print_json(data)
    else:
        for line in plan.lines:
            typer.echo(line)
        typer.echo("It fits the budget." if fits else "It does NOT fit the budget.")
        typer.echo("Nothing was read and nothing was spent.")
    if not fits:
        raise BudgetRefused(
            f"This release would pass the cap of {asked.dataset!r}.",
            remedy="See sfumato ledger show and sfumato ledger plan.",
        )


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
        "lifetime": privacy.cumulative.lifetime.model_dump(),
        "worst_period": privacy.cumulative.worst_period.model_dump(),
    }


def _tell(made: Release) -> None:
    privacy = made.manifest.privacy
    total, life = privacy.cumulative, privacy.cumulative.lifetime
    how = {
        "new": "Published",
        "resumed": "An interrupted run was finished; it was paid once",
        "already": "Published before and intact; nothing was done or charged",
    }[made.how]
    typer.echo(f"{how}: {made.folder}")
    typer.echo(f"This release: epsilon {privacy.epsilon:.4g} at delta {privacy.delta:g}.")
    typer.echo(
        f"All {life.releases} about these people, at the cap's delta: epsilon {life.epsilon:.4g} "
        f"at delta {life.delta:g}."
    )
    if total.releases is not None and total.releases > life.releases:
        typer.echo(f"Besides these, {total.releases - life.releases} for other units.")
    typer.echo(f"Read {made.folder / 'README.txt'} for what that means.")


@contextmanager
def _progress(silent: bool) -> Iterator[Progress | None]:
    """A bar on standard error while the work goes on; none when nobody looks."""
    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield None
        return
    with Bar(console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def step(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=1.0 if share >= 0 else None)
            if share >= 0:
                bar.update(tasks[what], completed=share)

        yield step
