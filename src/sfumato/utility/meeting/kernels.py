"""Compiled: pairs of close fixes in a slot, and who has heard of whom."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def _root(parent: Ints, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True)
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
