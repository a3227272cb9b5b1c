"""Compiled passes over users: weights, totals, answers. The definition's integers, exactly.

Each takes users low..high of a block (offsets, sorted distinct cells), adds to `out`, and
checks the bound on what it counted: it returns the number of users above it, which the caller
turns into an error. Slots of a user are runs of equal `cell >> bits`.

No library bounds what a user adds while it counts. As SQL windows and joins the same counts took 48
to 56 bare counts where these passes took 7 (docs/benchmarks/counting.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.lives import lives as lives
from sfumato.model.compiled import compiled

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

Rows = tuple[Array, Array, Int]
"""Cells, offsets of the users, and the bits of a cell that are its place."""
Rule = tuple[Int, Int, float, float]
"""A weight rule's three constants, and 2^16 C in the norm's units, which nobody may exceed."""

WEIGHT_UNITS = 1 << 16
NORM_CEILING = 1 << 53
MASS_CEILING = 1 << 27
SLACK = 1.0 + 1e-9


@compiled
def weight_of(norm_squared: Int, whole_up_to: Int, whole: Int, scale: float) -> Int:
    """Fixed-point weight: see `sfumato.engine.base`."""
    if norm_squared >= NORM_CEILING:
        return np.int64(0)
    if norm_squared <= whole_up_to:
        return np.int64(whole)
    return np.int64(np.floor(scale / np.sqrt(np.float64(norm_squared))))


@compiled
def _plus_square(total: Int, mass: Int) -> Int:
    """total + mass^2, staying at the ceiling once there."""
    mass = min(mass, np.int64(MASS_CEILING))
    return min(total + mass * mass, np.int64(NORM_CEILING))


@compiled
def _slot_mass(
    cells: Array, i: Int, j: Int, bits: Int, norms: Array, with_norms: bool, people: bool
) -> Int:
    """Mass of the run i..j of one slot in the user's norm; without norms, of a person."""
    if not with_norms:
        return np.int64(1)
    mask = (np.int64(1) << bits) - 1
    slot = np.int64(cells[i]) >> bits
    total = np.int64(0)
    for n in range(i, j):
        total += norms[np.int64(cells[n]) & mask, slot]
    return (total + (j - i) - 1) // (j - i) if people else total


@compiled
def _weighted_visits(rows: Rows, low: Int, high: Int, rule: Rule, out: Array) -> Int:
    """`weighted` where each visit is one, in its slot and in the norm: a quarter of the time.

    A slot's square grows by 2n - 1 with its n-th visit, so no loop over slots is needed, whose
    lengths nothing could foresee. No sum of squares reaches 2^63: a user has less than 2^31 cells.
    """
    cells, offsets, bits = rows
    whole_up_to, whole, scale, ceiling = rule
    mask = (np.int64(1) << bits) - 1
    above = 0
    for user in range(low, high):
        begin, end = np.uintp(offsets[user]), np.uintp(offsets[user + 1])
        norm, previous, nth = np.int64(0), np.int64(-1), np.int64(0)
        for i in range(begin, end):
            slot = np.int64(cells[i]) >> bits
            above += slot < previous  # a slot met twice would be missing from the norm
            nth = nth * np.int64(slot == previous) + 1
            norm += 2 * nth - 1
            previous = slot
        weight = weight_of(min(norm, np.int64(NORM_CEILING)), whole_up_to, whole, scale)
        if weight == 0:
            continue
        counted, previous = np.int64(0), np.int64(-1)
        for i in range(begin, end):
            slot = np.int64(cells[i]) >> bits
            out[np.uintp(np.int64(cells[i]) & mask), np.uintp(slot)] += weight
            nth = nth * np.int64(slot == previous) + 1
            counted += 2 * nth - 1
            previous = slot
        above += np.float64(weight) * np.sqrt(np.float64(counted)) > ceiling * SLACK
    return above


