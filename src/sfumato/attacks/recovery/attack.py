"""`recover`: trajectories from nothing but counts (Xu et al. 2017), and the fragments of each day.

The adversary sees a table of place x slot and knows where the places are. Output: one
trajectory for each counted person, without names.

Phase one makes the fragments of a day by matching each slot with the next. By night the cost of a
step is its distance. By day it is the distance from where the last step, taken once more, would
lead. A day's first step has no step before it and is judged by distance. (Phases two and three are
in `linking`.)

Two solvers: flows between cells (`transport`), and the user-level one here, one row a person, one
column a place to be filled: a dense linear assignment (Jonker & Volgenant's algorithm as SciPy has
it), cubic in people, for some thousands. It is the oracle that `transport` is checked against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.recovery.linking import Link, link_days
from sfumato.attacks.recovery.transport import deal, network_simplex, transport
from sfumato.attacks.trajectories import Cells, Fill, Ground, whole_people
from sfumato.errors import UsageError
from sfumato.model.time_grid import Clock


def assign_people(
    expected: Cells, demand: Cells, ground: Ground, rng: np.random.Generator
) -> tuple[Cells, float]:
    """The next cell of each person expected at a cell, and the total distance in metres.

    `demand` has one number for each cell and one for nowhere. Rows and columns are shuffled, so
    that ties are broken by lot.
    """
    columns = np.repeat(np.arange(demand.size), demand)
    rng.shuffle(columns)
    rows = rng.permutation(expected.size)
    here, back = np.unique(expected[rows], return_inverse=True)
    there, forth = np.unique(columns, return_inverse=True)
    metres = ground.metres(here[:, None], there[None, :])
    cost = metres[back[:, None], forth[None, :]]
    one, other = linear_sum_assignment(cost)
    moved = np.empty_like(expected)
    moved[rows[one]] = columns[other]
    return moved, float(cost[one, other].sum())


PEOPLE_LIMIT = 200
"""Up to here the user-level solver is taken where none is asked for. Both are exact; for 2,000
people in 40 cells flows between cells take a fifteenth of the time."""


class Solver(StrEnum):
    AUTO = "auto"
    PEOPLE = "people"
    CELLS = "cells"

    def chosen(self, people: int) -> Solver:
        if self is not Solver.AUTO:
            return self
        return Solver.PEOPLE if people <= PEOPLE_LIMIT else Solver.CELLS


@dataclass(frozen=True, slots=True, eq=False)
class Fragments:
    """One day of everybody, and what the matching cost."""

    cells: NDArray[np.int32]
    """Person x slot; the order of people means nothing."""
    metres: NDArray[np.float64]
    """Least total distance of each step."""
    gap: float
    """Largest unproved share of a step's cost; zero for the user-level solver."""


def link_day(
    counts: NDArray[np.int64],
    night: NDArray[np.bool_],
    ground: Ground,
    rng: np.random.Generator,
    *,
    predict: bool = True,
    solver: Solver = Solver.AUTO,
) -> Fragments:
    """Link the slots of one day. `counts` is (cells + 1) x slots, all sums equal."""
    slots = counts.shape[1]
    now = np.repeat(np.arange(counts.shape[0]), counts[:, 0])
    rng.shuffle(now)
    way: list[Cells] = [now]
    metres = np.zeros(slots - 1)
    gap = 0.0
    how = solver.chosen(now.size)
    if how is Solver.CELLS:
        network_simplex()
    for t in range(slots - 1):
        expected = ground.predicted(way[t - 1], now) if predict and t and not night[t] else now
        if how is Solver.PEOPLE:
            now, metres[t] = assign_people(expected, counts[:, t + 1], ground, rng)
        else:
            supply = np.bincount(expected, minlength=counts.shape[0])
            plan = transport(supply, counts[:, t + 1], ground)
            gap = max(gap, abs(plan.gap))
            now, metres[t] = deal(expected, plan, rng), plan.cost
        way.append(now)
    return Fragments(np.stack(way, axis=1).astype(np.int32), metres, gap)


@dataclass(frozen=True, slots=True)
class Method:
    """How the attack is run."""

    predict: bool = True
    """By day, expect the last step to be taken once more."""
    link: Link = Link.ACCUMULATE
    solver: Solver = Solver.AUTO
    fill: Fill = Fill.AUTO
    people: int | None = None
    """How many people the adversary knows there are; `None`: what the table shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Person x slot cells, -1 for nowhere; people in no particular order."""

    cells: NDArray[np.int32]
    metres: float
    """Total distance that the matching within days needed."""
    gap: float
    """Largest share of a step's cost that was not proved necessary."""


def recover(
    table: NDArray[np.float64] | NDArray[np.int64],
    ground: Ground,
    clock: Clock,
    method: Method | None = None,
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Recovered:
    """The attack. `seed` breaks ties: people whom the counts cannot tell apart."""
    how = method or Method()
    if table.shape != (ground.cells, clock.slots):
        raise UsageError("The table, the map and the clock do not belong together.")
    rng = np.random.default_rng([seed, 0x5F])
    counts = whole_people(table, rng, fill=how.fill, people=how.people)
    fragments = []
    for slots in clock.days:
        fragments.append(
            link_day(
                counts[:, slots],
                clock.night[slots],
                ground,
                rng,
                predict=how.predict,
                solver=how.solver,
            )
        )
        if progress is not None:
            progress(int(slots[-1] + 1) / clock.slots)
    cells = link_days([day.cells for day in fragments], how.link)
    cells[cells == ground.nowhere] = -1
    return Recovered(
        cells,
        float(sum(day.metres.sum() for day in fragments)),
        max(day.gap for day in fragments),
    )
