"""A study: several tables of the same people attacked in the same way, with spread and chance.

INTERNAL: every number here compares with the truth. `attack_table` runs the attack with several
seeds (ties are broken by lot) and scores the baselines on the same table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.attack import Method, recover
from sfumato.attacks.recovery.baselines import (
    ASSIGNMENT_LIMIT,
    accuracy,
    greedy_pairing,
    score_baselines,
    uniqueness,
)
from sfumato.attacks.recovery.linking import Identified, identify
from sfumato.attacks.trajectories import People

Progress = Callable[[str, float], None]
Rows = NDArray[np.int32]
_SHOWN = 24
"""Trajectories kept for the map of the internal page."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and range over tie-breaking seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Of the seeds that have a value."""
        values = [value for value in values if not math.isnan(value)] or [float("nan")]
        low, high = float(np.min(values)), float(np.max(values))
        # The mean of equal numbers may be a rounding error beside them.
        return cls(float(np.clip(np.mean(values), low, high)), low, high)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the attack made of one table."""

    name: str
    people: int
    """How many the attack recovered."""
    scores: Mapping[str, Spread]
    baselines: Mapping[str, Mapping[str, float]]
    by_slot: NDArray[np.float64]
    others: NDArray[np.float64]
    """By slot, greedy accuracy of the baseline that knows all others."""
    uniqueness: NDArray[np.float64]
    identified: Identified | None
    gap: float
    shown: tuple[Rows, Rows]
    """Some people's true and recovered trajectories, for the holder's map."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The outcomes side by side. Internal."""

    people: int
    slots: int
    cells: int
    filled: float
    seeds: int
    method: Method
    uniqueness: NDArray[np.float64]
    outcomes: tuple[Outcome, ...]
    internal: bool = field(default=True, init=False)


def attack_tables(
    people: People,
    tables: Mapping[str, NDArray[np.float64] | NDArray[np.int64]],
    method: Method | None = None,
    *,
    seeds: int = 5,
    assignment_limit: int = ASSIGNMENT_LIMIT,
    progress: Progress | None = None,
) -> Study:
    """Attack every table; names are kept in order. What is the same table has the same outcome."""
    how = method or Method()
    outcomes: list[Outcome] = []
    for k, (name, table) in enumerate(tables.items()):
        same = next(n for n, other in enumerate(tables.values()) if np.array_equal(other, table))
        if same < k:
            outcomes.append(replace(outcomes[same], name=name))
            continue

        def tell(share: float, k: int = k, name: str = name) -> None:
            if progress is not None:
                progress(name, (k + share) / len(tables))

        outcomes.append(
            attack_table(
                name, people, table, how, seeds=seeds, limit=assignment_limit, progress=tell
            )
        )
    count, slots = people.cells.shape
    return Study(
        count,
        slots,
        people.ground.cells,
        people.filled,
        seeds,
        how,
        uniqueness(people.cells),
        tuple(outcomes),
    )


def attack_table(
    name: str,
    people: People,
    table: NDArray[np.float64] | NDArray[np.int64],
    method: Method,
    *,
    seeds: int = 5,
    limit: int = ASSIGNMENT_LIMIT,
    first: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Outcome:
    """Recover with each seed from `first` on, score, and put the baselines beside."""
    truth, ground, clock = people.cells, people.ground, people.clock
    recovered: Rows = np.empty((0, truth.shape[1]), np.int32)
    scores, by_slot, gap = [], [], 0.0
    for seed in range(seeds):

        def tell(share: float, seed: int = seed) -> None:
            if progress is not None:
                progress((seed + share) / seeds)

        got = recover(table, ground, clock, method, seed=first + seed, progress=tell)
        recovered, gap = got.cells, max(gap, got.gap)
        # Seeds differ by thousandths, and an assignment of thousands takes longer than the attack.
        most = limit if seed == 0 else 0
        score = accuracy(truth, recovered, ground, clock, assignment_limit=most)
        scores.append(score.as_dict())
        by_slot.append(score.by_slot)
    rng = np.random.default_rng([0xBA5E, first])
    partner = greedy_pairing(truth, recovered, ground.cells)
    shown = np.sort(rng.choice(len(truth), size=min(_SHOWN, len(truth)), replace=False))
    paired = np.where((partner[shown] >= 0)[:, None], recovered[partner[shown]], -1)
    points = min(4, truth.shape[1] - 1)
    guessing, others = score_baselines(people, table, method, first)
    return Outcome(
        name,
        len(recovered),
        {key: Spread.of([score[key] for score in scores]) for key in scores[0]},
        guessing,
        np.mean(by_slot, axis=0),
        others,
        uniqueness(recovered),
        identify(truth, recovered, rng, points=points) if points else None,
        gap,
        (truth[shown], paired.astype(np.int32)),
    )