@compiled
def weighted(
    rows: Rows,
    low: Int,
    high: Int,
    norms: Array,
    with_norms: bool,
    people: bool,
    rule: Rule,
    out: Array,
) -> Int:
    """Every visit counts its user's weight."""
    if not (with_norms or people):
        return _weighted_visits(rows, low, high, rule, out)
    cells, offsets, bits = rows
    whole_up_to, whole, scale, ceiling = rule
    mask = (np.int64(1) << bits) - 1
    above = 0
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        norm = np.int64(0)
        previous = np.int64(-1)
        i = begin
        while i < end:
            slot = np.int64(cells[i]) >> bits
            above += slot <= previous  # a slot met twice would be missing from the norm
            previous = slot
            j = i + 1
            while j < end and np.int64(cells[j]) >> bits == slot:
                j += 1
            norm = _plus_square(norm, _slot_mass(cells, i, j, bits, norms, with_norms, people))
            i = j
        weight = weight_of(norm, whole_up_to, whole, scale)
        if weight == 0:
            continue
        counted = 0.0
        i = begin
        while i < end:
            slot = np.int64(cells[i]) >> bits
            j = i + 1
            while j < end and np.int64(cells[j]) >> bits == slot:
                j += 1
            share = weight // (j - i) if people else weight
            mass = 0.0
            for n in range(i, j):
                place = np.int64(cells[n]) & mask
                out[place, slot] += share
                mass += np.float64(share) * (norms[place, slot] if with_norms else 1)
            counted += mass * mass
            i = j
        above += np.sqrt(counted) > ceiling * SLACK
    return above


@compiled
def place_totals(
    rows: Rows, low: Int, high: Int, people: bool, units: Int, rule: Rule, out: Array
) -> Int:
    """Each user's totals over places, scaled; `units` is the lattice of a place's total."""
    cells, offsets, bits = rows
    whole_up_to, whole, scale, ceiling = rule
    mask = (np.int64(1) << bits) - 1
    totals = np.zeros(out.size, np.int64)
    touched = np.empty(out.size, np.int64)
    above = 0
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        count = 0
        i = begin
        while i < end:
            slot = np.int64(cells[i]) >> bits
            j = i + 1
            while j < end and np.int64(cells[j]) >> bits == slot:
                j += 1
            share = units // (j - i) if people else np.int64(1)
            for n in range(i, j):
                place = np.int64(cells[n]) & mask
                if share > 0 and totals[place] == 0:
                    touched[count] = place
                    count += 1
                totals[place] += share
            i = j
        norm = np.int64(0)
        for n in range(count):
            norm = _plus_square(norm, totals[touched[n]])
        weight = weight_of(norm, whole_up_to, whole, scale)
        counted = 0.0
        for n in range(count):
            place = touched[n]
            entry = (weight * totals[place]) // units
            out[place] += entry
            counted += np.float64(entry) * np.float64(entry)
            totals[place] = 0
        above += np.sqrt(counted) > ceiling * SLACK
    return above


@compiled
def slot_totals(rows: Rows, low: Int, high: Int, people: bool, rule: Rule, out: Array) -> Int:
    """Each user's mass over slots, scaled."""
    cells, offsets, bits = rows
    whole_up_to, whole, scale, ceiling = rule
    above = 0
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        weight = np.int64(-1)
        for turn in range(2):
            norm = np.int64(0)
            counted = 0.0
            previous = np.int64(-1)
            i = begin
            while i < end:
                slot = np.int64(cells[i]) >> bits
                above += slot <= previous
                previous = slot
                j = i + 1
                while j < end and np.int64(cells[j]) >> bits == slot:
                    j += 1
                mass = np.int64(1) if people else np.int64(j - i)
                if turn == 0:
                    norm = _plus_square(norm, mass)
                else:
                    out[slot] += weight * mass
                    counted += np.float64(weight * mass) * np.float64(weight * mass)
                i = j
            if turn == 0:
                weight = weight_of(norm, whole_up_to, whole, scale)
            else:
                above += np.sqrt(counted) > ceiling * SLACK
    return above


@compiled
def _activity(cells: Array, begin: Int, end: Int, bits: Int, people: bool) -> Int:
    """Distinct cells of a user, or for `people` the slots among them."""
    if not people:
        return np.int64(end - begin)
    mass = np.int64(0)
    previous = np.int64(-1)
    for i in range(begin, end):
        slot = np.int64(cells[i]) >> bits
        mass += slot != previous
        previous = slot
    return mass


@compiled
def capped_total(rows: Rows, low: Int, high: Int, people: bool, cap: Int, out: Array) -> Int:
    """Sum over users of min(total mass, cap)."""
    cells, offsets, bits = rows
    for user in range(low, high):
        mass = _activity(cells, offsets[user], offsets[user + 1], bits, people)
        out[0] += min(mass, cap)
    return 0


