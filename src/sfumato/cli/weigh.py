"""`sfumato weigh`: from the people in an operator's records to all people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import DATA, OUTPUT, AsJson, NewFolder, Quiet, called, shared
from sfumato.cli.telling import Working

Night = Annotated[
    str | None, shared(DATA, "--night", "Hours in which people are at home; default: 1-5.")
]
Reach = Annotated[
    float | None,
    shared(DATA, "--reach", "How far people go, in km; 0 weighs by where they are. Default: 2."),
]
AreaColumns = Annotated[
    list[str] | None,
    shared(
        DATA, "--column", "Which column of the areas is what: area=code, share=m, people=P, sd=s."
    ),
]
ResultName = Annotated[
    str | None, shared(OUTPUT, "--name", "Name of the result; default: the folder's.")
]


def weigh(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    out: NewFolder,
    shares: Annotated[
        str | None,
        shared(DATA, "--shares", "Market shares by area: a file, or one number."),
    ] = None,
    census: Annotated[
        str | None,
        shared(DATA, "--census", "People by area, compared with the release's nights: a file."),
    ] = None,
    night: Night = None,
    reach: Reach = None,
    column: AreaColumns = None,
    name: ResultName = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a release of people from a release of an operator's customers. Nothing is spent.

    Example:
        sfumato weigh releases/week-37
        --census census.geojson
        --out releases/week-37-people
    """
    options = dict(locals())
    from sfumato.people.weigh import weigh as weigh_release

    with Working(quiet or as_json, "weighing") as progress:
        made = called(weigh_release, options, progress=progress)
    tell_people(made, quiet, as_json)


def tell_people(made: object, quiet: bool, as_json: bool) -> None:
    """Say where the people are, how many, and what to take note of."""
    from sfumato.published.release import Release

    assert isinstance(made, Release)
    manifest = made.manifest
    assert manifest.made_from is not None
    if as_json:
        told = {
            "release": manifest.release.id,
            "folder": str(made.folder),
            "epsilon": manifest.privacy.epsilon,
            "delta": manifest.privacy.delta,
            "made_from": manifest.made_from.model_dump(mode="json"),
            "total": None if manifest.total is None else manifest.total.model_dump(),
            "caveats": manifest.caveats,
        }
        typer.echo(json.dumps(told, indent=2))
    elif not quiet:
        typer.echo(f"{manifest.made_from.estimates.capitalize()} in {made.folder}.")
        for line in manifest.caveats:
            typer.echo(f"  {line}")
        typer.echo("Nothing was charged.")
