"""`sfumato inspect`: what is in the files, and the lines of `sfumato.toml` that state it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfumato.cli.command import in_flags
from sfumato.cli.options import (
    DATA,
    AsJson,
    Columns,
    DropBadTowers,
    Format,
    Grid,
    Layer,
    Region,
    RepairZones,
    TimeUnit,
    Towers,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import Working

_BANNER = (
    "internal: this is about people's records. Do not publish it, nor let a script decide by it."
)


def inspect(
    context: typer.Context,
    events: Annotated[
        list[str],
        typer.Argument(
            help="Files or folders: CSV, Parquet, NDJSON, GPX, T-Drive, Geolife, Cabspotting."
        ),
    ],
    towers: Towers = None,
    zones: Zones = None,
    column: Columns = None,
    time_unit: TimeUnit = None,
    events_tz: Annotated[
        str | None, shared(DATA, "--events-tz", "Clock of times that carry no offset.")
    ] = None,
    format: Format = None,
    grid: Grid = None,
    region: Region = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    as_json: AsJson = False,
) -> None:
    """Look at event files before they are released: columns, clock, span, what would be dropped.

    It says how the files can be read, as lines of sfumato.toml. Internal: it is about records.

    Example:
        sfumato inspect events.parquet --towers towers.csv --zones zones.geojson
    """
    options = dict(locals())
    from sfumato.io.inspection import inspect as look

    with Working(as_json, "looking at the events"):
        found = called(look, options, events=events[0] if len(events) == 1 else events)
    if as_json:
        typer.echo(json.dumps({"internal": found.numbers()}, indent=2, sort_keys=True))
        return
    typer.echo(_BANNER)
    for line in found.lines():
        typer.echo(in_flags(line, list(context.command.params)))
    if not found.usable:
        typer.echo("\nRead like this, NOTHING would be counted: see above what is missing.")
    typer.echo(
        "\nIf that is how they are to be read, write it down in sfumato.toml, above its [tables]:\n"
    )
    for line in found.toml():
        typer.echo(line)