@compiled
def ladder(
    rows: Rows,
    low: Int,
    high: Int,
    people: bool,
    steps: Array,
    gains: Array,
    most: float,
    out: Array,
) -> Int:
    """Each user's activity cut into steps, times the steps' gains; squares sum to at most `most`.

    They are whole and sum to at most 2^48 (`sfumato.model.ladder`), so doubles add them exactly.
    """
    cells, offsets, bits = rows
    above = 0
    for user in range(low, high):
        mass = _activity(cells, offsets[user], offsets[user + 1], bits, people)
        counted = 0.0
        below = np.int64(0)
        for k in range(steps.size):
            if mass <= below:
                break
            entry = gains[k] * (min(mass, steps[k]) - below)
            out[k] += entry
            counted += np.float64(entry) * np.float64(entry)
            below = steps[k]
        above += counted > most
    return above


@compiled
def capped_answer(
    rows: Rows, low: Int, high: Int, places: Array, slots: Array, cap: Int, out: Array
) -> Int:
    """One question: the sum over users of min(visits inside, cap)."""
    cells, offsets, bits = rows
    mask = (np.int64(1) << bits) - 1
    for user in range(low, high):
        inside = np.int64(0)
        for i in range(offsets[user], offsets[user + 1]):
            cell = np.int64(cells[i])
            inside += (places[cell & mask, 0] & slots[cell >> bits, 0]) != 0
        out[0] += min(inside, cap)
    return 0


_SEQUENCE = 0x03F79D71B4CB0A89
"""A de Bruijn sequence: its 64 windows of six bits all differ, so a product's top bits say which
power of two it was multiplied by."""
_WINDOWS = np.zeros(64, np.int64)
for _k in range(64):
    _WINDOWS[(_SEQUENCE << _k) % (1 << 64) >> 58] = _k


@compiled
def _lowest(word: Int) -> Int:
    """Which bit of a word is the lowest one set."""
    alone = word & (~word + np.uint64(1))
    return _WINDOWS[(alone * np.uint64(_SEQUENCE)) >> np.uint64(58)]


@compiled
def answers(
    rows: Rows,
    low: Int,
    high: Int,
    places: Array,
    slots: Array,
    unique: bool,
    rule: Rule,
    out: Array,
) -> Int:
    """Several questions: each user's vector of answers, scaled.

    An entry is the user's visits inside the question, or one where `unique` asks for people.
    """
    cells, offsets, bits = rows
    whole_up_to, whole, scale, ceiling = rule
    mask = (np.int64(1) << bits) - 1
    words = places.shape[1]
    inside = np.zeros(out.size, np.int64)
    met = np.zeros(words, np.uint64)
    one = np.uint64(1)
    above = 0
    for user in range(low, high):
        for i in range(offsets[user], offsets[user + 1]):
            cell = np.int64(cells[i])
            place, slot = cell & mask, cell >> bits
            for k in range(words):
                both = places[place, k] & slots[slot, k]
                met[k] |= both
                while both != 0 and not unique:
                    inside[64 * k + _lowest(both)] += 1
                    both &= both - one
        norm = np.int64(0)
        for k in range(words):
            both = met[k]
            while both != 0:
                norm = _plus_square(norm, 1 if unique else inside[64 * k + _lowest(both)])
                both &= both - one
        weight = weight_of(norm, whole_up_to, whole, scale)
        counted = 0.0
        for k in range(words):
            both = met[k]
            while both != 0:
                at = 64 * k + _lowest(both)
                entry = weight if unique else weight * inside[at]
                out[at] += entry
                counted += np.float64(entry) * np.float64(entry)
                inside[at] = 0
                both &= both - one
            met[k] = 0
        above += np.sqrt(counted) > ceiling * SLACK
    return above


@compiled
def exact(rows: Rows, low: Int, high: Int, people: bool, out: Array) -> Int:
    """Every visit counts: one, or its share of 2^16 in the slot."""
    cells, offsets, bits = rows
    mask = (np.int64(1) << bits) - 1
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        i = begin
        while i < end:
            slot = np.int64(cells[i]) >> bits
            j = i + 1
            while j < end and np.int64(cells[j]) >> bits == slot:
                j += 1
            share = np.int64(WEIGHT_UNITS // (j - i)) if people else np.int64(1)
            for n in range(i, j):
                out[np.int64(cells[n]) & mask, slot] += share
            i = j
    return 0
