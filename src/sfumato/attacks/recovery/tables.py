"""From any table of counts to whole people: the stated rule for what noise and rounding did.

The attack of Xu et al. (2017) needs every slot to hold the same whole number of people. A
published table may not: totals move, counts are negative or fractional, small ones are missing.

* *nowhere*: counts are rounded to whole numbers (halves up) and negative ones are zero. The
  fullest slot sets the number of people; in other slots the missing ones are nowhere. This
  keeps exact and suppressed counts as they are.
* *scale*: the number of people is the median of the slots' own sums (noise of both signs
  cancels there, and would not after clipping). Negative counts become zero, each slot is scaled
  to that number and rounded by largest remainder, ties by lot. A slot without a positive
  count repeats the one before it, the first is then spread evenly.

*auto* takes *nowhere* for whole non-negative tables and *scale* for all others.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError

MAX_PEOPLE = 2_000_000
_WHOLE = 1e-9


class Fill(StrEnum):
    AUTO = "auto"
    NOWHERE = "nowhere"
    SCALE = "scale"


def whole_people(
    table: NDArray[np.float64] | NDArray[np.int64],
    rng: np.random.Generator,
    *,
    fill: Fill = Fill.AUTO,
    people: int | None = None,
) -> NDArray[np.int64]:
    """(places + 1) x slots, every column with the same sum; the last row is nowhere.

    `people` sets the number where the adversary knows it.
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise UsageError("A table of finite numbers, place x slot, is needed.")
    if fill is Fill.AUTO:
        whole = bool((values >= 0).all() and (np.abs(values - np.rint(values)) < _WHOLE).all())
        fill = Fill.NOWHERE if whole else Fill.SCALE
    if fill is Fill.NOWHERE:
        counts = np.maximum(np.floor(values + 0.5), 0)
        total = _checked(people, float(counts.sum(axis=0).max()))
        over = np.flatnonzero(counts.sum(axis=0) > total)
        for t in over.tolist():  # only where fewer people are known than the table shows
            counts[:, t] = _rounded(counts[:, t], total, rng)
    else:
        total = _checked(people, float(np.median(values.sum(axis=0))))
        shown = np.maximum(values, 0.0)
        counts = np.zeros_like(shown)
        last = _rounded(np.ones(len(values)), total, rng)
        for t in range(values.shape[1]):
            if shown[:, t].sum() > 0:
                last = _rounded(shown[:, t], total, rng)
            counts[:, t] = last
    nowhere = total - counts.sum(axis=0)
    return np.vstack([counts, nowhere]).astype(np.int64)


def suppressed(counts: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Counts below k become zero: what suppression publishes."""
    return np.where(counts < k, 0, counts)


def counts_of(trajectories: NDArray[np.int32], cells: int) -> NDArray[np.int64]:
    """Cell x slot counts of people x slot cells; negative cells are nobody's."""
    slots = trajectories.shape[1]
    seen = trajectories >= 0
    key = trajectories.astype(np.int64) * slots + np.arange(slots)
    return np.bincount(key[seen], minlength=cells * slots).reshape(cells, slots).astype(np.int64)


def _checked(people: int | None, shown: float) -> int:
    total = people if people is not None else max(1, round(shown))
    if not 1 <= total <= MAX_PEOPLE:
        raise UsageError(
            f"The attack handles 1 to {MAX_PEOPLE} people.", remedy="Take a smaller region."
        )
    return total


def _rounded(
    values: NDArray[np.float64], total: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Whole numbers in proportion to `values` that sum to `total`: largest remainder."""
    share = values / values.max()  # first, so that tiny values do not overflow below
    exact: NDArray[np.float64] = share * (total / share.sum())
    down: NDArray[np.float64] = np.floor(exact)
    short = round(total - down.sum())
    order = np.lexsort((rng.random(values.size), -(exact - down)))
    down[order[:short]] += 1
    return down
