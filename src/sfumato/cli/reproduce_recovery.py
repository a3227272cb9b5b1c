"""`sfumato reproduce recovery`: Figures 5 and 6 of Chen et al., ours beside the paper's.

Internal by nature, though the crowd is synthetic: every figure compares with the truth. The
crowd was fitted on seed 1; figures are of other seeds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar

from sfumato.model.errors import UsageError

if TYPE_CHECKING:
    from sfumato.attacks.studies.figures import Size, Tell

PARTS = (
    "crowd",
    "taxis",
    "protected",
    "readings",
    "schemes",
    "whole-map",
    "left-out",
    "left-out-whole-map",
    "noise",
    "suppression",
    "membership",
)
FIRST = 401
"""Seed of the first crowd that figures are reported for."""


def recovery(
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")],
    cabspotting: Annotated[
        Path | None, typer.Option(help="Cabspotting as one Parquet file.")
    ] = None,
    tdrive: Annotated[Path | None, typer.Option(help="T-Drive: the folder of text files.")] = None,
    people: Annotated[int, typer.Option(help="People of a crowd.")] = 1_000,
    crowds: Annotated[int, typer.Option(help="Crowds to average over.")] = 3,
    seeds: Annotated[int, typer.Option(help="Tie-breaking seeds and draws of noise a crowd.")] = 4,
    first: Annotated[int, typer.Option(help="Seed of the first crowd.")] = FIRST,
    epsilon: Annotated[list[float] | None, typer.Option(help="Default 0.1, 0.3, 1.")] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(help="Schemes to attack; default: all, and both default streams."),
    ] = None,
    part: Annotated[list[str] | None, typer.Option(help=f"Only {', '.join(PARTS)}.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Trajectories recovered from counts: by number of points, and after each scheme."""
    from sfumato.attacks.studies.figures import Size
    from sfumato.attacks.studies.page import as_markdown
    from sfumato.attacks.studies.schemes import DENSITY, STREAMS
    from sfumato.density.registry import scheme_named

    if people < 4 or crowds < 1 or seeds < 1:
        raise UsageError("A study needs four people, a crowd and a seed.")
    parts = part or list(PARTS)
    if not set(parts) <= set(PARTS):
        raise UsageError("There is no such part.", remedy=f"Choose from {', '.join(PARTS)}.")
    names = scheme if scheme is not None else [*DENSITY, *STREAMS]
    for name in names:
        if name not in STREAMS:
            scheme_named(name)
    out.mkdir(parents=True, exist_ok=True)
    fleets = {"cabspotting": cabspotting, "tdrive": tdrive}
    size = Size(people, crowds, seeds, first)
    found: dict[str, Any] = {"size": asdict(size), "cpu_s": {}}
    with Bar(console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task("crowd", total=1.0)

        def tell(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        for key, run in works(size, fleets, names, epsilon or [0.1, 0.3, 1.0], out, tell).items():
            if key in parts or (key in fleets and "taxis" in parts):
                tell(key, 0.0)
                start = time.process_time()
                found[key] = run()
                found["cpu_s"][key] = round(time.process_time() - start, 1)
    text = json.dumps(found, indent=2, ensure_ascii=False)
    (out / "recovery.internal.json").write_text(f"{text}\n", "utf-8")
    page = as_markdown(found)
    (out / "recovery.internal.md").write_text(page, "utf-8")
    if not quiet:
        typer.echo(page)


def works(
    size: Size,
    fleets: dict[str, Path | None],
    names: Sequence[str],
    budgets: Sequence[float],
    out: Path,
    tell: Tell,
) -> dict[str, Callable[[], Any]]:
    """The parts by name, to be run in this order; a fleet that is not given is none."""
    from sfumato.attacks.studies import figures, taxis

    facts = {"cabspotting": taxis.CABSPOTTING, "tdrive": taxis.T_DRIVE}

    def fleet(name: str, path: Path) -> Callable[[], Any]:
        picture = out / f"recovery-{name}.png"
        return lambda: figures.taxi_fleet(size, facts[name], path, picture, tell)

    return {
        "crowd": lambda: figures.crowd(size, out, tell),
        **{name: fleet(name, path) for name, path in fleets.items() if path is not None},
        "protected": lambda: figures.printed(size, budgets, out, tell),
        "readings": lambda: figures.figure6(size, budgets, tell),
        "schemes": lambda: figures.schemes(size, names, budgets, figures.SIDE, tell),
        "whole-map": lambda: figures.schemes(size, names, budgets, None, tell),
        "left-out": lambda: figures.without(size, names, budgets, figures.SIDE, tell),
        "left-out-whole-map": lambda: figures.without(size, names, budgets, None, tell),
        "noise": lambda: figures.noise(size, out, tell),
        "suppression": lambda: figures.suppression(size),
        "membership": lambda: membership_tables(size, names, tell),
    }


def membership_tables(size: Size, names: Sequence[str], tell: Tell) -> dict[str, Any]:
    """AUC on true and suppressed counts and after each scheme; and where counts are large."""
    from sfumato.attacks.membership import Game, allowed
    from sfumato.attacks.studies.figures import DELTA, NOISE_SIDE, SIDE
    from sfumato.attacks.studies.schemes import play_schemes

    plan, dense = size.plans(1, NOISE_SIDE)[0], size.plans(20, SIDE)[0]
    told = {
        "sparse": play_schemes(
            plan, 1.0, DELTA, Game(group=size.people // 2), schemes=names,
            progress=lambda share: tell("membership", share),
        ),
        "dense": play_schemes(
            dense, 1.0, DELTA, Game(group=10 * size.people), schemes=[], suppress=(5, 15)
        ),
    }  # fmt: skip
    return {
        key: {
            name: {side: asdict(getattr(made, side)) for side in ("knows", "trained", "blind")}
            | {"allowed": allowed(1.0, DELTA) if name in names else None}
            for name, made in found.items()
        }
        for key, found in told.items()
    }
