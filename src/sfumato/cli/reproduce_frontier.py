"""`sfumato reproduce frontier`: every scheme and outside baseline against the possible."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from sfumato.model.errors import UsageError


def frontier(
    out: Annotated[Path, typer.Option(help="Folder for cities, numbers, table and plot.")],
    users: Annotated[str, typer.Option(help="Sizes of the cities.")] = "2000000,200000",
    cities: Annotated[
        str, typer.Option(help="Kinds: ordinary, other, place, events, small.")
    ] = "ordinary,other,place,events,small",
    epsilons: Annotated[str, typer.Option(help="Values of epsilon.")] = "0.1,0.3,1",
    draws: Annotated[int, typer.Option(help="Draws in the ordinary city.")] = 5,
    draws_elsewhere: Annotated[int, typer.Option(help="Draws in the other cities.")] = 2,
    emd_every: Annotated[int, typer.Option(help="Earth mover's distance every so many hours.")] = 7,
    towers: Annotated[int, typer.Option(help="Towers of the ordinary city.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Zones of the ordinary city.")] = 989,
    again: Annotated[
        list[str] | None, typer.Option(help="Draw this method again; may be repeated.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with c2tm/, for real aggregates."),
    ] = None,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the PNG.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Compare all methods on made-up people: one table, one plot. Internal results.

    The whole takes about 40 CPU-minutes. A run that was stopped goes on where it was.
    """
    from sfumato.reproduction.frontier.cities import Kind
    from sfumato.reproduction.frontier.methods import LABELS
    from sfumato.reproduction.frontier.record import Record
    from sfumato.reproduction.frontier.study import NUMBERS, TABLE, Settings, finish, study

    known = {"ordinary": Kind.ORDINARY, "other": Kind.OTHER, "place": Kind.PLACE}
    known |= {"events": Kind.EVENTS, "small": Kind.SMALL}
    chosen = [name.strip() for name in cities.split(",")]
    if any(name not in known for name in chosen):
        raise UsageError(
            "There is no such kind of city.", remedy=f"Choose from {', '.join(known)}."
        )
    unknown = sorted(set(again or []) - set(LABELS))
    if unknown:
        raise UsageError(
            f"There is no method {', '.join(unknown)}.", remedy=f"Choose from {', '.join(LABELS)}."
        )
    if min(draws, draws_elsewhere, emd_every) < 1:
        raise UsageError("Draws and the step between hours are at least 1.")
    settings = Settings(
        users=tuple(int(n) for n in _numbers(users)),
        kinds=tuple(known[name] for name in chosen),
        epsilons=_numbers(epsilons),
        draws=draws,
        draws_elsewhere=draws_elsewhere,
        emd_every=emd_every,
        towers=towers,
        zones=zones,
    )
    out.mkdir(parents=True, exist_ok=True)
    record = Record(out / NUMBERS)
    record.forget(again or [], settings.covers)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task("cities", total=1.0)

        def tell(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        study(settings, out, record, tell)
        finish(record, out, data, tell, figures=figures)
    if not quiet:
        typer.echo(f"INTERNAL: {out / TABLE}")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(not value > 0 for value in found):
        raise UsageError(f"{text!r} is not a list of positive numbers.", remedy="Write 0.1,0.3,1.")
    return found
