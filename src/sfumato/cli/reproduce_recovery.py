"""`sfumato reproduce recovery`: Figures 5 and 6 of Chen et al., ours beside the paper's.

Internal by nature, though the crowd is synthetic: every figure compares with the truth. The
crowd was fitted on seed 1; figures are of other seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar

from sfumato.model.errors import UsageError

if TYPE_CHECKING:
    from sfumato.attacks.studies.points import Point

Tell = Callable[[str, float], None]
Curves = dict[str, tuple[list[float], list[float]]]
PARTS = (
    "crowd",
    "taxis",
    "protected",
    "readings",
    "schemes",
    "stream",
    "noise",
    "suppression",
    "membership",
)
SEED = 101
"""First of the crowds that figures are reported for."""
_SIDE = 30
"""Cells along a side of the map for registered schemes: their algebra is cubic in places."""
_GAME_SIDE = 20
_NOISE = (30.0, 10.0, 3.0, 1.0, 0.1)
DELTA = 1e-6


def recovery(
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")],
    cabspotting: Annotated[
        Path | None, typer.Option(help="Cabspotting as one Parquet file.")
    ] = None,
    tdrive: Annotated[Path | None, typer.Option(help="T-Drive: the folder of text files.")] = None,
    people: Annotated[int, typer.Option(help="People of the crowd.")] = 1_000,
    crowds: Annotated[int, typer.Option(help="Crowds to average over.")] = 3,
    seeds: Annotated[int, typer.Option(help="Tie-breaking seeds and draws of noise.")] = 3,
    epsilon: Annotated[list[float] | None, typer.Option(help="Default 0.1, 0.3, 1.")] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(help="Schemes to attack; default: all, and both default streams."),
    ] = None,
    part: Annotated[list[str] | None, typer.Option(help=f"Only {', '.join(PARTS)}.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Trajectories recovered from counts: by number of points, and after each scheme."""
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
    budgets = epsilon or [0.1, 0.3, 1.0]
    out.mkdir(parents=True, exist_ok=True)
    with Bar(console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task("crowd", total=1.0)

        def tell(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        found: dict[str, Any] = {}
        if "crowd" in parts:
            found["crowd"] = crowd_figure(out, people, crowds, seeds, tell)
        for fleet, path in (("cabspotting", cabspotting), ("tdrive", tdrive)):
            if path is not None and "taxis" in parts:
                found[fleet] = taxi_figure(out, fleet, path, seeds, tell)
        if "protected" in parts:
            found["protected"] = printed_figure(out, people, budgets, seeds, tell)
        if "readings" in parts:
            found["readings"] = readings_table(people, budgets, seeds, tell)
        found |= scheme_tables(parts, out, people, names, budgets, seeds, tell)
        if "membership" in parts:
            found |= membership_tables(people, names, tell)
    text = json.dumps(found, indent=2, ensure_ascii=False)
    (out / "recovery.internal.json").write_text(f"{text}\n", "utf-8")
    page = as_markdown(found)
    (out / "recovery.internal.md").write_text(page, "utf-8")
    if not quiet:
        typer.echo(page)


def crowd_figure(
    out: Path, people: int, crowds: int, seeds: int, tell: Tell
) -> list[dict[str, Any]]:
    """Figure 5a: accuracy against the number of points."""
    from sfumato.attacks.plot import save_curves
    from sfumato.attacks.studies import paper
    from sfumato.attacks.studies.points import READINGS, score_readings, truth_of
    from sfumato.city.crowd import CrowdPlan

    made = [truth_of(CrowdPlan(people=people, days=1, seed=SEED + k)) for k in range(crowds)]
    found = score_readings(
        made,
        range(10, 20, 3),
        READINGS,
        seeds=seeds,
        progress=lambda share: tell("crowd", share),
    )
    curves = _curves(found)
    curves["paper"] = ([float(n) for n in paper.CROWD], list(paper.CROWD.values()))
    save_curves({"synthetic crowd": curves}, ("points", "accuracy, %"), out / "recovery-crowd.png")
    return [asdict(point) for point in found]


def taxi_figure(out: Path, fleet: str, path: Path, seeds: int, tell: Tell) -> dict[str, Any]:
    """Figure 5b at every starting hour, for taxis seen in every slot and taxis held in place."""
    from sfumato.attacks.plot import save_curves
    from sfumato.attacks.studies import taxis
    from sfumato.attacks.studies.points import READINGS

    facts = taxis.CABSPOTTING if fleet == "cabspotting" else taxis.T_DRIVE
    cells, ground = taxis.read_fleet(facts, path)
    readings = {name: READINGS[name] for name in ("prediction by day", "distance alone")}
    found: dict[str, Any] = {}
    panels = {}
    for how, held in (("seen", False), ("held", True)):
        by_hour = taxis.taxi_study(
            cells,
            ground,
            readings,
            held=held,
            seeds=seeds,
            progress=lambda share, how=how: tell(f"{facts.name}, {how}", share),  # type: ignore[misc]
        )
        found[how] = {hour: [asdict(point) for point in rows] for hour, rows in by_hour.items()}
        for points in (5, 10):
            curves: Curves = {}
            for hour, rows in by_hour.items():
                for row in rows:
                    if row.points == points:
                        _add(curves, _named(row.reading), hour, row.greedy)
            panels[f"{how}, {points} points"] = curves
    save_curves(panels, ("starting hour", "accuracy, %"), out / f"recovery-{fleet}.png", facts.name)
    return found


def printed_figure(
    out: Path, people: int, budgets: Sequence[float], seeds: int, tell: Tell
) -> list[dict[str, Any]]:
    """Figure 6a: the four printed schemes, 19 points of the crowd."""
    from sfumato.attacks.plot import save_curves
    from sfumato.attacks.studies import paper
    from sfumato.attacks.studies.figure6 import with_past
    from sfumato.attacks.studies.printed import printed_schemes, publish_printed
    from sfumato.attacks.studies.schemes import Protected, attacked
    from sfumato.city.crowd import CrowdPlan

    truth, past = with_past(CrowdPlan(people=people, days=1, seed=SEED))
    rows: list[Protected] = []
    curves: Curves = {}
    schemes = printed_schemes(past)
    for k, (name, scheme) in enumerate(schemes.items()):
        for budget in budgets:
            runs = [
                attacked(name, truth, publish_printed(scheme, truth.counts, budget, seed))
                for seed in range(seeds)
            ]
            rows.append(Protected.of(name, budget, runs))
            _add(curves, name, budget, rows[-1].greedy)
        tell("printed schemes", (k + 1) / len(schemes))
    for level in paper.PROTECTED:
        curves[f"paper, {level:g} %"] = ([min(budgets), max(budgets)], [level, level])
    save_curves({"after protection": curves}, ("ε", "accuracy, %"), out / "recovery-protected.png")
    return [asdict(row) for row in rows]


def readings_table(
    people: int, budgets: Sequence[float], seeds: int, tell: Tell
) -> list[dict[str, Any]]:
    """Why Figure 6 is not reproduced: what its text leaves open."""
    from sfumato.attacks.studies.figure6 import readings
    from sfumato.city.crowd import CrowdPlan

    plan = CrowdPlan(people=people, days=1, seed=SEED)
    ends = sorted({min(budgets), max(budgets)})
    found = readings(plan, ends, seeds, progress=lambda share: tell("readings", share))
    return [asdict(row) for row in found]


def scheme_tables(
    parts: Sequence[str],
    out: Path,
    people: int,
    names: Sequence[str],
    budgets: Sequence[float],
    seeds: int,
    tell: Tell,
) -> dict[str, Any]:
    """Schemes of this package, streams on the whole map, noise alone, and suppression."""
    from sfumato.attacks.plot import save_curves
    from sfumato.attacks.studies.schemes import STREAMS, Attacked
    from sfumato.city.crowd import CrowdPlan

    def town(size: int, side: int = _SIDE) -> Attacked:
        return Attacked(CrowdPlan(people=size, days=1, columns=side, rows=side, seed=SEED), DELTA)

    found: dict[str, Any] = {}
    if "schemes" in parts:
        small = town(people)
        rows = small.unprotected(seeds=seeds)
        for k, name in enumerate(names):
            rows += [small.accuracy(name, budget, range(seeds)) for budget in budgets]
            tell("schemes", (k + 1) / len(names))
        found["schemes"] = [asdict(row) for row in rows]
    if "stream" in parts:
        tell("stream", 0.0)
        whole = Attacked(CrowdPlan(people=people, days=1, seed=SEED), DELTA)
        rows = whole.unprotected(seeds=seeds)
        for name in STREAMS:
            rows += [whole.accuracy(name, budget, range(max(10, seeds))) for budget in budgets]
        found["stream"] = [asdict(row) for row in rows]
    if "noise" in parts:
        small, rows = town(max(4, people * 2 // 5), _GAME_SIDE), []
        curves: Curves = {}
        for k, budget in enumerate(_NOISE):
            rows.append(small.accuracy("gaussian", budget, range(max(10, seeds))))
            _add(curves, "attack", budget, rows[-1].greedy)
            _add(curves, "knows nothing", budget, rows[-1].average)
            tell("noise", (k + 1) / len(_NOISE))
        found["noise"] = [asdict(row) for row in rows]
        save_curves(
            {"gaussian": curves}, ("ε", "accuracy, %"), out / "recovery-noise.png", log=True
        )
    if "suppression" in parts:
        tell("suppression", 0.0)
        found["suppression"] = [
            asdict(row) for row in town(20 * people).unprotected(suppress=(5, 15), seeds=seeds)
        ]
    return found


def membership_tables(people: int, names: Sequence[str], tell: Tell) -> dict[str, Any]:
    """AUC on true and suppressed counts and after each scheme; and where counts are large."""
    from sfumato.attacks.membership import Game, allowed
    from sfumato.attacks.studies.schemes import play_schemes
    from sfumato.city.crowd import CrowdPlan

    plan = CrowdPlan(people=people, days=1, columns=_GAME_SIDE, rows=_GAME_SIDE, seed=SEED)
    dense = CrowdPlan(people=20 * people, days=1, columns=_SIDE, rows=_SIDE, seed=SEED)
    told = {
        "membership": play_schemes(
            plan, 1.0, DELTA, Game(group=people // 2), schemes=names,
            progress=lambda share: tell("membership", share),
        ),
        "membership, dense": play_schemes(
            dense, 1.0, DELTA, Game(group=10 * people), schemes=[], suppress=(5, 15)
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


def _add(curves: Curves, name: str, x: float, share: float) -> None:
    along, values = curves.setdefault(name, ([], []))
    along.append(x)
    values.append(100 * share)


def _named(reading: str) -> str:
    """Baselines in words."""
    from sfumato.attacks.plot import BASELINES

    name = reading.removeprefix("baseline: ")
    return BASELINES.get(name, name)


def _curves(found: Sequence[Point]) -> Curves:
    curves: Curves = {}
    for point in found:
        _add(curves, _named(point.reading), point.points, point.greedy)
    return curves
