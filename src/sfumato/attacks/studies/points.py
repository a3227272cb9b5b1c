"""Accuracy against the number of points: every reading of the attack, and chance beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.attacks.recovery.accuracy import accuracy
from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.days import Solver
from sfumato.attacks.recovery.ground import Ground
from sfumato.attacks.recovery.recover import Method, recover
from sfumato.attacks.recovery.study import People, baselines
from sfumato.city import crowd

READINGS = {
    "prediction by day": Method(solver=Solver.PEOPLE),
    "prediction by day, stay first": Method(solver=Solver.CELLS),
    "distance alone": Method(predict=False, solver=Solver.PEOPLE),
    "distance alone, stay first": Method(predict=False, solver=Solver.CELLS),
}
"""How the attack can be read; the first is Xu et al. (2017). *Stay first* breaks ties between
equally short plans in favour of people who stay."""


@dataclass(frozen=True, slots=True)
class Point:
    """Shares for one number of points: mean over crowds and seeds, and the range."""

    reading: str
    points: int
    greedy: float
    low: float
    high: float
    assignment: float
    best: float
    error_m: float
    people: int = 0


def truth_of(plan: crowd.CrowdPlan) -> People:
    """The first day of a crowd as the attack's truth."""
    cell = np.arange(plan.cells)
    centres = np.column_stack([cell % plan.columns, cell // plan.columns]).astype(np.float64)
    clock = Clock.plain(1, plan.slots, plan.first_hour, plan.step_minutes / 60)
    return People(crowd.generate(plan).cells[:, 0], Ground(centres * plan.cell_m), clock)


def first_points(people: People, points: int) -> People:
    """The same people, their first `points` slots."""
    return replace(people, cells=people.cells[:, :points].copy(), clock=people.clock.first(points))


def score_readings(
    crowds: Sequence[People],
    lengths: Sequence[int],
    readings: dict[str, Method],
    *,
    seeds: int = 3,
    assignment_limit: int = 0,
    progress: Callable[[float], None] | None = None,
) -> list[Point]:
    """Every reading and baseline at every length, over crowds and tie-breaking seeds."""
    found = []
    for k, points in enumerate(lengths):
        scores: dict[str, list[dict[str, float]]] = {}
        for whole in crowds:
            people = first_points(whole, points)
            for name, method in readings.items():
                for seed in range(seeds):
                    got = recover(people.counts, people.ground, people.clock, method, seed=seed)
                    score = accuracy(
                        people.cells,
                        got.cells,
                        people.ground,
                        people.clock,
                        assignment_limit=assignment_limit,
                    )
                    scores.setdefault(name, []).append(score.as_dict())
            rng = np.random.default_rng(points)
            for name, values in baselines(people, people.counts, Method(), rng)[0].items():
                scores.setdefault(f"baseline: {name}", []).append(values)
        found += [_point(name, points, rows, crowds) for name, rows in scores.items()]
        if progress is not None:
            progress((k + 1) / len(lengths))
    return found


def _point(name: str, points: int, rows: list[dict[str, float]], crowds: Sequence[People]) -> Point:
    def mean(key: str) -> float:
        return float(np.mean([row.get(key, float("nan")) for row in rows]))

    greedy = [row["greedy"] for row in rows]
    return Point(
        name,
        points,
        mean("greedy"),
        min(greedy),
        max(greedy),
        mean("assignment"),
        mean("best"),
        mean("error_m"),
        int(np.mean([len(people.cells) for people in crowds])),
    )
