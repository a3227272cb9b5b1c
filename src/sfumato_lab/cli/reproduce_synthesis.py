"""`sfumato reproduce synthesis`: the study of synthetic data. See `studies.synthesis`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Quiet, Results, Seed
from sfumato.cli.telling import Working
from sfumato.errors import UsageError
from sfumato.model.extras import required
from sfumato_lab.cli.reproduce_queries import DRAWING


def synthesis(
    out: Results,
    part: Annotated[
        list[str] | None, typer.Option(help="Only this part; may be repeated. Default: all.")
    ] = None,
    ground: Annotated[
        list[str] | None,
        typer.Option(help="Only these trips: cabs, phones, city, crowd; may be repeated."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Only this method for trips; may be repeated. recurrent runs if named."),
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.1,1,2",
    trips: Annotated[int, typer.Option(help="Trips of each ground that go in, at most.")] = 10_000,
    people: Annotated[int, typer.Option(help="People of the city and the crowd.")] = 20_000,
    draws: Annotated[int, typer.Option(help="Draws of noise and people.")] = 1,
    seed: Seed = 4_201,
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder of the public data, for cabs and phones."),
    ] = None,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the PNG.")] = True,
    quiet: Quiet = False,
) -> None:
    """Synthetic people and trips beside true ones: all methods, four grounds. Internal results.

    The whole takes about four CPU-minutes; grounds whose data are absent are left out.

    Example:
        sfumato reproduce synthesis --out synthesis --ground crowd --trips 2000
    """
    required(*DRAWING[figures], what="This study", instead="Or give --no-figures.")
    from sfumato_lab.studies.synthesis.study import (
        GROUNDS,
        METHODS,
        NETWORK,
        PARTS,
        Settings,
        study,
    )

    trips_by = (*METHODS, NETWORK)
    known = ((part, PARTS, "part"), (ground, GROUNDS, "ground"), (method, trips_by, "method"))
    for given, names, what in known:
        unknown = sorted(set(given or ()) - set(names))
        if unknown:
            raise UsageError(
                f"There is no {what} {unknown[0]!r}.", remedy=f"Choose from {', '.join(names)}."
            )
    try:
        budgets = tuple(float(text) for text in epsilons.split(","))
    except ValueError:
        budgets = ()
    if not budgets or any(not 0 < value < 100 for value in budgets):
        raise UsageError(
            f"{epsilons!r} is not a list of epsilons.", remedy="Write --epsilons 0.1,1,2."
        )
    if NETWORK in (method or ()):
        required("rnn", what="The recurrent network")
    if trips < 200 or people < 1_000 or draws < 1:
        raise UsageError("The study needs 200 trips, 1,000 people and a draw.")
    settings = Settings(
        epsilons=budgets,
        methods=tuple(name for name in trips_by if name in (method or METHODS)),
        grounds=tuple(name for name in GROUNDS if ground is None or name in ground),
        trips=trips,
        people=people,
        draws=draws,
        seed=seed,
        figures=figures,
        data=data,
    )
    with Working(quiet, "trips") as tell:
        page = study(settings, part or list(PARTS), out, tell)
    if not quiet:
        typer.echo(page)
