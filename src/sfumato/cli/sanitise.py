"""`sfumato sanitise`: publish traces with noise on every location, charged to the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import (
    DATA,
    OUTPUT,
    PLACES,
    PRIVACY,
    AsJson,
    Columns,
    Dataset,
    DryRun,
    End,
    Format,
    KeyFile,
    NewFolder,
    Quiet,
    ReadTz,
    ReleaseName,
    TimeUnit,
    Where,
    called,
    shared,
)
from sfumato.cli.telling import Working, print_json, tell
from sfumato.model.rounding import number_of

if TYPE_CHECKING:
    from sfumato.model.traces import Found
    from sfumato.traces.publish import Sanitised
    from sfumato.traces.request import SanitiseRequest


def sanitise(
    traces: Annotated[
        str,
        typer.Argument(
            help="Files or a folder (CSV, Parquet, NDJSON, GPX, T-Drive, Geolife, Cabspotting), or "
            "postgresql://…/database/schema.table."
        ),
    ],
    out: NewFolder,
    dataset: Dataset,
    start: Annotated[str, shared(DATA, "--from", "First day (UTC), such as 2008-11-01.")],
    end: End,
    expected_noise: Annotated[
        str | None,
        typer.Option(
            help="Mean distance of a report from the place: 100m.", rich_help_panel=PRIVACY
        ),
    ] = None,
    radius: Annotated[
        str | None,
        typer.Option(help="Radius of the protection: 200m.", rich_help_panel=PRIVACY),
    ] = None,
    level: Annotated[
        str | None, typer.Option(help="Level within the radius: ln4.", rich_help_panel=PRIVACY)
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="independent, clock, printed-clock, predictive or gaussian.",
            rich_help_panel=PRIVACY,
        ),
    ] = "independent",
    most_reports: Annotated[
        int | None,
        typer.Option(
            help="Most reports of a person; later fixes are left out.", rich_help_panel=PRIVACY
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help="Length of a clock's window: 5min.", rich_help_panel=PRIVACY),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Predictive: how far the last report may be off.", rich_help_panel=PRIVACY
        ),
    ] = None,
    test_share: Annotated[
        float,
        typer.Option(
            help="Predictive: a test's strength as a share of a report's.",
            rich_help_panel=PRIVACY,
        ),
    ] = 0.1,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Gaussian: loss within the radius.", rich_help_panel=PRIVACY),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Gaussian: its delta.", rich_help_panel=PRIVACY)
    ] = None,
    region: Annotated[
        str | None,
        shared(PLACES, "--region", "Public region: west,south,east,north in degrees."),
    ] = None,
    outside: Annotated[
        str,
        typer.Option(
            help="Reports outside the region: keep, clamp or drop.", rich_help_panel=OUTPUT
        ),
    ] = "keep",
    lattice: Annotated[
        int, typer.Option(help="Rows of the public lattice a degree.", rich_help_panel=PLACES)
    ] = 100_000,
    daily_level: Annotated[
        str | None,
        typer.Option(
            help="Most level within 200 m on any day, such as ln10.", rich_help_panel=PRIVACY
        ),
    ] = None,
    name: ReleaseName = None,
    tz: ReadTz = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    gap: Annotated[
        str, typer.Option(help="A pause so long ends a trip.", rich_help_panel=DATA)
    ] = "20min",
    ledger: Where = None,
    ledger_key: KeyFile = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish sanitised traces. Killed and run again, it finishes the same release, paid once.

    Example:
        sfumato sanitise traces.parquet --from 2008-05-19 --to 2008-05-20
        --expected-noise 100m --most-reports 200 --dataset cabs --out out/cabs
    """
    options = dict(locals())
    from pyarrow.parquet import read_metadata

    from sfumato.traces.publish import sanitise as publish
    from sfumato.traces.request import sanitise_request

    if dry_run:
        title = name if name is not None else out.absolute().name
        _cost(called(sanitise_request, options, name=title), as_json)
        return
    notes: list[str] = []

    def internal(found: Found) -> None:
        notes.extend(found.lines())
        if not (quiet or as_json):
            tell(notes)

    with Working(quiet or as_json, "reading traces") as progress:
        made = called(publish, options, internal=internal, progress=progress)
    if as_json:
        print_json(_summary(made), {"withheld": made.withheld, "notes": notes})
    elif not quiet:
        tell([f"{number_of(made.withheld, 'fixes')} left out by the public bounds."])
        if not read_metadata(made.folder / "traces.parquet").num_rows:
            tell(["WARNING: no fix is left, the table is empty. Is it the records' period?"])
        _tell(made)


def _cost(asked: SanitiseRequest, as_json: bool) -> None:
    from sfumato.privacy.events import event_to_json

    event = event_to_json(asked.event)
    data = {
        "event": event,
        "expected_noise_m": asked.expected_noise_m,
        "most_reports": asked.reports,
    }
    if as_json:
        print_json(data)
        return
    typer.echo(f"At most {asked.reports:,} reports a person, {asked.expected_noise_m:.0f} m off.")
    words = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in event.items())
    typer.echo(f"Would be charged: {words}.")
    typer.echo("Nothing was read and nothing was spent.")


def _summary(made: Sanitised) -> dict[str, Any]:
    privacy = made.manifest.privacy
    return {
        "how": made.how,
        "folder": str(made.folder),
        "release": made.manifest.release.id,
        "unit": privacy.unit,
        "rho": privacy.rho,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "method": privacy.method,
        "lifetime": privacy.cumulative.lifetime.model_dump(),
        "worst_period": privacy.cumulative.worst_period.model_dump(),
    }


def _tell(made: Sanitised) -> None:
    how = {
        "new": "Published",
        "resumed": "An interrupted run was finished; it was paid once",
        "already": "Published before and intact; nothing was done or charged",
        "repeated": "Made again from its kept key, with the same bytes; nothing was charged",
    }[made.how]
    typer.echo(f"{how}: {made.folder}")
    typer.echo(f"Read {made.folder / 'README.txt'} for what is protected and what is not.")
