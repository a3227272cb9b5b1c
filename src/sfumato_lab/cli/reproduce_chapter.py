"""`sfumato reproduce chapter`: Acs, Biczók & Castelluccia (2018). See `studies.chapter`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Quiet, Results, Seed
from sfumato.cli.telling import Working
from sfumato.errors import UsageError
from sfumato.model.extras import required
from sfumato_lab.cli.reproduce_queries import DRAWING, positive_numbers


def chapter(
    out: Results,
    part: Annotated[
        list[str] | None, typer.Option(help="Only this part; may be repeated. Default: all.")
    ] = None,
    users: Annotated[int, typer.Option(help="People of the made city.")] = 200_000,
    towers: Annotated[int, typer.Option(help="Its towers.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Its zones.")] = 989,
    ranges: Annotated[int, typer.Option(help="Ranges that are answered.")] = 2_000,
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.3,1",
    draws: Annotated[int, typer.Option(help="Draws where there is noise.")] = 5,
    targets: Annotated[int, typer.Option(help="People asked about in each draw.")] = 1_000,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method; may be repeated.")
    ] = None,
    together: Annotated[int, typer.Option(help="People of each of two releases.")] = 20_000,
    k: Annotated[int, typer.Option(help="That each of the two promises.")] = 50,
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with oldenburg/ and cabspotting_sf/."),
    ] = None,
    seed: Seed = 2_301,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw PNGs.")] = True,
    quiet: Quiet = False,
) -> None:
    """The chapter's table, figure and arguments, and its thesis on one table. Internal results.

    Example:
        sfumato reproduce chapter --out chapter --part table --part john --part weeks
    """
    required(*DRAWING[figures], what="This study", instead="Or give --no-figures.")
    from sfumato_lab.studies.chapter.study import PARTS, Settings, study
    from sfumato_lab.studies.chapter.thesis import METHODS

    for given, known, what in ((part, PARTS, "part"), (method, METHODS, "method")):
        unknown = sorted(set(given or ()) - set(known))
        if unknown:
            raise UsageError(
                f"There is no {what} {unknown[0]!r}.", remedy=f"Choose from {', '.join(known)}."
            )
    if min(draws, ranges) < 1 or targets < 20 or min(towers, zones) < 4:
        raise UsageError("A study needs a draw, a range, 20 targets, four towers and four zones.")
    if k < 2 or together < 8 * k:
        raise UsageError("`k` is at least 2, and each of two releases has at least 8 k people.")
    settings = Settings(
        users=users,
        towers=towers,
        zones=zones,
        ranges=ranges,
        epsilons=positive_numbers(epsilons),
        draws=draws,
        targets=targets,
        methods=tuple(name for name in METHODS if method is None or name in method),
        together=together,
        together_k=k,
        seed=seed,
        data=data,
        figures=figures,
    )
    wanted = part or [name for name in PARTS if name != "figure" or data is not None]
    with Working(quiet, "the chapter") as tell:
        page = study(settings, wanted, out, tell)
    if not quiet:
        typer.echo(page)
