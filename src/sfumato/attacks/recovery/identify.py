"""Phase three: whose trajectory is it? A few known places single a person out.

The adversary knows a few of somebody's slots and cells (a post, a receipt, a glance) and looks
for the recovered trajectory that agrees with most of them. Two figures say what that is worth:
how often one trajectory agrees best (*singled out*), and how many of the person's *other* slots
it then tells (*learned*), beside what the most popular cell of each slot would tell anybody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError

SAMPLE = 1_000


@dataclass(frozen=True, slots=True)
class Identified:
    """Shares of 0 to 1, over `people` sampled persons."""

    points: int
    people: int
    singled_out: float
    learned: float
    chance: float
    """What the most popular cell of each slot tells of the same slots."""


def identify(
    truth: NDArray[np.int32],
    found: NDArray[np.int32],
    rng: np.random.Generator,
    *,
    points: int = 4,
    sample: int = SAMPLE,
) -> Identified:
    """Look sampled people up among the recovered by `points` of their true places."""
    slots = truth.shape[1]
    if not 0 < points < slots:
        raise UsageError(
            "Known places must leave some slots to learn.", remedy=f"Take 1 to {slots - 1} points."
        )
    people = rng.choice(len(truth), size=min(sample, len(truth)), replace=False)
    popular = np.array([_most_common(column) for column in truth.T], dtype=np.int32)
    singled = learned = chance = 0.0
    for person in people:
        known = rng.choice(slots, size=points, replace=False)
        agree = (found[:, known] == truth[person, known]).sum(axis=1)
        best = np.flatnonzero(agree == agree.max())
        other = np.setdiff1d(np.arange(slots), known)
        singled += best.size == 1
        learned += float((found[rng.choice(best), other] == truth[person, other]).mean())
        chance += float((popular[other] == truth[person, other]).mean())
    n = people.size
    return Identified(points, n, singled / n, learned / n, chance / n)


def _most_common(column: NDArray[np.int32]) -> int:
    cells, often = np.unique(column, return_counts=True)
    return int(cells[np.argmax(often)])
