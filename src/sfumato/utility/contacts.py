"""Contacts: two users within 50 m of each other in the same slot of 5 seconds.

The rule of the gossip study on Geolife: in contact if *any* fix of one and any fix of the other
in the slot are so close. Nothing is averaged and nothing thinned. Slots are cut into a grid
of cells as wide as the distance; fixes of one slot and cell are neighbours in a sorted
array, and each looks into the four cells after its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.traces.cells import Cells
from sfumato.traces.model import MICROSECONDS, Traces
from sfumato.traces.outside import Box
from sfumato.utility.meeting.kernels import close_pairs

Ints = NDArray[np.int64]
SLOT_S = 5.0
RANGE_M = 50.0


@dataclass(frozen=True, slots=True, eq=False)
class Contacts:
    """Sorted by slot, every pair once a slot; `one` < `other` index users."""

    slot: Ints
    one: Ints
    other: Ints
    users: int

    def __len__(self) -> int:
        return int(self.slot.size)


def find_contacts(
    traces: Traces,
    *,
    slot_s: float = SLOT_S,
    range_m: float = RANGE_M,
    users: int | None = None,
) -> Contacts:
    """All contacts of the traces. Distances on a plane at the traces' middle latitude."""
    if not (slot_s > 0 and range_m > 0):
        raise UsageError("A slot and a range are positive.")
    count = traces.names.size if users is None else users
    if len(traces) == 0:
        nothing = np.empty(0, np.int64)
        return Contacts(nothing, nothing, nothing, count)
    slot = traces.time // round(slot_s * MICROSECONDS)
    south, north = float(traces.lat.min()), float(traces.lat.max())
    middle = min(max((south + north) / 2, -89.0), 89.0)
    west = float(traces.lon.min())
    plane = Cells(west, south, 1, 1, range_m, middle)
    x, y = plane.metres(traces.lon, traces.lat)
    # Sort by slot, then row and column of cells as wide as the range.
    column = (x // range_m).astype(np.int64)
    row = (y // range_m).astype(np.int64)
    order = _crowded(slot, traces.user)
    order = order[np.lexsort((column[order], row[order], slot[order]))]
    pairs = close_pairs(
        slot[order], row[order], column[order], x[order], y[order], traces.user[order], range_m
    )
    unique = np.unique(pairs, axis=0) if len(pairs) else pairs
    return Contacts(unique[:, 0].copy(), unique[:, 1].copy(), unique[:, 2].copy(), count)


def _crowded(slot: Ints, user: Ints) -> Ints:
    """Rows of slots in which at least two users have a fix: the others meet nobody."""
    order = np.lexsort((user, slot))
    s, u = slot[order], user[order]
    starts = np.flatnonzero(np.diff(s, prepend=s[0] - 1))
    changes = np.zeros(s.size, np.int64)
    changes[1:] = (s[1:] == s[:-1]) & (u[1:] != u[:-1])
    several = np.add.reduceat(changes, starts) > 0
    return order[np.repeat(several, np.diff(np.append(starts, s.size)))]


def region_of(traces: Traces) -> Box:
    """The box around traces, a little larger; private, for the holder's own pages."""
    return Box(
        max(float(traces.lon.min()) - 1e-4, -180.0),
        max(float(traces.lat.min()) - 1e-4, -90.0),
        min(float(traces.lon.max()) + 1e-4, 180.0),
        min(float(traces.lat.max()) + 1e-4, 90.0),
    )
