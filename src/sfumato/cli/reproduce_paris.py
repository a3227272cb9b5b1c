"""`sfumato reproduce paris`: the figures of the Paris release, the paper's numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.model.errors import UsageError


def paris(
    out: Annotated[Path, typer.Option(help="Folder for the city, numbers, tables and figures.")],
    users: Annotated[int, typer.Option(help="People of the synthetic city.")] = 2_000_000,
    towers: Annotated[int, typer.Option(help="Towers of a generated map.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Zones of a generated map.")] = 989,
    geometry: Annotated[str, typer.Option(help="generated, or paris for the real map.")] = (
        "generated"
    ),
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with the real map, for --geometry paris."),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Draws of samples and noise.")] = 20,
    other_repetitions: Annotated[
        int | None, typer.Option(help="Draws away from epsilon 0.3 and of variants; as many.")
    ] = None,
    slow_repetitions: Annotated[
        int | None,
        typer.Option(help="Draws of bayes, which reads the records every time; as many."),
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.1,0.3,0.5,1",
    emd_every: Annotated[int, typer.Option(help="Earth mover's distance every so many hours.")] = 7,
    studies: Annotated[
        str, typer.Option(help="Some of main, corrected, variants, samples, chapter, …; or all.")
    ] = "all",
    seed: Annotated[int, typer.Option(help="The same seed gives the same study.")] = 1,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw PNGs.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Repeat the study of Acs & Castelluccia (2014) on made-up people. Internal results."""
    from sfumato.city import CityPlan, Geometry
    from sfumato.reproduction.paris.stage import make_city, open_city
    from sfumato.reproduction.paris.study import STUDIES, TABLE, Settings, study

    draws = (repetitions, other_repetitions, slow_repetitions)
    if any(n is not None and n < 1 for n in draws) or emd_every < 0:
        raise UsageError("There is at least one repetition, and no negative number of hours.")
    if geometry not in tuple(Geometry):
        raise UsageError(
            f"There is no geometry {geometry!r}.", remedy=f"Choose from {', '.join(Geometry)}."
        )
    wanted = STUDIES if studies == "all" else tuple(studies.split(","))
    if unknown := sorted(set(wanted) - set(STUDIES)):
        raise UsageError(
            f"There is no study {', '.join(unknown)}.", remedy=f"Choose from {', '.join(STUDIES)}."
        )
    settings = Settings(_numbers(epsilons), *draws, emd_every, studies=wanted)

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    say("the city")
    plan = CityPlan(
        users=users, towers=towers, zones=zones, seed=seed, geometry=Geometry(geometry), data=data
    )
    make_city(plan, out / "city")
    stage = open_city(out / "city", seed)
    found = study(stage, settings, out, say)
    if figures:
        from sfumato.reproduction.paris.figures import draw_all

        say("figures")
        draw_all(stage, found, out)
    if not quiet:
        typer.echo(f"INTERNAL: {out / TABLE}")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(not 0 < value < 100 for value in found):
        raise UsageError(
            f"{text!r} is not a list of epsilons.", remedy="Write --epsilons 0.1,0.3,1."
        )
    return found
