"""Accuracy against the number of points: every reading of the attack, and chance beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.attacks.recovery.accuracy import accuracy
from sfumato.attacks.recovery.beside import beside
from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.days import Solver
from sfumato.attacks.recovery.ground import Ground
from sfumato.attacks.recovery.people import People
from sfumato.attacks.recovery.recover import Method, recover
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


OTHERS = 20_000
"""People of the same town, not in any table, whom the baseline's average map is of."""


def truth_of(plan: crowd.CrowdPlan, others: int = OTHERS) -> People:
    """The first day of a crowd as the attack's truth, and other people of the same town."""
    cell = np.arange(plan.cells)
    centres = np.column_stack([cell % plan.columns, cell // plan.columns]).astype(np.float64)
    clock = Clock.plain(1, plan.slots, plan.first_hour, plan.step_minutes / 60)
    # A person's way depends on the seed and their number alone, so the first stay who they are.
    cells = crowd.generate(replace(plan, people=plan.people + others)).cells[:, 0]
    known, rest = cells[: plan.people].copy(), cells[plan.people :].copy()
    return People(known, Ground(centres * plan.cell_m), clock, others=rest if others else None)


def first_points(people: People, points: int) -> People:
    """The same people, their first `points` slots."""
    rest = None if people.others is None else people.others[:, :points].copy()
    cells = people.cells[:, :points].copy()
    return replace(people, cells=cells, clock=people.clock.first(points), others=rest)


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
            for name, values in beside(people, people.counts, Method(), points)[0].items():
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
