"""Compiled loops of the intake: the judgement of a row, and grouping by user."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

MISSING_PLACE = -2
BAD_COORDINATES = -3
OUTSIDE_ZONES = -4

(
    NO_USER,
    NO_TIME,
    NOT_A_TIME,
    OUTSIDE_PERIOD,
    NO_PLACE,
    UNKNOWN_PLACE,
    NOT_VALID_THEN,
    BAD_POSITION,
    NO_ZONE,
) = range(9)
REASONS = 9


@njit(cache=True, nogil=True)
def judge(
    t: Array,
    t_valid: Array,
    user_valid: Array,
    found: Array,
    groups: Array,
    valid_from: Array,
    valid_to: Array,
    edges: Array,
    step: Int,
    bad_time: Int,
    place_bits: Int,
    first_row: Int,
    tally: Array,
    first: Array,
    cells: Array,
) -> None:
    """Cell of each row, `slot << place_bits | place`, or -1 with its reason counted.

    `found` is the group of places a row names (several rows of one tower that moved) or the
    negative reason why there is none. `step` is the slots' length where all are equal, else 0.
    """
    last = edges.size - 1
    for i in range(t.size):
        reason = -1
        place = np.int64(found[i])
        slot = np.int64(0)
        if user_valid.size and not user_valid[i]:
            reason = NO_USER
        elif t_valid.size and not t_valid[i]:
            reason = NO_TIME
        elif t[i] == bad_time:
            reason = NOT_A_TIME
        elif t[i] < edges[0] or t[i] >= edges[last]:
            reason = OUTSIDE_PERIOD
        elif place < 0:
            if place == MISSING_PLACE:
                reason = NO_PLACE
            elif place == BAD_COORDINATES:
                reason = BAD_POSITION
            elif place == OUTSIDE_ZONES:
                reason = NO_ZONE
            else:
                reason = UNKNOWN_PLACE
        else:
            row = groups[place]
            end = groups[place + 1]
            while row < end and not (valid_from[row] <= t[i] < valid_to[row]):
                row += 1
            if row == end:
                reason = NOT_VALID_THEN
            place = np.int64(row)
        if reason >= 0:
            cells[i] = -1
            if tally[reason] == 0:
                first[reason] = first_row + i
            tally[reason] += 1
            continue
        if step > 0:
            slot = (t[i] - edges[0]) // step
        else:
            slot = np.searchsorted(edges, t[i], side="right") - 1
        cells[i] = (slot << place_bits) | place


@njit(cache=True, nogil=True)
def count_codes(codes: Array, counts: Array) -> None:
    """Rows of each code, added to `counts`."""
    for code in codes:
        counts[code] += 1


@njit(cache=True, nogil=True)
def scatter(codes: Array, packed: Array, ends: Array, cells: Array) -> None:
    """Put each row's cell with its user; `ends` starts at the groups' beginnings and moves."""
    for i in range(codes.size):
        at = ends[codes[i]]
        cells[at] = packed[i]
        ends[codes[i]] = at + 1


@njit(cache=True, nogil=True)
def sort_users(cells: Array, offsets: Array, low: Int, high: Int) -> None:
    """Sort the cells of users low..high, each user's own."""
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        if end - begin <= 24:
            for i in range(begin + 1, end):
                value = cells[i]
                j = i - 1
                while j >= begin and cells[j] > value:
                    cells[j + 1] = cells[j]
                    j -= 1
                cells[j + 1] = value
        else:
            cells[begin:end].sort()


@njit(cache=True, nogil=True)
def drop_repeats(cells: Array, offsets: Array) -> Int:
    """Keep each user's distinct cells (sorted already), moved together. Returns how many."""
    kept = np.int64(0)
    begin = offsets[0]
    for user in range(offsets.size - 1):
        end = offsets[user + 1]
        for i in range(begin, end):
            if i == begin or cells[i] != cells[i - 1]:
                cells[kept] = cells[i]
                kept += 1
        begin = end
        offsets[user + 1] = kept
    return kept
