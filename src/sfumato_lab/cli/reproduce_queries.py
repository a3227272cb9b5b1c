"""`sfumato reproduce queries`: the study of questions to the data. See `studies.queries`."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.options import Quiet, Results, Seed
from sfumato.cli.telling import Working
from sfumato.errors import UsageError
from sfumato.model.extras import required

DRAWING: dict[bool, tuple[str, ...]] = {True: ("plots",), False: ()}
"""The extra that a study needs, by whether it draws figures."""


def queries(
    out: Results,
    part: Annotated[
        list[str] | None, typer.Option(help="Only this part; may be repeated. Default: all.")
    ] = None,
    users: Annotated[str, typer.Option(help="Sizes of the cities.")] = "20000,200000",
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.1,0.3,1",
    questions: Annotated[str, typer.Option(help="Numbers of questions.")] = "10,30,100,300,1000",
    draws: Annotated[int, typer.Option(help="Draws of noise.")] = 3,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this way of answering; may be repeated.")
    ] = None,
    towers: Annotated[int, typer.Option(help="Towers of the cities.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Zones of the cities.")] = 989,
    seed: Seed = 2_101,
    people: Annotated[
        str, typer.Option(help="People of the towns that are reconstructed: powers of 2.")
    ] = "16,64,256,1024,4096",
    town: Annotated[int, typer.Option(help="People of the town that auditors guard.")] = 24,
    ranges: Annotated[int, typer.Option(help="Ranges asked of auditors in a city.")] = 150,
    attack_draws: Annotated[int, typer.Option(help="Towns that are attacked.")] = 8,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw PNGs.")] = True,
    quiet: Quiet = False,
) -> None:
    """Questions under a budget: how exact answers are, what they give away, what auditors refuse.

    Example:
        sfumato reproduce queries --out queries --users 20000 --draws 1
    """
    required(*DRAWING[figures], what="This study", instead="Or give --no-figures.")
    from sfumato_lab.studies.queries.errors import METHODS
    from sfumato_lab.studies.queries.study import PARTS, Settings, study

    for given, known, what in ((part, PARTS, "part"), (method, METHODS, "method")):
        unknown = sorted(set(given or ()) - set(known))
        if unknown:
            raise UsageError(
                f"There is no {what} {unknown[0]!r}.", remedy=f"Choose from {', '.join(known)}."
            )
    if draws < 1 or towers < 4 or zones < 4:
        raise UsageError("A study needs a draw, and a city four towers and four zones.")
    if attack_draws < 1 or ranges < 1 or not 8 <= town <= 64:
        raise UsageError("Attacks need a draw, a range, and a town of 8 to 64 people.")
    if any(not 8 <= n <= 1 << 14 or n & (n - 1) for n in _whole(people, "people")):
        raise UsageError(
            "Towns that are reconstructed have a power of two of people, 8 to 16,384.",
            remedy="Write --people 16,64,256.",
        )
    settings = Settings(
        users=_whole(users, "people"),
        epsilons=positive_numbers(epsilons),
        questions=_whole(questions, "questions"),
        draws=draws,
        methods=tuple(name for name in METHODS if method is None or name in method),
        towers=towers,
        zones=zones,
        seed=seed,
        figures=figures,
        people=_whole(people, "people"),
        town=town,
        ranges=ranges,
        attack_draws=attack_draws,
    )
    with Working(quiet, "city") as tell:
        page = study(settings, part or list(PARTS), out, tell)
    if not quiet:
        typer.echo(page)


def _whole(text: str, what: str) -> tuple[int, ...]:
    found = positive_numbers(text)
    if any(value != int(value) for value in found):
        raise UsageError(f"{text!r} is not a list of numbers of {what}.")
    return tuple(sorted({int(value) for value in found}))


def positive_numbers(text: str) -> tuple[float, ...]:
    """A list of positive numbers, as an option has it."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(not 0 < value < 1e9 for value in found):
        raise UsageError(f"{text!r} is not a list of positive numbers.", remedy="Write 0.1,0.3,1.")
    return found
