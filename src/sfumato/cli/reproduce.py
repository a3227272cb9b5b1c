"""`sfumato reproduce`: the published studies, made again. Each study lives in a file of its own."""

from __future__ import annotations

import typer

from sfumato.cli.reproduce_frontier import frontier
from sfumato.cli.reproduce_geoind import geoind
from sfumato.cli.reproduce_moving import moving
from sfumato.cli.reproduce_paris import paris
from sfumato.cli.reproduce_recovery import recovery

app = typer.Typer(help="Make published studies again. Internal results.", no_args_is_help=True)
app.command()(frontier)
app.command()(geoind)
app.command()(moving)
app.command()(recovery)
app.command()(paris)
