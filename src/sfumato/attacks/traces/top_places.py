"""Top places (Zang & Bolot 2011): how many users share somebody's N most visited cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.traces.cells import Cells
from sfumato.traces.model import Traces


@dataclass(frozen=True, slots=True, eq=False)
class TopPlaces:
    """`sizes[u]`: how many users, u included, have the same top cells."""

    number: int
    sizes: NDArray[np.int64]

    def share_below(self, k: int) -> float:
        """Share of users with fewer than k users like them; k = 2 is the unique ones."""
        return float((self.sizes < k).mean()) if self.sizes.size else 0.0


def top_places(traces: Traces, cells: Cells, number: int, *, ordered: bool = True) -> TopPlaces:
    """Anonymity sets of the N cells with the most fixes; users with fewer cells count as they are.

    Ties go to the cell with the smaller number, which is public.
    """
    cell = cells.index(traces.lon, traces.lat)
    inside = cell >= 0
    pairs, counts = np.unique(
        np.column_stack((traces.user[inside], cell[inside])), axis=0, return_counts=True
    )
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    user, place = pairs[order, 0], pairs[order, 1]
    users, first = np.unique(user, return_index=True)
    rank = np.arange(user.size) - first[np.searchsorted(users, user)]
    top = np.full((users.size, number), -1, np.int64)
    kept = rank < number
    top[np.searchsorted(users, user[kept]), rank[kept]] = place[kept]
    if not ordered:
        top = np.sort(top, axis=1)
    _, which, sizes = np.unique(top, axis=0, return_inverse=True, return_counts=True)
    return TopPlaces(number, sizes[which.ravel()].astype(np.int64))
