"""`sfumato demo`: a synthetic city from records to a release, judged and ready to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import Epsilon, Results, called
from sfumato.cli.telling import Working, tell

if TYPE_CHECKING:
    from sfumato.tour import Stage


def demo(
    out: Results = Path("sfumato-demo"),
    users: Annotated[int, typer.Option(help="People who live in the city.")] = 60_000,
    epsilon: Epsilon = 1.0,
    again: Annotated[
        bool, typer.Option("--again", help="Throw an earlier demo in this folder away first.")
    ] = False,
    tour: Annotated[
        bool,
        typer.Option("--tour", help="Also stream an hour, ask a question and run an attack."),
    ] = False,
) -> None:
    """Make a city, publish its hourly density, compare it with the truth, say where to look.

    Example:
        sfumato demo --out demo
    """
    options = dict(locals())
    from sfumato.tour import demo as go

    with Working(False, "loading") as progress:
        called(go, options, watch=_say, progress=progress)


def _say(stage: Stage) -> None:
    """A heading when it begins; when it is over, what to look at."""
    from sfumato.cli.evaluate import show
    from sfumato.density.evaluate import Comparison

    if stage.found is None:
        typer.echo(f"{stage.number}  {stage.name}")
        return
    if isinstance(stage.found, Comparison):
        show(stage.found)
    for line in stage.lines:
        typer.echo(line)
    tell(stage.internal)
