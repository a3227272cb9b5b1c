"""`sfumato refine`: read the measurements of a release again, by today's method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import OUTPUT, AsJson, Earlier, NewFolder, Quiet, called, shared
from sfumato.cli.telling import Working


def refine(
    release: Annotated[Path, typer.Argument(help="Folder of a release that keeps measurements.")],
    out: NewFolder,
    earlier: Earlier = None,
    name: Annotated[
        str | None, shared(OUTPUT, "--name", "Name of the new version; default: the folder's.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Read the measurements that a release keeps once more. No events are read, nothing is spent.

    Example:
        sfumato refine releases/week-37 --out releases/week-37-again
    """
    options = dict(locals())
    from sfumato.density.reanalysis import refine as read_again

    with Working(quiet or as_json, "reading the measurements again") as progress:
        made = called(read_again, options, progress=progress)
    if as_json:
        told = {"release": made.manifest.release.id, "folder": str(made.folder)}
        typer.echo(json.dumps(told | dict(made.manifest.public_inputs), indent=2))
    elif not quiet:
        typer.echo(f"A second reading in {made.folder}. Nothing was charged.")
