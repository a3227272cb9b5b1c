"""`sfumato report`: make the page of one or more releases again, and figures for papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import OUTPUT, AsJson, Quiet, called, shared
from sfumato.cli.telling import Working


def report(
    releases: Annotated[
        list[Path], typer.Argument(help="Folders of releases or streams, one or more.")
    ],
    out: Annotated[
        Path | None,
        shared(OUTPUT, "--out", "File of the page; default: index.html in the release's folder."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Also draw figures (PNG and SVG) into this folder.", rich_help_panel=OUTPUT
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the offline page from releases alone. Several (weeks) give one page with a chooser.

    Example:
        sfumato report releases/week-37 releases/week-38 --out weeks.html
    """
    options = dict(locals())
    from sfumato.reports.page import report as make

    with Working(quiet or as_json, "making the page") as progress:
        written = called(make, options, progress=progress)
    if as_json:
        typer.echo(json.dumps([str(path) for path in written], indent=2))
    elif not quiet:
        for path in written:
            typer.echo(str(path))
