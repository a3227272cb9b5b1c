"""Contacts of moving users, and gossip over them: whom a message reaches, and when.

**Contacts**: two users within 50 m of each other in the same slot of 5 seconds. The rule of the
gossip study on Geolife: in contact if *any* fix of one and any fix of the other
in the slot are so close. Nothing is averaged and nothing thinned. Slots are cut into a grid
of cells as wide as the distance; fixes of one slot and cell are neighbours in a sorted
array, and each looks into the four cells after its own (compiled).

**Gossip** is temporal reachability from all sources at once, each user's set of sources a row of
bits: the mean over sources is exact, where published studies average 1,000 random runs. Two
meanings of a slot: `component` (the default), in which a message passes through any chain of
contacts within the five seconds, and `one-hop`, in which pairs exchange what they knew when the
slot began. Neither depends on the order of contacts in a slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.traces import MICROSECONDS, Box, Traces
from sfumato.traces.cells import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@compiled
def _scan(
    slot: Ints,
    row: Ints,
    column: Ints,
    x: Floats,
    y: Floats,
    user: Ints,
    range_m: float,
    out: Ints,
) -> int:
    """Write pairs while there is room; returns how many there are, repeats mostly left out."""
    found, n = 0, slot.size
    limit = range_m * range_m
    below = 0  # first fix of the next row that may be near
    for i in range(n):
        j = i + 1
        # The same row: this cell and the next one.
        while j < n and slot[j] == slot[i] and row[j] == row[i] and column[j] <= column[i] + 1:
            found = _pair(i, j, x, y, user, slot, limit, out, found)
            j += 1
        # The next row: the cells from one before to one after.
        below = max(below, i + 1)
        while below < n and (
            slot[below] < slot[i]
            or (
                slot[below] == slot[i]
                and (
                    row[below] < row[i] + 1
                    or (row[below] == row[i] + 1 and column[below] < column[i] - 1)
                )
            )
        ):
            below += 1
        j = below
        while j < n and slot[j] == slot[i] and row[j] == row[i] + 1 and column[j] <= column[i] + 1:
            found = _pair(i, j, x, y, user, slot, limit, out, found)
            j += 1
    return found


@compiled
def _pair(
    i: int,
    j: int,
    x: Floats,
    y: Floats,
    user: Ints,
    slot: Ints,
    limit: float,
    out: Ints,
    found: int,
) -> int:
    if user[i] == user[j]:
        return found
    dx, dy = x[i] - x[j], y[i] - y[j]
    if dx * dx + dy * dy > limit:
        return found
    one, other = min(user[i], user[j]), max(user[i], user[j])
    if found > 0 and found <= out.shape[0]:
        last = found - 1
        if out[last, 0] == slot[i] and out[last, 1] == one and out[last, 2] == other:
            return found
    if found < out.shape[0]:
        out[found, 0], out[found, 1], out[found, 2] = slot[i], one, other
    return found + 1


def close_pairs(
    slot: Ints, row: Ints, column: Ints, x: Floats, y: Floats, user: Ints, range_m: float
) -> Ints:
    """(slot, one, other) of fixes sorted by slot, row and column; some pairs more than once."""
    out = np.empty((max(4 * slot.size, 1024), 3), np.int64)
    while True:
        found = int(_scan(slot, row, column, x, y, user, range_m, out))
        if found <= out.shape[0]:
            return out[:found]
        out = np.empty((2 * out.shape[0], 3), np.int64)


@compiled
def _root(parent: Ints, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@compiled
def spread(
    slot: Ints, one: Ints, other: Ints, users: int, components: bool, known: Words, first: Ints
) -> None:
    """Run all sources at once. `known[v]` is the set of sources that reached v, as bits.

    `first[v, s]` gets the slot in which source s first reached v, -1 where it never did.
    Within a slot either everybody in a connected group hears everything (`components`), or
    each pair exchanges what both knew when the slot began.
    """
    parent = np.arange(users)
    joined = np.zeros_like(known)
    touched = np.empty(users, np.int64)
    start = 0
    while start < slot.size:
        stop = start
        while stop < slot.size and slot[stop] == slot[start]:
            stop += 1
        count = 0
        for c in range(start, stop):
            for node in (one[c], other[c]):
                if parent[node] == node and not joined[node].any():
                    touched[count] = node
                    count += 1
                    joined[node] = known[node]
        if components:
            for c in range(start, stop):
                a, b = _root(parent, one[c]), _root(parent, other[c])
                if a != b:
                    parent[b] = a
                    joined[a] |= joined[b]
        else:
            for c in range(start, stop):
                joined[one[c]] |= known[other[c]]
                joined[other[c]] |= known[one[c]]
        for t in range(count):
            node = touched[t]
            source = joined[_root(parent, node)]
            for w in range(known.shape[1]):
                new = source[w] & ~known[node, w]
                bit = 0
                while new:
                    if new & np.uint64(1):
                        first[node, 64 * w + bit] = slot[start]
                    new >>= np.uint64(1)
                    bit += 1
        for t in range(count):
            node = touched[t]
            known[node] |= joined[_root(parent, node)]
        for t in range(count):
            parent[touched[t]] = touched[t]
            joined[touched[t]] = np.uint64(0)
        start = stop


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


class Slot(StrEnum):
    COMPONENT = "component"
    ONE_HOP = "one-hop"


@dataclass(frozen=True, slots=True, eq=False)
class Gossip:
    """`first[v, s]`: the slot in which a message of source s reached v; -1 never, own slot 0."""

    first: Ints

    @property
    def users(self) -> int:
        return int(self.first.shape[0])

    def infection_rate(self, *, count_source: bool = True) -> float:
        """Mean share of users that a random source's message reaches."""
        n = self.users
        if n < 2:
            return float(count_source)
        reached = int((self.first >= 0).sum()) - n
        return (reached + n) / n**2 if count_source else reached / (n * (n - 1))

    def reached_from(self) -> Ints:
        """For each source, how many users its message reached, itself included."""
        return np.asarray((self.first >= 0).sum(axis=0), np.int64)

    def latency_slots(self, since: int) -> NDArray[np.float64]:
        """Slots from `since` to each arrival, over all pairs that were reached."""
        arrived = (self.first >= 0) & ~np.eye(self.users, dtype=np.bool_)
        return np.asarray(self.first[arrived] - since, np.float64)


def gossip(contacts: Contacts, meaning: Slot = Slot.COMPONENT) -> Gossip:
    """Spread a message from every user over the whole period."""
    n = contacts.users
    known = np.zeros((n, -(-n // 64) if n else 1), np.uint64)
    every = np.arange(n)
    known[every, every // 64] = np.uint64(1) << (every % 64).astype(np.uint64)
    first = np.full((n, 64 * known.shape[1]), -1, np.int64)
    first[every, every] = 0
    chained = meaning is Slot.COMPONENT
    spread(contacts.slot, contacts.one, contacts.other, n, chained, known, first)
    return Gossip(first[:, :n])
