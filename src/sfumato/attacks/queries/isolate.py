"""The searches of `logged`, compiled: nested questions, wholes and their parts, unions.

Questions are rows in ascending order of their answers. A row has bits of places and of slots, 64 to
a word; its cells are the product of the two. Each search gives rows of the sets that it found, and
whether it saw all there is: it ends after `most` sets, or after `steps` steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.model.masks import Words

Ints = NDArray[np.int64]
PARTS = 6
"""Most parts of a whole: seven questions with it."""
MOST_UNIONS = 1_000_000
"""That are kept of one group: a log of all ranges has a union for any two that meet."""
_ONE = np.uint64(1)
_NONE = np.uint64(0)


@compiled
def _inside(inner: Words, outer: Words) -> bool:
    for word in range(inner.size):  # noqa: SIM110 (a generator does not compile)
        if inner[word] & ~outer[word]:
            return False
    return True


@compiled
def _bits(word: int) -> int:
    left, many = np.uint64(word), 0
    while left:
        left &= left - _ONE
        many += 1
    return many


@compiled
def nested(
    answers: Ints, places: Words, slots: Words, k: int, most: int, steps: int
) -> tuple[Ints, bool]:
    """Pairs of an inner and an outer question whose answers differ by less than k."""
    found, many, done = np.empty((most, 2), np.int64), 0, 0
    for low in range(answers.size):
        for high in range(low + 1, answers.size):
            if answers[high] - answers[low] >= k:
                break
            done += 1
            for inner, outer in ((low, high), (high, low)):
                if answers[inner] > answers[outer]:
                    continue
                if _inside(slots[inner], slots[outer]) and _inside(places[inner], places[outer]):
                    if many == most:
                        return found, False
                    found[many] = inner, outer
                    many += 1
        if done > steps:
            return found[:many], False
    return found[:many], True


@compiled
def _next(row: Words, start: int) -> int:
    """The first bit from `start` on that is set; past all where none is."""
    word = start // 64
    if word >= row.size:
        return 64 * row.size
    left = row[word] >> np.uint64(start % 64) << np.uint64(start % 64)
    while not left:
        word += 1
        if word == row.size:
            return 64 * row.size
        left = row[word]
    bit = 64 * word
    while not left & _ONE:
        left >>= _ONE
        bit += 1
    return bit


@compiled
def _first_cells(places: Words, slots: Words) -> tuple[Ints, Ints]:
    """Of every question the first cell, place by place, and how many cells there are."""
    first, cells = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
    for row in range(len(places)):
        first[row] = _next(places[row], 0) * 64 * slots.shape[1] + _next(slots[row], 0)
        wide = long = 0
        for word in places[row]:
            wide += _bits(word)
        for word in slots[row]:
            long += _bits(word)
        cells[row] = wide * long
    return first, cells


@compiled
def _fits(place: Words, slot: Words, left: Words) -> bool:
    """Whether all cells of a question are still left."""
    at = _next(place, 0)
    while at < 64 * place.size:
        for word in range(slot.size):
            if slot[word] & ~left[at, word]:
                return False
        at = _next(place, at + 1)
    return True


def rests(
    answers: Ints, places: Words, slots: Words, k: int, rest: int, most: int, steps: int
) -> tuple[Ints, int]:
    """Wholes with two to six parts that do not meet, which leave few cells with a sum below k.

    More and more cells may be left over, as long as there are steps. Rows hold the whole, its
    parts, and -1; with them comes up to how many cells left over all such sets were found.
    """
    first, cells = _first_cells(places, slots)
    by_first = np.argsort(first, kind="stable")
    found, seen = np.empty((0, PARTS + 1), np.int64), 0
    for over in sorted({min(one, rest) for one in (1, 8, 48, rest)}):
        rows, steps = _rests(
            answers, places, slots, first, cells, by_first, k, over, most, steps
        )  # fmt: skip
        if len(rows) >= len(found):
            found = rows
        if steps <= 0:
            break
        seen = over
    return found, seen


@compiled
def _rests(
    answers: Ints,
    places: Words,
    slots: Words,
    first: Ints,
    cells: Ints,
    by_first: Ints,
    k: int,
    rest: int,
    most: int,
    steps: int,
) -> tuple[Ints, int]:
    """Lay each whole out from its first cell on: every cell begins a part, or is left over.

    All cells before have a part or are left over, so that a part that covers a cell begins there.
    Gives the sets, and the steps that are left.
    """
    many_places, width = 64 * places.shape[1], 64 * slots.shape[1]
    found, many = np.full((most, PARTS + 1), -1, np.int64), 0
    left = np.zeros((PARTS + 1, many_places, slots.shape[1]), np.uint64)
    part, at = np.full(PARTS + 1, -1, np.int64), np.zeros(PARTS + 1, np.int64)
    cell, over = np.zeros(PARTS + 1, np.int64), np.zeros(PARTS + 1, np.int64)
    uncovered, sums = np.zeros(PARTS + 1, np.int64), np.zeros(PARTS + 1, np.int64)
    inside, largest = np.empty(answers.size, np.int64), np.empty(answers.size + 1, np.int64)
    for whole in range(answers.size):
        parts = 0
        for one in by_first:
            if answers[one] > answers[whole] or one == whole:
                continue
            if _inside(slots[one], slots[whole]) and _inside(places[one], places[whole]):
                inside[parts] = one
                parts += 1
        steps -= answers.size // 16  # what that took
        largest[parts] = 0  # the largest answer of a part that begins here or later
        for one in range(parts - 1, -1, -1):
            largest[one] = max(largest[one + 1], answers[inside[one]])
        low = _next(places[whole], 0)
        last = place = low
        while place < many_places:
            left[0, place] = slots[whole]
            last = place + 1
            place = _next(places[whole], last)
        cell[0], at[0], over[0] = first[whole], 0, 0
        uncovered[0], sums[0] = cells[whole], answers[whole]
        depth = 0
        while depth >= 0:
            if at[depth] == parts or sums[depth] - k >= (PARTS - depth) * largest[at[depth]]:
                depth -= 1  # the parts that are left are too small, however many they are
                continue
            steps -= 1
            one = inside[at[depth]]
            # Cells before the next part are left over.
            place, slot = cell[depth] // width, cell[depth] % width
            while place * width + slot < first[one] and over[depth] <= rest:
                over[depth] += np.int64(
                    left[depth, place, slot // 64] >> np.uint64(slot % 64) & _ONE
                )
                slot = _next(left[depth, place], slot + 1)
                while slot >= width and place + 1 < last:
                    place += 1
                    slot = _next(left[depth, place], 0)
                if slot >= width:
                    place = last
                    break
            cell[depth] = place * width + slot
            if place == last or over[depth] > rest:
                depth -= 1
                continue
            at[depth] += 1
            if cell[depth] != first[one] or cells[one] >= uncovered[depth]:
                continue
            after = depth + 1
            sums[after] = sums[depth] - answers[one]
            if sums[after] < 0 or (after == PARTS and sums[after] >= k):
                continue
            if not _fits(places[one], slots[one], left[depth]):
                continue
            part[after], uncovered[after] = one, uncovered[depth] - cells[one]
            if sums[after] < k:  # told by these alone; one part is a difference
                if after > 1 and uncovered[after] <= rest:
                    if many == most:
                        return found, 0
                    found[many, 0] = whole
                    found[many, 1 : after + 1] = part[1 : after + 1]
                    many += 1
                continue
            left[after, low:last] = left[depth, low:last]
            place = _next(places[one], 0)
            while place < many_places:
                left[after, place] &= ~slots[one]
                place = _next(places[one], place + 1)
            cell[after], over[after], at[after] = cell[depth], over[depth], at[depth]
            depth = after
        left[0, low:last] = _NONE
        if steps <= 0:
            break
    return found[:many], steps


@compiled
def _hashed(row: Words, table: int) -> np.int64:
    held = np.uint64(0x9E3779B97F4A7C15)
    for word in row:
        held = (held ^ word) * np.uint64(0xBF58476D1CE4E5B9)
        held ^= held >> np.uint64(29)
    return np.int64(held & np.uint64(table - 1))


@compiled
def _looked_up(row: Words, sets: Words, table: Ints) -> np.int64:
    at = _hashed(row, table.size)
    while table[at] >= 0:
        same = True
        for word in range(row.size):
            if sets[table[at], word] != row[word]:
                same = False
                break
        if same:
            break
        at = (at + 1) & (table.size - 1)
    return np.int64(table[at])


@compiled
def _unions(sets: Words, table: Ints, steps: int) -> tuple[Ints, bool]:
    """Two questions, neither in the other, and the one that is their union."""
    found, many, done = np.empty((256, 3), np.int64), 0, 0
    union = np.empty(sets.shape[1], np.uint64)
    for one in range(len(sets)):
        for other in range(one):
            done += 1
            inner = outer = True
            for word in range(union.size):
                union[word] = sets[one, word] | sets[other, word]
                inner &= union[word] == sets[one, word]
                outer &= union[word] == sets[other, word]
            if inner or outer:
                continue
            both = _looked_up(union, sets, table)
            if both < 0:
                continue
            if many == MOST_UNIONS:
                return found[:many], False
            if many == len(found):
                longer = np.empty((2 * many, 3), np.int64)
                longer[:many] = found
                found = longer
            found[many] = other, one, both
            many += 1
        if done > steps:
            return found[:many], False
    return found[:many], True


def overlaps(
    answers: Ints, sets: Words, k: int, additive: bool, most: int, steps: int
) -> tuple[Ints, bool]:
    """Sets with their unions of which fewer than k are in each: rows of 3, 4 or 7, and -1.

    `additive` for visits, of which none is in two questions that do not meet.
    """
    size = 1 << int(np.ceil(np.log2(4 * len(sets))))
    table = np.full(size, -1, np.int64)
    _enter(sets, table)
    unions, whole = _unions(sets, table, steps)
    unions = unions[np.lexsort((unions[:, 1], unions[:, 0]))]
    starts = np.searchsorted(unions[:, 0], np.arange(len(sets) + 1))
    rows, all_found = _overlaps(answers, sets, table, unions, starts, k, additive, most, steps)
    return rows, whole and bool(all_found)


@compiled
def _enter(sets: Words, table: Ints) -> None:
    for row in range(len(sets)):
        at = _hashed(sets[row], table.size)
        while table[at] >= 0:
            at = (at + 1) & (table.size - 1)
        table[at] = row


@compiled
def _overlaps(
    answers: Ints,
    sets: Words,
    table: Ints,
    unions: Ints,
    starts: Ints,
    k: int,
    additive: bool,
    most: int,
    steps: int,
) -> tuple[Ints, bool]:
    found, many, done = np.full((most, 7), -1, np.int64), 0, 0
    for edge in range(len(unions)):
        if many == most or done > steps:
            return found[:many], False
        one, other, both = unions[edge]
        common = sets[one] & sets[other]
        if additive and not common.any():
            continue
        shared = answers[one] + answers[other] - answers[both]
        if shared < k:
            found[many, :3] = one, other, both
            many += 1
        # An inner question with nearly all of what they share.
        inner = np.searchsorted(answers, max(shared - k, 0), side="right")
        while inner < answers.size and answers[inner] <= shared and many < most:
            done += 1
            same = additive and (sets[inner] == common).all()
            if not same and _inside(sets[inner], common):
                found[many, :4] = one, other, both, inner
                many += 1
            inner += 1
        # A third with unions of its own: the lists of both are in ascending order. It tells more
        # even where two meet in few: whether John, whom they single out, was in the hospital.
        first, second = starts[one], starts[other]
        if shared == 0:
            continue
        while first < starts[one + 1] and second < starts[other + 1] and many < most:
            done += 1
            third = unions[first, 1]
            if third != unions[second, 1]:
                if third < unions[second, 1]:
                    first += 1
                else:
                    second += 1
                continue
            a, b = unions[first, 2], unions[second, 2]
            first, second = first + 1, second + 1
            if additive and not (common & sets[third]).any():
                continue
            with_one = answers[one] + answers[third] - answers[a]
            with_other = answers[other] + answers[third] - answers[b]
            all_three = _looked_up(sets[both] | sets[third], sets, table)
            if all_three < 0 or with_one == 0 or with_other == 0:
                continue
            if with_one + with_other - answers[third] - answers[both] + answers[all_three] < k:
                found[many] = one, other, third, both, a, b, all_three
                many += 1
    return found[:many], True
