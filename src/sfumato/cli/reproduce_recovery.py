"""`sfumato reproduce recovery`: Figures 5 and 6 of Chen et al., ours beside the paper's.

Internal by nature, though the crowd is synthetic: every figure compares with the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar

from sfumato.model.errors import UsageError

if TYPE_CHECKING:
    from sfumato.attacks.studies.points import Point

Tell = Callable[[str, float], None]
_SMALL = 30
"""Cells along a side of the map for registered schemes: their algebra is cubic in places."""


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
        list[str] | None, typer.Option(help="Registered schemes to attack as well.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Trajectories recovered from counts: by number of points, and after each scheme."""
    from sfumato.density.registry import scheme_named

    if people < 2 or crowds < 1 or seeds < 1:
        raise UsageError("A study needs two people, a crowd and a seed.")
    names = scheme if scheme is not None else ["gaussian"]
    for name in names:
        scheme_named(name)
    budgets = epsilon or [0.1, 0.3, 1.0]
    out.mkdir(parents=True, exist_ok=True)
    with Bar(console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task("crowd", total=1.0)

        def tell(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        found: dict[str, Any] = {"crowd": crowd_figure(out, people, crowds, seeds, tell)}
        for fleet, path in (("cabspotting", cabspotting), ("tdrive", tdrive)):
            if path is not None:
                found[fleet] = taxi_figure(out, fleet, path, tell)
        found["protected"] = protected_figure(out, people, budgets, seeds, tell)
        found["registered"] = registered_table(people, names, budgets, seeds, tell)
        found["membership"] = membership_table(people, tell)
    (out / "recovery.internal.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
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

    made = [truth_of(CrowdPlan(people=people, days=1, seed=1 + k)) for k in range(crowds)]
    found = score_readings(
        made,
        range(10, 20, 3),
        READINGS,
        seeds=seeds,
        assignment_limit=people,
        progress=lambda share: tell("crowd", share),
    )
    curves = _curves(found)
    curves["paper"] = (list(paper.CROWD), list(paper.CROWD.values()))
    save_curves({"synthetic crowd": curves}, ("points", "accuracy, %"), out / "recovery-crowd.png")
    return [asdict(point) for point in found]


def taxi_figure(out: Path, fleet: str, path: Path, tell: Tell) -> dict[str, Any]:
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
            progress=lambda share, how=how: tell(f"{facts.name}, {how}", share),  # type: ignore[misc]
        )
        found[how] = {hour: [asdict(point) for point in rows] for hour, rows in by_hour.items()}
        for points in (5, 10):
            curves: dict[str, tuple[list[float], list[float]]] = {}
            for hour, rows in by_hour.items():
                for row in rows:
                    if row.points == points:
                        x, y = curves.setdefault(row.reading, ([], []))
                        x.append(hour)
                        y.append(100 * row.greedy)
            panels[f"{how}, {points} points"] = curves
    save_curves(panels, ("starting hour", "accuracy, %"), out / f"recovery-{fleet}.png", facts.name)
    return found


def protected_figure(
    out: Path, people: int, budgets: Sequence[float], seeds: int, tell: Tell
) -> list[dict[str, Any]]:
    """Figure 6a: the four printed schemes, 19 points of the crowd."""
    import numpy as np

    from sfumato.attacks.plot import save_curves
    from sfumato.attacks.recovery import Fill, Method, Solver
    from sfumato.attacks.recovery.study import attack_table
    from sfumato.attacks.recovery.tables import counts_of
    from sfumato.attacks.studies import paper
    from sfumato.attacks.studies.points import truth_of
    from sfumato.attacks.studies.printed import printed_schemes, publish_printed
    from sfumato.city.crowd import CrowdPlan, generate

    plan = CrowdPlan(people=people, days=8)
    days = generate(plan).cells
    past = np.stack([counts_of(days[:, day], plan.cells).T for day in range(7)])
    truth = replace(truth_of(CrowdPlan(people=people, days=1)), cells=days[:, 7])
    method = Method(solver=Solver.CELLS, fill=Fill.SCALE, people=people)
    rows: list[dict[str, Any]] = []
    schemes = printed_schemes(past)
    for k, (name, scheme) in enumerate(schemes.items()):
        for budget in budgets:
            runs = []
            for seed in range(seeds):
                table = publish_printed(scheme, truth.counts, budget, seed)
                runs.append(attack_table(name, truth, table, method, seeds=1, limit=0))
            rows.append(_protected(name, budget, runs))
        tell("printed schemes", (k + 1) / len(schemes))
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for row in rows:
        x, y = curves.setdefault(row["scheme"], ([], []))
        x.append(row["epsilon"])
        y.append(100 * row["greedy"])
    for level in paper.PROTECTED:
        curves[f"paper, {level:g} %"] = ([min(budgets), max(budgets)], [level, level])
    save_curves({"after protection": curves}, ("ε", "accuracy, %"), out / "recovery-protected.png")
    return rows


def registered_table(
    people: int, names: Sequence[str], budgets: Sequence[float], seeds: int, tell: Tell
) -> list[dict[str, Any]]:
    """Whatever schemes are registered, on a map of 30 x 30 cells."""
    from sfumato.attacks.recovery import Method, Solver
    from sfumato.attacks.recovery.study import attack_table
    from sfumato.attacks.studies.points import truth_of
    from sfumato.attacks.studies.registered import Stage
    from sfumato.city.crowd import CrowdPlan

    plan = CrowdPlan(people=people, days=1, columns=_SMALL, rows=_SMALL)
    truth, stage = truth_of(plan), Stage(plan)
    method = Method(solver=Solver.CELLS, people=people)
    runs = [attack_table("no protection", truth, truth.counts, method, seeds=seeds, limit=0)]
    rows = [_protected("no protection", None, runs)]
    for k, name in enumerate(names):
        for budget in budgets:
            runs = []
            for seed in range(seeds):
                table = stage.published(name, truth.cells, budget, 0.01 / people, seed)
                runs.append(attack_table(name, truth, table, method, seeds=1, limit=0))
            rows.append(_protected(name, budget, runs))
        tell("registered schemes", (k + 1) / len(names))
    return rows


def membership_table(people: int, tell: Tell) -> dict[str, Any]:
    """AUC on true, suppressed and noisy counts of groups of the crowd."""
    import math

    import numpy as np

    from sfumato.attacks.membership import Game, play, publish_as_is
    from sfumato.attacks.recovery.tables import suppressed
    from sfumato.attacks.studies.points import truth_of
    from sfumato.city.crowd import CrowdPlan

    plan = CrowdPlan(people=people, days=1, columns=_SMALL, rows=_SMALL)
    truth = truth_of(plan)
    scale = plan.slots / 1.0
    sigma = math.sqrt(plan.slots) * 4.22468  # exact Gaussian, epsilon 1, delta 1e-6
    ways: dict[str, Any] = {
        "no protection": publish_as_is,
        "suppressed below 5": lambda counts, _: suppressed(counts, 5).astype(np.float64),
        "Laplace, ε 1": lambda counts, rng: counts + rng.laplace(0, scale, counts.shape),
        "Gaussian, ε 1": lambda counts, rng: counts + rng.normal(0, sigma, counts.shape),
    }
    game = Game(group=min(500, people - 1))
    found = {}
    for k, (name, publish) in enumerate(ways.items()):
        made = play(truth.cells, plan.cells, game, publish)
        found[name] = {"knows": asdict(made.knows), "trained": asdict(made.trained)}
        tell("membership", (k + 1) / len(ways))
    return found


def as_markdown(found: dict[str, Any]) -> str:
    """The study as text: the paper's figures beside ours."""
    from sfumato.attacks.report import WORDS, table
    from sfumato.attacks.studies import paper

    def percent(value: float) -> str:
        return f"{100 * value:.1f} %"

    lines = ["# Trajectories recovered from counts", "", "INTERNAL.", "", "## The crowd", ""]
    lengths = sorted({row["points"] for row in found["crowd"]})
    readings = list(dict.fromkeys(row["reading"] for row in found["crowd"]))
    by_key = {(row["reading"], row["points"]): row for row in found["crowd"]}
    body = [[name, *(percent(by_key[name, n]["greedy"]) for n in lengths)] for name in readings]
    body.append(["paper", *(f"{paper.CROWD[n]} %" if n in paper.CROWD else "" for n in lengths)])
    lines += [*table(["greedy accuracy", *(f"{n} points" for n in lengths)], body), ""]
    for fleet in ("cabspotting", "tdrive"):
        for how, hours in found.get(fleet, {}).items():
            lines += [f"## {fleet}, {how}", "", *_taxi_lines(hours), ""]
    for title, key in (("Printed schemes, 19 points", "protected"), ("Schemes", "registered")):
        head = ["scheme", "ε", "greedy", "random", "stays", "knows nothing", "learned"]
        body = [
            [row["scheme"], str(row["epsilon"] or ""), *(percent(row[k]) for k in _SHOWN)]
            for row in found[key]
        ]
        lines += [f"## {title}", "", *table(head, body), ""]
    body = [
        [name, *(f"{a['value']:.2f} ({a['low']:.2f}–{a['high']:.2f})" for a in found_.values())]
        for name, found_ in found["membership"].items()
    ]
    lines += ["## Membership", "", *table(["counts", "knows", "trained"], body), ""]
    return "\n".join([*lines, *(f"- {words}" for words in WORDS), ""])


_SHOWN = ("greedy", "random", "stay", "average", "learned")


def _taxi_lines(hours: dict[int, list[dict[str, Any]]]) -> list[str]:
    """Range over starting hours for each reading and length."""
    from sfumato.attacks.report import table
    from sfumato.attacks.studies import paper

    rows: dict[tuple[str, int], list[float]] = {}
    for points in hours.values():
        for row in points:
            rows.setdefault((row["reading"], row["points"]), []).append(100 * row["greedy"])
    body = [
        [name, str(n), f"{sum(v) / len(v):.1f} %", f"{min(v):.1f}–{max(v):.1f} %", str(len(v)),
         f"{paper.TAXIS[n]} %"]
        for (name, n), v in sorted(rows.items(), key=lambda item: item[0][1])
    ]  # fmt: skip
    return table(["greedy accuracy", "points", "mean", "range", "hours", "paper"], body)


def _curves(found: Sequence[Point]) -> dict[str, tuple[list[float], list[float]]]:
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for point in found:
        x, y = curves.setdefault(point.reading, ([], []))
        x.append(point.points)
        y.append(100 * point.greedy)
    return curves


def _protected(name: str, epsilon: float | None, runs: list[Any]) -> dict[str, Any]:
    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    return {
        "scheme": name,
        "epsilon": epsilon,
        "greedy": mean([run.scores["greedy"].mean for run in runs]),
        **{
            key: mean([run.baselines[key]["greedy"] for run in runs])
            for key in ("random", "stay", "average")
        },
        "learned": mean([run.identified.learned for run in runs]),
    }
