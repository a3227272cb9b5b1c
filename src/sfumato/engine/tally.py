"""Compiled passes over users: weights, totals, exact counts. The definition's integers, exactly.

Each takes users low..high of a block (offsets, sorted distinct cells), adds to `out`, and
checks the bound on what it counted: it returns the number of users above it, which the caller
turns into an error. Slots of a user are runs of equal `cell >> bits`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """Mass of the run i..j of one slot in the user's norm."""
    if not with_norms:
        return np.int64(1) if people else np.int64(j - i)
    mask = (np.int64(1) << bits) - 1
    slot = np.int64(cells[i]) >> bits
    total = np.int64(0)
    for n in range(i, j):
        total += norms[np.int64(cells[n]) & mask, slot]
    return (total + (j - i) - 1) // (j - i) if people else total


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
