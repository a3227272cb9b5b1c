"""Non-negative whole numbers that keep the noisy total: Algorithm 3 of Chen et al., two ways.

`random_decrements` has the distribution of the printed loop (pick a cell at random, take one
away if there is one, until the negatives' mass is gone) without the loop: unit picks that hit
an empty cell are simply drawn again, so whole batches of picks can be drawn at once. A batch
of r picks over the positive cells is multinomial; picks beyond what a cell holds are the ones
the loop would have rejected, and they are drawn again among the cells that still hold
something. A negative total cannot be kept; it becomes zeros.

`nearest_counts` is the exact answer to the same question: the closest non-negative
histogram with that total (simplex projection), made whole by largest remainders.
Both read noisy numbers and their own coins only: post-processing.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.consistency import project_to_simplex, round_keeping_totals
from sfumato.stream.contract import Values


class Consistency(StrEnum):
    NONE = "none"
    RANDOM = "random"
    NEAREST = "nearest"


def random_decrements(values: Values, rng: np.random.Generator) -> NDArray[np.int64]:
    """Algorithm 3 as printed, in its vectorised form."""
    whole = np.rint(values).astype(np.int64)
    missing = int(-whole[whole < 0].sum())
    whole = np.maximum(whole, 0)
    if missing >= whole.sum():
        return np.zeros_like(whole)
    while missing > 0:
        positive = np.flatnonzero(whole)
        picks = rng.multinomial(missing, np.full(positive.size, 1 / positive.size))
        taken = np.minimum(picks, whole[positive])
        whole[positive] -= taken
        missing -= int(taken.sum())
    return whole


def nearest_counts(values: Values) -> NDArray[np.int64]:
    """The closest non-negative histogram of the same (rounded) total, in whole numbers."""
    total = np.array([max(np.rint(values.sum()), 0.0)])
    return round_keeping_totals(project_to_simplex(values[:, None], total))[:, 0]


def consistent(values: Values, how: Consistency, seed: bytes) -> Values:
    """The values made consistent; `seed` gives the coins of the random form."""
    if how is Consistency.NONE:
        return values
    if how is Consistency.NEAREST:
        return nearest_counts(values).astype(np.float64)
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    return random_decrements(values, rng).astype(np.float64)
