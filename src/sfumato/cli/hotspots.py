"""`sfumato hotspots`: where to place sites, from sanitised traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import DATA, OUTPUT, PLACES, AsJson, Quiet, called, own, shared
from sfumato.cli.telling import Working, print_json
from sfumato.model.rounding import percent

TracesFolder = Annotated[Path, typer.Argument(help="Folder that `sfumato sanitise` made.")]


def hotspots(
    traces: TracesFolder,
    number: Annotated[int, own(DATA, "--number", "How many cells to choose.")] = 20,
    by: Annotated[str, own(DATA, "--by", "What they serve: visits or people.")] = "visits",
    apart: Annotated[
        str, own(PLACES, "--apart", "Least distance between chosen cells; 0m: none.")
    ] = "0m",
    side: Annotated[
        str | None, own(PLACES, "--side", "Side of a cell; default: about 89m.")
    ] = None,
    region: Annotated[
        str | None,
        own(PLACES, "--region", "west,south,east,north; default: where the reports lie."),
    ] = None,
    steps: Annotated[
        int | None,
        own(DATA, "--steps", "Steps that take the noise out; 0: none. Default: by the noise."),
    ] = None,
    out: Annotated[Path | None, shared(OUTPUT, "--out", "Folder for table, map and page.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose the cells that serve the most traffic. No records are read, nothing is spent.

    Example:
        sfumato hotspots out/cabs --number 10 --out out/hotspots
    """
    options = dict(locals())
    from sfumato.utility.placement import hotspots as choose

    with Working(quiet or as_json, "hot spots") as progress:
        found = called(choose, options, progress=progress)
    if as_json:
        print_json({**found.to_geojson(), "notes": list(found.notes), "release": found.signature})
    elif not quiet:
        typer.echo("rank  latitude   longitude    share  reports")
        for one in found.cells:
            where = f"{one.lat:9.5f} {one.lon:11.5f}"
            typer.echo(f"{one.rank:4d}  {where}  {percent(one.share, 2):>7} {one.reports:8,}")
        for note in found.notes:
            typer.echo(note)
        if out is not None:
            typer.echo(f"Table, map and page in {out}.")
