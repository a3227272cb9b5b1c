"""`sfumato inspect`: what is in the files, and the lines of `sfumato.toml` that state it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Columns, DropBadTowers, TimeUnit, ZoneId, columns_of

_BANNER = (
    "internal: this is about people's records. Do not publish it, nor let a script decide by it."
)


def inspect(
    events: Annotated[
        list[str], typer.Argument(help="Event files or folders: CSV, Parquet, NDJSON.")
    ],
    towers: Annotated[Path | None, typer.Option(help="Antennas that the events name.")] = None,
    zones: Annotated[Path | None, typer.Option(help="Zones that they may lie in.")] = None,
    column: Columns = None,
    time_unit: TimeUnit = None,
    events_tz: Annotated[
        str | None, typer.Option("--events-tz", help="Clock of times that carry no offset.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="parquet, csv or ndjson, where the ending does not tell.")
    ] = None,
    zone_id: ZoneId = None,
    drop_bad_towers: DropBadTowers = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at event files before they are released: columns, clock, span, what would be dropped."""
    from sfumato.io.inspect import inspect as look
    from sfumato.io.towers import read_towers
    from sfumato.io.zones import read_zones

    areas = None if zones is None else read_zones(zones, zone_id)
    sites = None
    if towers is not None:
        sites = read_towers(towers, zones=areas, tz=events_tz, drop_bad=drop_bad_towers)
    found = look(
        events[0] if len(events) == 1 else events,
        columns=columns_of(column),
        tz=events_tz,
        time_unit=time_unit,
        format=format,
        places=sites if sites is not None else areas,
    )
    if as_json:
        typer.echo(json.dumps({"internal": found.numbers()}, indent=2, sort_keys=True))
        return
    typer.echo(_BANNER)
    for line in found.lines():
        typer.echo(line)
    if not found.usable:
        typer.echo("\nRead like this, NOTHING would be counted: see above what is missing.")
    typer.echo(
        "\nIf that is how they are to be read, write it down in sfumato.toml, above its [tables]:\n"
    )
    for line in found.toml():
        typer.echo(line)
