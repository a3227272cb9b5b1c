"""Exact earth mover's distance between two maps, in metres (Rubner et al. 2000).

The cost of moving mass is a metric, so mass that both maps share stays where it is and
only the difference of the two maps has to be transported: the surplus zones on one side
against the short zones on the other, about a quarter of the full problem.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import ot
from numpy.typing import NDArray

from sfumato.model.errors import UsageError


def earth_mover_distance(
    truth: NDArray[np.float64], released: NDArray[np.float64], distances: NDArray[np.float64]
) -> float:
    """Metres that one unit of mass moves on average; NaN where either map is empty.

    Both maps are normalised to one; negative released counts count as zero.
    """
    p = np.asarray(truth, dtype=np.float64)
    q = np.maximum(np.asarray(released, dtype=np.float64), 0.0)
    if p.shape != q.shape or distances.shape != (p.size, p.size):
        raise UsageError("Two maps of the same zones and their distance matrix are needed.")
    if p.sum() <= 0 or q.sum() <= 0:
        return float("nan")
    difference = p / p.sum() - q / q.sum()
    surplus = np.flatnonzero(difference > 0)
    short = np.flatnonzero(difference < 0)
    if surplus.size == 0 or short.size == 0:
        return 0.0
    give, take = difference[surplus], -difference[short]
    moved = give.sum()
    cost = np.ascontiguousarray(distances[np.ix_(surplus, short)])
    # The solver checks that both sides weigh the same to the last bit.
    take = take * (moved / take.sum())
    result, log = ot.emd2(give, take, cost, numItermax=10_000_000, log=True)
    if log["warning"] is not None:
        raise UsageError("The transport problem did not reach its optimum.")
    return float(result)


def earth_mover_series(
    truth: NDArray[np.float64],
    released: NDArray[np.float64],
    distances: NDArray[np.float64],
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float64]:
    """The distance for every slot of two zone x slot tables."""
    slots = truth.shape[1]
    result = np.empty(slots)
    for slot in range(slots):
        result[slot] = earth_mover_distance(truth[:, slot], released[:, slot], distances)
        if progress is not None:
            progress(slot + 1, slots)
    return result
