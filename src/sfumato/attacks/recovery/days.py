"""Phase one: the fragments of a day, by matching each slot with the next (Xu et al. 2017).

By night the cost of a step is its distance. By day it is the distance from where the last step,
taken once more, would lead. A day's first step has no step before it and is judged by distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.assignment import assign_people
from sfumato.attacks.recovery.ground import Cells, Ground
from sfumato.attacks.recovery.transport import deal, transport

PEOPLE_LIMIT = 3_000
"""Up to here the user-level solver is taken where none is asked for."""


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
