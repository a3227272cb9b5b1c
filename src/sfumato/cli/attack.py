"""`sfumato attack`: what an adversary makes of a release, before one does. INTERNAL.

`sfumato attack RELEASE --events …` is short for `sfumato attack recovery RELEASE --events …`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table as RichTable
from typer.core import TyperGroup

from sfumato.cli.attack_traces import traces
from sfumato.model.errors import UsageError

if TYPE_CHECKING:
    from sfumato.attacks.membership import Membership
    from sfumato.attacks.recovery.study import Study
    from sfumato.report.internal_data import AttackResult

DEFAULT = "recovery"


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
    releases: Annotated[list[Path], typer.Argument(help="Release folders of the same period.")],
    events: Annotated[str, typer.Option(help="The events they were made from.")],
    zones: Annotated[Path | None, typer.Option(help="The zones they were made for.")] = None,
    towers: Annotated[Path | None, typer.Option(help="The towers, if events name towers.")] = None,
    tz: Annotated[str | None, typer.Option(help="Zone of naive event times.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Which column is what: user=imsi, time=ts, place=bs.")
    ] = None,
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
    out: Annotated[
        Path | None, typer.Option(help="Folder for internal results; default: beside the first.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Recover trajectories from the counts alone, with and without protection."""
    from sfumato.attacks.membership import Game, play, publish_as_is
    from sfumato.attacks.recovery import Link, Method, Solver, suppressed
    from sfumato.attacks.recovery.study import attack_tables
    from sfumato.attacks.report import as_json as plain

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

        people, published = _load(releases, events, zones, towers, tz, column, tell)
        counts = people.counts
        tables: dict[str, Any] = {"no protection": counts}
        for k in suppress if suppress is not None else [5, 15]:
            tables[f"suppressed below {k}"] = suppressed(counts, k)
        study = attack_tables(people, tables | published, method, seeds=seeds, progress=tell)
        membership: dict[str, Membership] = {}
        if group:
            game = Game(group=min(group, len(people.cells) - 1))
            membership["no protection"] = play(
                people.cells,
                people.ground.cells,
                game,
                publish_as_is,
                lambda share: tell("membership", share),
            )
    folder = out or releases[0].absolute().parent / f"internal-{releases[0].absolute().name}"
    written = write(study, membership, folder, console if not quiet else None)
    if as_json:
        typer.echo(json.dumps(plain(study, membership), indent=2))
    elif not quiet:
        show(study, membership)
        typer.echo(f"INTERNAL, do not publish: {', '.join(str(path) for path in written)}")


def _columns(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or []]
    if any(not (role and sign and column) for role, sign, column in pairs):
        raise UsageError("A column is named as role=name.", remedy="Write --column user=imsi.")
    return {role: column for role, _, column in pairs}


def _load(
    releases: list[Path],
    events: str,
    zones: Path | None,
    towers: Path | None,
    tz: str | None,
    column: list[str] | None,
    tell: Any,
) -> tuple[Any, dict[str, Any]]:
    """The truth as trajectories in the releases' places, and the released tables by name."""
    import numpy as np

    from sfumato.attacks.recovery import Clock, Ground
    from sfumato.attacks.recovery.study import People
    from sfumato.attacks.truth import trajectories
    from sfumato.geography.distances import centres
    from sfumato.geography.overlay import overlay
    from sfumato.geography.voronoi import voronoi_cells
    from sfumato.holder import read_published
    from sfumato.io.events import read_events
    from sfumato.io.towers import read_towers
    from sfumato.io.zones import read_zones

    if zones is None and towers is None:
        raise UsageError("Where the places are is missing.", remedy="Give --zones or --towers.")
    published = [read_published(folder) for folder in releases]
    grid = published[0].grid
    areas = None if zones is None else read_zones(zones)
    sites = None if towers is None else read_towers(towers, zones=areas, tz=tz)
    counted = sites if sites is not None else areas
    released = areas if areas is not None else sites
    assert counted is not None
    assert released is not None
    shares = None
    if sites is not None and areas is not None:
        shares = overlay(voronoi_cells(sites, areas, period=grid), areas)
    for one in published:
        same = np.array_equal(one.ids, released.ids) and np.array_equal(one.grid.edges, grid.edges)
        if not same:
            raise UsageError(
                "The releases are not about these places, or not about one period.",
                remedy="Give the places they were made with, and releases of one period.",
            )
    described = read_events(events, columns=_columns(column), tz=tz or grid.tz)
    tell("reading events", -1.0)
    truth = trajectories(described, counted, grid, zones=shares)
    people = People(truth.cells, Ground(centres(released)), Clock.of(grid), truth.filled)
    return people, {one.label: one.values for one in published}


def write(
    study: Study, membership: dict[str, Membership], folder: Path, console: Console | None
) -> list[Path]:
    """JSON, text and picture, each marked as internal in its name."""
    from sfumato.attacks.plot import save_study
    from sfumato.attacks.report import as_json, as_markdown
    from sfumato.io.writers import write_atomically, write_bytes
    from sfumato.report.internal_data import PANEL

    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"internal-attack.{ending}" for ending in ("json", "md", "png")]
    text = json.dumps(as_json(study, membership), indent=2, ensure_ascii=False)
    write_bytes(written[0], f"{text}\n".encode(), mode=0o600)
    write_bytes(written[1], as_markdown(study, membership).encode(), mode=0o600)
    shown = json.dumps([asdict(one) for one in panel(study, membership)], ensure_ascii=False)
    write_bytes(folder / PANEL, f"{shown}\n".encode(), mode=0o600)
    try:
        write_atomically(written[2], lambda path: save_study(study, path))
    except UsageError as error:  # the picture is optional, the numbers are not
        if console is not None:
            console.print(f"no picture: {error.problem}", highlight=False)
        written.pop()
    return written


def show(study: Study, membership: dict[str, Membership]) -> None:
    """The study as tables, and what it means."""
    from sfumato.attacks.report import WORDS, header, membership_rows, rows

    console = Console()
    console.print(_rich("INTERNAL: trajectories recovered from counts", header(), rows(study)))
    if membership:
        head, body = membership_rows(membership)
        console.print(_rich("INTERNAL: was somebody counted?", head, body))
    for words in WORDS:
        console.print(f"- {words}", highlight=False)


def _rich(title: str, head: list[str], body: list[list[str]]) -> RichTable:
    table = RichTable(title=title)
    for k, name in enumerate(head):
        table.add_column(name, justify="left" if k == 0 else "right")
    for row in body:
        table.add_row(*row)
    return table


def panel(study: Study, membership: dict[str, Membership]) -> tuple[AttackResult, ...]:
    """The study for the attack panel of the internal page."""
    from sfumato.report.internal_data import AttackResult

    found = [
        AttackResult(
            attack="trajectory recovery",
            contender=one.name,
            measure="greedy accuracy",
            reached=one.scores["greedy"].mean,
            guessing=one.baselines["average"]["greedy"],
            note=f"everybody stays: {one.baselines['stay']['greedy']:.3f}; "
            f"linked by lot: {one.baselines['random']['greedy']:.3f}",
        )
        for one in study.outcomes
    ]
    found += [
        AttackResult(
            attack="membership",
            contender=name,
            measure="AUC",
            reached=one.worst.value,
            guessing=0.5,
            note=f"groups of {one.game.group}; {one.worst.low:.2f} to {one.worst.high:.2f}",
        )
        for name, one in membership.items()
    ]
    return tuple(found)
