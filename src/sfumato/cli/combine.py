"""`sfumato combine`: releases of several operators of one city, put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import DATA, AsJson, NewFolder, Quiet, ZoneId, Zones, called, shared
from sfumato.cli.telling import Working
from sfumato.cli.weigh import AreaColumns, Night, Reach, ResultName, tell_people


def combine(
    releases: Annotated[list[Path], typer.Argument(help="Folders of releases, one an operator.")],
    out: NewFolder,
    shares: Annotated[
        list[str],
        shared(
            DATA, "--shares", "Market shares of a release, by area or one number; once for each."
        ),
    ],
    overlap: Annotated[
        float,
        shared(DATA, "--overlap", "Share of the smaller one's people who are at the other, too."),
    ],
    zones: Zones = None,
    zone_id: ZoneId = None,
    night: Night = None,
    reach: Reach = None,
    column: AreaColumns = None,
    name: ResultName = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Put releases of several operators of one city together. Nothing is spent.

    Their losses add up where people may be at several; where nobody is (--overlap 0) the
    promise is the weakest one's.

    Example:
        sfumato combine red/week-37 blue/week-37
        --shares red.csv --shares 0.25
        --overlap 0.05
        --out city/week-37
    """
    options = dict(locals())
    from sfumato.people.combine import combine as combine_releases

    with Working(quiet or as_json, "weighing") as progress:
        made = called(combine_releases, options, progress=progress)
    tell_people(made, quiet, as_json)
