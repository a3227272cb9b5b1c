"""Placing hot spots by popularity: how well a sanitised map chooses them.

As in the study of geo-indistinguishable traces on Geolife (after Oliveira & Viana): take
the k cells with the most reports, k the number of non-empty cells of the clean data, and ask
what share of the *clean* fixes they hold. Many cells tie at small counts; ties are broken at
random, and the spread over the ways to break them is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Score:
    """Share of the clean traffic in the chosen cells, expected over ties, and its extremes."""

    traffic: float
    lowest: float
    highest: float
    cell_overlap: float
    """Share of chosen cells that are among the clean data's k best."""


def top_k_score(clean: Floats, noisy: Floats, k: int | None = None) -> Score:
    """Score of the k cells that rank highest in `noisy`, tested on `clean`."""
    truth, guess = clean.ravel(), noisy.ravel()
    if truth.size != guess.size or not truth.sum() > 0:
        raise UsageError("Both maps have the same cells, and the clean one is not empty.")
    most = int((truth > 0).sum()) if k is None else k
    if not 1 <= most <= truth.size:
        raise UsageError("The number of hot spots lies between one and the number of cells.")
    level = np.partition(guess, -most)[-most]
    sure, tied = guess > level, np.flatnonzero(guess == level)
    free = most - int(sure.sum())
    base = float(truth[sure].sum())
    among = np.sort(truth[tied])
    total = float(truth.sum())
    best = np.partition(truth, -most)[-most]
    good = truth >= max(best, 1e-300)
    overlap = (float(good[sure].sum()) + free * float(good[tied].mean())) / most
    return Score(
        (base + free * float(among.mean())) / total,
        (base + float(among[:free].sum())) / total,
        (base + float(among[among.size - free :].sum())) / total,
        overlap,
    )


def greedy_cover(cell: Ints, user: Ints, k: int) -> tuple[Ints, Ints]:
    """k cells that reach many different users: lazy greedy, within 1 - 1/e of the best.

    Returns the cells in order of choice and the number of users reached after each.
    """
    keep = cell >= 0
    pairs = np.unique(np.column_stack((cell[keep], user[keep])), axis=0)
    if k < 1 or pairs.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    cells, first = np.unique(pairs[:, 0], return_index=True)
    visitors = np.split(pairs[:, 1], first[1:])
    reached = np.zeros(int(pairs[:, 1].max()) + 1, np.bool_)
    # A gain only shrinks, so an old one that still leads after a look is the best.
    heap = [(-v.size, i) for i, v in enumerate(visitors)]
    heapify(heap)
    chosen: list[int] = []
    covered: list[int] = []
    while heap and len(chosen) < k:
        _, i = heappop(heap)
        gain = int((~reached[visitors[i]]).sum())
        if heap and gain < -heap[0][0]:
            heappush(heap, (-gain, i))
            continue
        reached[visitors[i]] = True
        chosen.append(int(cells[i]))
        covered.append(int(reached.sum()))
    return np.array(chosen, np.int64), np.array(covered, np.int64)
