"""`sfumato attack`: what an adversary makes of a release, before one does. INTERNAL.

`sfumato attack RELEASE --events …` is short for `sfumato attack recovery RELEASE --events …`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from typer.core import TyperGroup

from sfumato.cli import internal
from sfumato.cli.attack_traces import traces
from sfumato.cli.options import Columns, EventsTz, TimeUnit, columns_of
from sfumato.model.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.attacks.membership import Membership
    from sfumato.attacks.recovery.people import People
    from sfumato.cli.attack_inputs import Attackable
    from sfumato.model.places import Places

DEFAULT = "recovery"
UNPROTECTED = "no protection"


class _WithDefault(TyperGroup):
    """A group whose default command may be left out: `attack RELEASE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_WithDefault,
    help="Attack a release before others do; results are internal.",
    no_args_is_help=True,
)
app.command()(traces)


@app.command()
def recovery(
    releases: Annotated[list[Path], typer.Argument(help="Release or stream folders.")],
    events: Annotated[str, typer.Option(help="The events they were made from.")],
    zones: Annotated[Path | None, typer.Option(help="The zones they were made for.")] = None,
    towers: Annotated[Path | None, typer.Option(help="The towers, if events name towers.")] = None,
    tz: Annotated[str | None, typer.Option(help="Zone of naive event times.")] = None,
    column: Columns = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    suppress: Annotated[
        list[int] | None, typer.Option(help="Also attack counts suppressed below k [default 5, 15]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs that break ties differently.")] = 5,
    predict: Annotated[
        bool, typer.Option("--predict/--no-predict", help="By day, expect steps to be repeated.")
    ] = True,
    link: Annotated[str, typer.Option(help="Days are linked to: accumulate, adjacent.")] = (
        "accumulate"
    ),
    solver: Annotated[str, typer.Option(help="auto, people or cells.")] = "auto",
    group: Annotated[
        int, typer.Option(help="Size of the groups of the membership game; 0 leaves it out.")
    ] = 100,
    rounds: Annotated[
        int, typer.Option(min=8, help="Tables published in the membership game, a multiple of 4.")
    ] = 24,
    bound: Annotated[
        str | None, typer.Option(help="The --bound that the releases were made with.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for internal results; default: beside the first.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Recover trajectories from the counts alone, with and without protection."""
    from sfumato.attacks.recovery import Link, Method, Solver, suppressed
    from sfumato.attacks.recovery.study import attack_tables
    from sfumato.attacks.report import as_json as plain
    from sfumato.cli.attack_inputs import load
    from sfumato.cli.attack_output import show, write

    try:
        method = Method(predict=predict, link=Link(link), solver=Solver(solver))
    except ValueError:
        raise UsageError(
            "There is no such way to link days or to solve.",
            remedy="--link accumulate or adjacent; --solver auto, people or cells.",
        ) from None
    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=quiet or as_json) as bar:
        task = bar.add_task("reading", total=1.0)

        def tell(what: str, share: float) -> None:
            if share < 0:
                bar.update(task, description=what, total=None)
            else:
                bar.update(task, description=what, completed=share, total=1.0)

        reading = {"columns": columns_of(column), "time_unit": time_unit, "tz": events_tz or tz}
        people, given, places = load(releases, events, zones, towers, tz, reading, tell)
        counts, below = people.counts, suppress if suppress is not None else [5, 15]
        tables: dict[str, Any] = {UNPROTECTED: counts}
        tables |= {f"suppressed below {k}": suppressed(counts, k) for k in below}
        tables |= {one.label: one.values for one in given}
        study = attack_tables(people, tables, method, seeds=seeds, progress=tell)
        membership, allowed = play_all(
            people,
            given,
            places,
            below,
            group=group,
            rounds=rounds,
            bound=bound,
            tell=tell,
            console=console,
        )
    folder = out or releases[0].absolute().parent / f"internal-{releases[0].absolute().name}"
    written = write(study, membership, allowed, folder, console if not quiet else None)
    if as_json:
        internal.print_json({}, plain(study, membership, allowed))
    elif not quiet:
        show(study, membership, allowed)
        internal.tell([f"do not publish {', '.join(str(path) for path in written)}"])
        typer.echo("On the map: sfumato evaluate with the same --out shows recovered trajectories.")


def play_all(
    people: People,
    given: list[Attackable],
    places: Places,
    below: list[int],
    *,
    group: int,
    rounds: int,
    bound: str | None,
    tell: Callable[[str, float], None],
    console: Console,
) -> tuple[dict[str, Membership], dict[str, float]]:
    """The membership game on true and suppressed counts and on each release's scheme.

    Also what each guarantee allows at most, where it is about somebody's whole record.
    """
    from sfumato.attacks.membership import Game, allowed, play, publish_counts
    from sfumato.release_request import parse_bound

    size = min(group, len(people.cells) // 2)
    if size < 2:
        return {}, {}
    game, cells = Game(group=size, rounds=rounds), people.ground.cells
    ways = {UNPROTECTED: publish_counts(cells)}
    ways |= {f"suppressed below {k}": publish_counts(cells, partial(_below, k)) for k in below}
    limits = None if bound is None else parse_bound(bound)
    ways |= {one.label: one.like(places, size, limits) for one in given}
    found = {}
    for name, publish in ways.items():
        try:
            found[name] = play(people.cells, game, publish, partial(tell, f"{name}: membership"))
        except InputError as error:  # a scheme that cannot publish so few people
            console.print(f"internal: {name}: no membership game. {error.problem}", highlight=False)
    return found, {one.label: allowed(one.epsilon, one.delta) for one in given if one.whole_record}


def _below(k: int, counts: NDArray[np.int64], _rng: np.random.Generator) -> NDArray[np.float64]:
    import numpy as np

    from sfumato.attacks.recovery import suppressed

    return suppressed(counts, k).astype(np.float64)
