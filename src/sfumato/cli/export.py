"""`sfumato export`: a release in the form in which another pipeline publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Quiet, ZoningOf
from sfumato.cli.telling import Working


def export(
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    out: Annotated[Path, typer.Argument(help="Folder to write into.")],
    to: Annotated[str, typer.Option("--to", help="multimno or flowkit.")],
    zoning: ZoningOf = None,
    geojson: Annotated[
        bool, typer.Option("--geojson", help="flowkit: also a map of every slot.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write a release as multimno or FlowKit would have. No events are read, nothing is spent.

    Example:
        sfumato export releases/week-37 as-flowkit --to flowkit --geojson
    """
    from sfumato.published.export import export as write

    with Working(quiet, "writing the release in another form"):
        written = write(release, out, to=to, zoning=zoning, geojson=geojson)
    if not quiet:
        typer.echo(f"{len(written)} files in {out}, with the privacy statement of the release.")
