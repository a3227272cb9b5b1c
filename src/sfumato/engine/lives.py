"""Compiled pass over users: how persons live (`sfumato.model.lives`). Whole numbers throughout.

Takes users low..high of a block (offsets, sorted distinct cells), adds each user's vector to `out`
and checks its length: the number of users above the bound is returned, which is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.model.lives import (
    ACTIVITY,
    CAP,
    COARSE,
    DAYPARTS,
    GYRATION,
    LENGTHS,
    LIFE_UNITS,
    LIKENESS,
    PERIODS,
    SPREADS,
    VARIETY,
)

Array = NDArray[Any]
Int = Any
Rows = tuple[Array, Array, Int]
_ROLES = 48 * 3
_FIXED = 1 << 20


MOST_A_DAY = 1 << 16
"""Visits of one day that its unevenness knows of: in 2^12 days, sums of squares are below 2^61."""
MOST_VISITS = 1 << 20
"""Visits of one person in one cell of a block that are counted: with at most 2^28 cells of
records in all, 4096 times the sum of squares stays below 2^63."""


@compiled
def _doubling(count: Int) -> Int:
    """floor(log2(count)) for count >= 1."""
    found = 0
    while count > 1:
        count >>= 1
        found += 1
    return found


@compiled
def _class_of(square: Int, edges: Array) -> Int:
    """The first class whose upper end is not below."""
    for k in range(edges.size):
        if square <= edges[k]:
            return k
    return edges.size


@compiled
def _apart(at: Array, one: Int, other: Int) -> Int:
    x, y = at[one, 0] - at[other, 0], at[one, 1] - at[other, 1]
    return x * x + y * y


@compiled
def _root_above(square: Int) -> Int:
    """A whole number above the root of `square` < 2^53, by less than two."""
    found = np.int64(np.sqrt(np.float64(square)))
    while found * found <= square:
        found += 1
    return found


@compiled
def _put(counts: Array, gain: Int, offset: Int, out: Array) -> float:
    """A block of visits, scaled to its gain; the sum of the squares that were added."""
    square = np.int64(0)
    for k in range(counts.size):
        # Further visits change no entry by much, and 4096 times their square must fit.
        counts[k] = min(counts[k], MOST_VISITS)
        square += counts[k] * counts[k]
    length = max(_root_above(4096 * square), np.int64(64 * CAP))
    added = 0.0
    for k in range(counts.size):
        if counts[k]:
            entry = 64 * gain * counts[k] // length
            out[offset + k] += entry
            added += np.float64(entry) * np.float64(entry)
            counts[k] = 0
    return added


@compiled
def _spread(size: Int, squares: Int, days: Int) -> Int:
    """Class of variance over mean of daily visits: (days squares - size^2) / (days size)."""
    over = 2 * (days * squares - size * size)
    for k in range(SPREADS - 1):
        if over <= (1, 3, 6)[k] * days * size:
            return k
    return SPREADS - 1


@compiled
def lives(
    rows: Rows,
    low: Int,
    high: Int,
    region: Array,
    part: Array,
    at: Array,
    edges: Array,
    radii: Array,
    period: Array,
    hour: Array,
    day: Array,
    gains: Array,
    offsets: Array,
    regions: Int,
    out: Array,
) -> Int:
    """Each user's blocks, each times its gain."""
    cells, starts, bits = rows
    mask = (np.int64(1) << bits) - 1
    places = region.size
    nights = np.zeros(places, np.int64)
    works = np.zeros(places, np.int64)
    visits = np.zeros(places, np.int64)
    last = np.full(places, -2, np.int64)  # of the user's days with visits, the last one here
    touched = np.empty(places, np.int64)
    roles = np.zeros(_ROLES, np.int64)
    errands = np.zeros(PERIODS * LENGTHS, np.int64)
    moves = np.zeros(DAYPARTS * LENGTHS, np.int64)
    profile = np.zeros(48, np.int64)
    often = np.zeros(PERIODS, np.int64)
    days = day[-1] + 1
    above = 0
    for user in range(low, high):
        begin, end = starts[user], starts[user + 1]
        if begin == end:
            continue
        count = 0
        x, y, square = np.int64(0), np.int64(0), np.int64(0)
        today, number, now, before, common = np.int64(-1), -1, 0, 0, 0
        likeness, pairs = np.int64(0), 0
        often[:] = 0
        this_day, whole, squares = np.int64(0), np.int64(0), np.int64(0)
        for i in range(begin, end):
            cell = np.int64(cells[i])
            place, slot = cell & mask, cell >> bits
            if visits[place] == 0:
                touched[count] = place
                count += 1
            visits[place] += 1
            nights[place] += period[slot] == 0
            works[place] += period[slot] == 1
            often[period[slot]] += 1
            x += at[place, 0]
            y += at[place, 1]
            square += at[place, 0] * at[place, 0] + at[place, 1] * at[place, 1]
            if day[slot] != today:
                if number > 0:
                    likeness += _FIXED * common // (before + now - common)
                    pairs += 1
                today, number = day[slot], number + 1
                before, now, common, this_day = now, 0, 0, np.int64(0)
            if this_day < MOST_A_DAY:  # n^2 - (n - 1)^2 more, and sums that fit
                this_day += 1
                whole += 1
                squares += 2 * this_day - 1
            if last[place] != number:
                common += last[place] == number - 1
                now += 1
                last[place] = number
        if number > 0:
            likeness += _FIXED * common // (before + now - common)
            pairs += 1
        home, work, anchor = np.int64(-1), np.int64(-1), touched[0]
        for k in range(count):
            place = touched[k]
            if nights[place] > 0 and (
                home < 0
                or nights[place] > nights[home]
                or (nights[place] == nights[home] and place < home)
            ):
                home = place
            if works[place] > 0 and (
                work < 0
                or works[place] > works[work]
                or (works[place] == works[work] and place < work)
            ):
                work = place
            if visits[place] > visits[anchor] or (
                visits[place] == visits[anchor] and place < anchor
            ):
                anchor = place
        if home >= 0:
            anchor = home
        elif work >= 0:
            anchor = work
        size = end - begin
        many = _doubling(size)
        coarse = min(max(many - 1, 0), COARSE - 1)
        added = 0.0
        # One entry of its gain for each of the first eight blocks that the user is in.
        row = region[home] if home >= 0 else regions
        column = region[work] if work >= 0 else regions
        out[offsets[0] + row * (regions + 1) + column] += gains[0]
        added += np.float64(gains[0]) ** 2
        standing = 0
        if home >= 0:
            out[offsets[1] + home] += gains[1]
            added += np.float64(gains[1]) ** 2
            standing = 1
        if work >= 0:
            out[offsets[2] + work] += gains[2]
            added += np.float64(gains[2]) ** 2
            standing = 2
        if home >= 0 and work >= 0:
            far = _class_of(_apart(at, home, work), edges)
            out[offsets[3] + part[home] * LENGTHS + far] += gains[3]
            added += np.float64(gains[3]) ** 2
            standing = 4 if home == work else 3
        out[offsets[4] + standing * ACTIVITY + min(many, ACTIVITY - 1)] += gains[4]
        spread = (size * square - x * x - y * y) // (size * size)
        far = min(_class_of(spread, radii), GYRATION - 1)
        out[offsets[5] + coarse * GYRATION + far] += gains[5]
        alike = LIKENESS - 1
        if pairs > 0:
            alike = min(int(likeness) * (LIKENESS - 1) // (pairs * _FIXED), LIKENESS - 2)
        out[offsets[6] + coarse * LIKENESS + alike] += gains[6]
        out[offsets[7] + coarse * VARIETY + min(count, VARIETY) - 1] += gains[7]
        for k in range(4, 8):
            added += np.float64(gains[k]) ** 2
        previous = np.int64(-1)
        for i in range(begin, end):
            cell = np.int64(cells[i])
            place, slot = cell & mask, cell >> bits
            role = 0 if place == home else 1 if place == work else 2
            roles[hour[slot] * 3 + role] += 1
            if role == 2 and place != anchor:
                far = _class_of(_apart(at, anchor, place), edges)
                errands[period[slot] * LENGTHS + far] += 1
            if previous >= 0 and previous != place:
                far = _class_of(_apart(at, previous, place), edges)
                moves[hour[slot] % 24 // 4 * LENGTHS + far] += 1
            previous = place
        added += _put(roles, gains[8], offsets[8], out)
        added += _put(errands, gains[9], offsets[9], out)
        added += _put(moves, gains[10], offsets[10], out)
        if gains[11] > 0:
            kind = often.argmax() * 2 + int(size > days)
            uneven = _spread(whole, squares, days)
            cell = (kind * ACTIVITY + min(many, ACTIVITY - 1)) * SPREADS + uneven
            out[offsets[11] + cell] += gains[11]
            added += np.float64(gains[11]) ** 2
        if gains[12] > 0:
            kind = often.argmax() * 2 + int(size > days)
            for i in range(begin, end):
                profile[hour[np.int64(cells[i]) >> bits]] += 1
            added += _put(profile, gains[12], offsets[12] + kind * 48, out)
        above += int(added > np.float64(LIFE_UNITS) ** 2)
        for k in range(count):
            place = touched[k]
            nights[place] = works[place] = visits[place] = 0
            last[place] = -2
    return above
