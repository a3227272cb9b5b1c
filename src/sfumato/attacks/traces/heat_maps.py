"""Heat-map linkage, the AP-attack (Maouche, Ben Mokhtar & Bouchenak 2017).

A user's profile is the share of fixes in cells of 800 m. An anonymous trace is linked to the
profile at the smallest Topsøe divergence, sum p ln(2p/(p+q)) + q ln(2q/(p+q)). The first half
of the period is what the adversary knows, the second half is attacked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.traces.kernels import topsoe
from sfumato.traces.cells import Cells
from sfumato.traces.model import Traces

SIDE_M = 800.0


@dataclass(frozen=True, slots=True, eq=False)
class Linkage:
    """For every attacked user, the profile it was linked to."""

    targets: NDArray[np.int64]
    linked_to: NDArray[np.int64]
    profiles: int

    @property
    def rate(self) -> float:
        """Share of traces linked to their own user."""
        return float((self.targets == self.linked_to).mean()) if self.targets.size else 0.0

    @property
    def chance(self) -> float:
        """What guessing gets."""
        return 1.0 / max(self.profiles, 1)


def link(known: Traces, attacked: Traces, cells: Cells) -> Linkage:
    """Link every user of `attacked` to the user of `known` with the most similar heat map."""
    mine, from_a, cell_a, share_a = _profiles(attacked, cells)
    theirs, from_b, cell_b, share_b = _profiles(known, cells)
    distances = topsoe(from_a, cell_a, share_a, from_b, cell_b, share_b)
    nearest = theirs[np.argmin(distances, axis=1)] if theirs.size else np.full(mine.size, -1)
    return Linkage(mine, nearest.astype(np.int64), int(theirs.size))


def halves(traces: Traces) -> tuple[Traces, Traces]:
    """What was seen before the middle of the period, and after."""
    middle = (int(traces.time.min()) + int(traces.time.max())) // 2
    return traces.pick(traces.time < middle), traces.pick(traces.time >= middle)


def _profiles(
    traces: Traces, cells: Cells
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Users, and their heat maps as sorted sparse rows."""
    cell = cells.index(traces.lon, traces.lat)
    inside = cell >= 0
    pairs, counts = np.unique(
        np.column_stack((traces.user[inside], cell[inside])), axis=0, return_counts=True
    )
    users, first = np.unique(pairs[:, 0], return_index=True)
    offsets = np.append(first, len(pairs)).astype(np.int64)
    totals = np.add.reduceat(counts, first) if users.size else np.empty(0)
    share = counts / np.repeat(totals, np.diff(offsets))
    return users.astype(np.int64), offsets, pairs[:, 1].copy(), share.astype(np.float64)
