"""`sfumato export`: a release as a package for portals, or in the form of another pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import (
    Contact,
    LicenceName,
    Publisher,
    Quiet,
    Title,
    ZoningOf,
    called,
)
from sfumato.cli.telling import Working
from sfumato.model.rounding import number_of


def export(
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    out: Annotated[Path, typer.Argument(help="Folder to write into.")],
    to: Annotated[str, typer.Option("--to", help="package, multimno or flowkit.")],
    zoning: ZoningOf = None,
    geojson: Annotated[
        bool, typer.Option("--geojson", help="flowkit: also a map of every slot.")
    ] = False,
    title: Title = None,
    publisher: Publisher = None,
    licence: LicenceName = None,
    contact: Contact = None,
    quiet: Quiet = False,
) -> None:
    """Write a release as a package for data portals, or as multimno or FlowKit would have.

    No events are read, nothing is spent.

    Example:
        sfumato export releases/week-37 portal/week-37 --to package
        --publisher "Metro Telecom" --licence CC-BY-4.0
    """
    options = dict(locals())
    from sfumato.published.export import export as write

    with Working(quiet, "writing the release in another form"):
        written = called(write, options)
    if not quiet:
        typer.echo(
            f"{number_of(len(written), 'files')} in {out}, with the release's privacy statement."
        )
