"""Compiled sampling: the order of `sfumato.engine.order`, and the pass that keeps by it.

Each takes users low..high of a block (offsets, sorted distinct cells). Slots of a user are
runs of equal `cell >> bits`. The pass checks the bound on what it counted and returns the
number of users above it, which the caller turns into an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""
Rows = tuple[Array, Array, Int]
"""Cells, offsets of the users, and the bits of a cell that are its place."""

PRIME = (1 << 31) - 1
HALF_BITS = 30
SLOT_BITS = 20


@njit(cache=True, nogil=True)
def _reduce(x: Int) -> Int:
    """x mod p for 0 <= x < 2^62 by shifts: 2^31 = 1 (mod p)."""
    x = (x & PRIME) + (x >> 31)
    x = (x & PRIME) + (x >> 31)
    return x - PRIME if x >= PRIME else x


@njit(cache=True, nogil=True)
def _fifth(x: Int) -> Int:
    square = _reduce(x * x)
    return _reduce(_reduce(square * square) * x)


@njit(cache=True, nogil=True)
def order_value(seed: Int, item: Int, shift: Int) -> Int:
    """Order of an item: see `sfumato.engine.order`."""
    a = seed >> HALF_BITS
    b = seed & ((1 << HALF_BITS) - 1)
    y = _fifth(_reduce((a + 1) * (item + 1) + b))
    z = _fifth(_reduce((b + 1) * y + a + shift))
    return _reduce((a + 1) * z + b)


@njit(cache=True, nogil=True)
def needs_order(rows: Rows, low: Int, high: Int, limit: Int, needed: Array) -> None:
    """Mark users with several places in a slot or more than `limit` slots."""
    cells, offsets, bits = rows
    for user in range(low, high):
        slots = 0
        previous = np.int64(-1)
        several = False
        for i in range(offsets[user], offsets[user + 1]):
            slot = np.int64(cells[i]) >> bits
            if slot == previous:
                several = True
            else:
                slots += 1
                previous = slot
        needed[user] = several or slots > limit


@njit(cache=True, nogil=True)
def sampled(
    rows: Rows,
    low: Int,
    high: Int,
    limit: Int,
    seed_at: Array,
    seeds: Array,
    stride: Int,
    out: Array,
) -> Int:
    """One visit a slot, at most `limit` slots a user. Others than `needs_order` count whole."""
    cells, offsets, bits = rows
    mask = (np.int64(1) << bits) - 1
    slots_out = out.shape[1]
    chosen = np.empty(slots_out, np.int64)
    ranked = np.empty(slots_out, np.int64)
    above = 0
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        at = seed_at[user]
        if at < 0:
            previous = np.int64(-1)
            if end - begin > limit:
                above += 1
                continue
            for i in range(begin, end):
                slot = np.int64(cells[i]) >> bits
                if slot == previous:
                    above += 1
                    break
                out[np.int64(cells[i]) & mask, slot] += 1
                previous = slot
            continue
        first, second = seeds[at, 0], seeds[at, 1]
        count = 0
        i = begin
        while i < end:
            slot = np.int64(cells[i]) >> bits
            best = np.int64(cells[i]) & mask
            j = i + 1
            if j < end and np.int64(cells[j]) >> bits == slot:
                shift = stride * (slot + 1)
                lowest = order_value(first, best, shift)
                while j < end and np.int64(cells[j]) >> bits == slot:
                    place = np.int64(cells[j]) & mask
                    turn = order_value(first, place, shift)
                    if turn < lowest:  # equal turns: the lower place, met first, stays
                        best, lowest = place, turn
                    j += 1
            chosen[slot] = best
            # Turn and slot in one integer: 31 + 20 bits, so equal turns fall to the slot.
            ranked[count] = slot
            count += 1
            i = j
        if count > limit:
            for n in range(count):
                ranked[n] |= order_value(second, ranked[n], 0) << SLOT_BITS
            ranked[:count].sort()
        for n in range(min(count, limit)):
            slot = ranked[n] & ((1 << SLOT_BITS) - 1)
            if chosen[slot] < 0:  # a slot met twice: the user's cells were not sorted
                above += 1
                break
            out[chosen[slot], slot] += 1
            chosen[slot] = -1
    return above
