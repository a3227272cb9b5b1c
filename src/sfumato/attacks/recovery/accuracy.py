"""How much of the truth a recovery found: every definition in use, by name.

* *greedy* (the code of Xu et al. 2017): people in order each take the unused recovered
  trajectory that agrees in most slots; the mean share of agreeing slots.
* *assignment* (later re-implementations): people and trajectories are paired for the least
  total distance, then the mean share of agreeing slots. Quadratic memory: up to
  `ASSIGNMENT_LIMIT` people, NaN above.
* *best*: every recovered trajectory against the person it agrees with most, none used up. An
  upper bound: one lucky trajectory counts for many.

Greedy and best pairings choose the partner *after* the fact, so they reward chance; a number
means something only beside the same score of a baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.recovery import kernels
from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.ground import Ground

ASSIGNMENT_LIMIT = 3_000
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Accuracy:
    """Shares of 0 to 1; distances in metres."""

    greedy: float
    assignment: float
    best: float
    error_m: float
    """Mean distance per slot between a person and the greedy partner."""
    assignment_error_m: float
    by_slot: NDArray[np.float64]
    """Greedy, slot by slot."""
    night: float
    day: float

    def as_dict(self) -> dict[str, float]:
        names = ("greedy", "assignment", "best", "error_m", "assignment_error_m", "night", "day")
        return {name: float(getattr(self, name)) for name in names}


def greedy_pairing(truth: Rows, found: Rows, cells: int) -> NDArray[np.int64]:
    """Row of `found` for each person, -1 where none was left."""
    return _pair_up(truth, found, cells, remove=True)[0]


def accuracy(
    truth: Rows,
    found: Rows,
    ground: Ground,
    clock: Clock | None = None,
    *,
    assignment_limit: int = ASSIGNMENT_LIMIT,
) -> Accuracy:
    """Score `found` (people in any order and number) against `truth`, both person x slot."""
    partner = greedy_pairing(truth, found, ground.cells)
    paired = np.where((partner >= 0)[:, None], found[partner], -1)
    equal = (paired == truth) & (truth >= 0)
    by_slot = equal.mean(axis=0)
    night = clock.night if clock is not None else np.zeros(truth.shape[1], dtype=bool)
    best = _pair_up(found, truth, ground.cells, remove=False)[1].mean() / truth.shape[1]
    least, least_error = _by_assignment(truth, found, ground, assignment_limit)
    return Accuracy(
        greedy=float(equal.mean()),
        assignment=least,
        best=float(best),
        error_m=_error(truth, paired, ground),
        assignment_error_m=least_error,
        by_slot=by_slot,
        night=float(by_slot[night].mean()) if night.any() else float("nan"),
        day=float(by_slot[~night].mean()) if not night.all() else float("nan"),
    )


def reusing(truth: Rows, found: Rows, ground: Ground) -> float:
    """Greedy without using up: every person against the trajectory that agrees in most slots."""
    return float(_pair_up(truth, found, ground.cells, remove=False)[1].mean() / truth.shape[1])


def uniqueness(rows: Rows, most: int = 5) -> NDArray[np.float64]:
    """Distinct sets of the k most visited cells over people, k = 1 … `most` (Xu et al. 2017)."""
    sets = (np.unique(kernels.top_cells(rows, k), axis=0) for k in range(1, most + 1))
    return np.array([len(each) / len(rows) for each in sets])


def _pair_up(
    rows: Rows, others: Rows, cells: int, *, remove: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    slots = rows.shape[1]
    person, slot = np.nonzero(others >= 0)
    key = slot * np.int64(cells) + others[person, slot]
    order = np.argsort(key, kind="stable")
    starts = np.zeros(slots * cells + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=slots * cells), out=starts[1:])
    return kernels.pair_up(rows, others, person[order], starts, cells, remove)


def _error(truth: Rows, paired: Rows, ground: Ground) -> float:
    lost = np.where(paired < 0, ground.nowhere, paired).astype(np.int64)
    known = truth >= 0
    return float(ground.metres(truth.astype(np.int64), lost)[known].mean())


def _by_assignment(truth: Rows, found: Rows, ground: Ground, limit: int) -> tuple[float, float]:
    if max(len(truth), len(found)) > limit:
        return float("nan"), float("nan")
    total = np.zeros((len(truth), len(found)))
    lost = np.where(found < 0, ground.nowhere, found).astype(np.int64)
    for t in range(truth.shape[1]):
        known = truth[:, t] >= 0
        here, back = np.unique(truth[known, t].astype(np.int64), return_inverse=True)
        there, forth = np.unique(lost[:, t], return_inverse=True)
        total[known] += ground.metres(here[:, None], there[None])[back[:, None], forth[None]]
    i, j = linear_sum_assignment(total)
    partner = np.full(len(truth), -1)
    partner[i] = j
    paired = np.where((partner >= 0)[:, None], found[partner], -1)
    equal = (paired == truth) & (truth >= 0)
    return float(equal.mean()), _error(truth, paired, ground)
