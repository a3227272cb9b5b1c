"""Visits dealt out to made-up people: every visit of the table goes to one person. Post-processing.

The table (place x slot, whole numbers) is cut into visits at home, at work and elsewhere, each at
night, in office hours or at another time. People with a home in a place share its visits at home,
those with work there its visits at work; visits elsewhere go to people whose anchor (home, else
work) lies at the distances that were measured. So the people's density *is* the table, and
nothing is sampled twice.

Who is never seen at night has no home, so night visits go to people with a home alone, and each of
them gets one at home first; likewise for work and office hours. What is left follows how active
people are. Counts are dealt by systematic sampling (Madow 1949): everybody gets the whole number
below or above their share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled

Ints = NDArray[np.int64]
Array = NDArray[Any]

_TINY = 1e-3
"""Weight of people who have all their visits: they come last, and there is always somebody."""


def grouped(place: Ints, places: int) -> tuple[Ints, Ints]:
    """People by place: offsets, and their numbers; people without one are left out."""
    there = np.flatnonzero(place >= 0)
    order = there[np.argsort(place[there], kind="stable")]
    offsets = np.searchsorted(place[order], np.arange(places + 1))
    return offsets.astype(np.int64), order.astype(np.int64)


@compiled
def _systematic(weights: Array, total: int, start: float, out: Array) -> None:
    """Whole numbers in proportion to weights that sum to `total`, added to `out`."""
    whole = 0.0
    for k in range(weights.size):
        whole += weights[k]
    if total <= 0 or whole <= 0:
        return
    done, running = 0, 0.0
    for k in range(weights.size):
        running += weights[k]
        upto = int(np.floor(running / whole * total + start))
        if k == weights.size - 1:
            upto = total
        upto = min(max(upto, done), total)
        out[k] += upto - done
        done = upto


@compiled
def _shuffled(count: int, state: Array) -> Array:
    """A random order of 0, 1, ..., count - 1."""
    found = np.arange(count)
    for k in range(count - 1, 0, -1):
        other = int(_uniform(state) * (k + 1))
        found[k], found[other] = found[other], found[k]
    return found


@compiled
def _uniform(state: Array) -> float:
    """SplitMix64 in [0, 1)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return np.float64(word >> np.uint64(11)) * (1.0 / (1 << 53))


@compiled
def _deal(
    people: Array,
    counts: Array,
    tickets: Array,
    which: Array,
    place: int,
    state: Array,
    out_user: Array,
    out_place: Array,
    out_slot: Array,
    at: int,
) -> int:
    """Gives each person as many visits as counted, spread over slots in a random order of these.

    `tickets` are visits by slot, of which slots `which` are dealt. A person's visits are as far
    apart as can be in that order, so that nobody gets one slot twice unless it must be.
    """
    order = _shuffled(which.size, state)
    total = 0
    for k in range(counts.size):
        total += counts[k]
    if total == 0:
        return at
    keys = np.empty(total)
    owner = np.empty(total, np.int64)
    n = 0
    for k in range(counts.size):
        start = _uniform(state)
        for j in range(counts[k]):
            keys[n] = (j + start) / counts[k]
            owner[n] = people[k]
            n += 1
    turn = np.argsort(keys)
    n = 0
    for k in range(which.size):
        slot = which[order[k]]
        for _ in range(tickets[slot]):
            if n < total:
                out_user[at], out_place[at], out_slot[at] = owner[turn[n]], place, slot
                at += 1
                n += 1
    return at


@compiled
def deal_roles(
    table: Array,
    period: Array,
    role: int,
    offsets: Array,
    members: Array,
    work: Array,
    wanted: Array,
    left: Array,
    nights: Array,
    shifts: Array,
    seed: int,
    out_user: Array,
    out_place: Array,
    out_slot: Array,
    at: int,
) -> int:
    """Visits at home (role 0) or at work (1) of all places, period by period.

    Role 0: everybody gets a night first, who works at home an office hour; who works elsewhere
    gets fewer office hours at home than at work. Role 1: everybody gets an office hour first.
    """
    state = np.array([np.uint64(seed)])
    slots = period.size
    which = np.empty(slots, np.int64)
    for place in range(table.shape[0]):
        people = members[offsets[place] : offsets[place + 1]]
        size = people.size
        for turn in range(3):
            now = (1 + turn) % 3 if role == 1 else turn  # what gives a person the role comes first
            many, total = 0, 0
            for slot in range(slots):
                if period[slot] == now and table[place, slot] > 0:
                    which[many] = slot
                    many += 1
                    total += table[place, slot]
            if total == 0 or size == 0:
                continue
            counts = np.zeros(size, np.int64)
            weights = np.zeros(size)
            first = 0
            share = 0.0
            for k in range(size):
                share += max(wanted[people[k]], _TINY)
            share = total / share
            start = int(_uniform(state) * size)
            for j in range(size):
                k = (start + j) % size
                user = people[k]
                own_office = role == 0 and now == 1 and work[user] == place
                must = (role == 0 and now == 0) or own_office or (role == 1 and now == 1)
                if must and first < total:
                    counts[k] = 1
                    first += 1
                able = True
                if now == 0 and role == 1:
                    able = nights[user] > 1
                if now == 1 and role == 0 and work[user] != place:
                    able = shifts[user] > 1
                weight = max(min(wanted[user] * share, left[user]) - counts[k], _TINY)
                weights[k] = weight if able else 0.0
                if able and now == 1 and role == 0 and work[user] != place:
                    weights[k] = min(weight, shifts[user] - 1.0)
            _systematic(weights, total - first, _uniform(state), counts)
            for k in range(size):
                user = people[k]
                left[user] -= counts[k]
                if role == 0 and now == 0:
                    nights[user] += counts[k]
                if now == 1 and (role == 1 or work[user] == place):
                    shifts[user] += counts[k]
            at = _deal(
                people, counts, table[place], which[:many], place, state,
                out_user, out_place, out_slot, at,
            )  # fmt: skip
    return at


@compiled
def quotas(weights: Array, total: int, seed: int) -> Array:
    """Whole numbers in proportion to the weights, which sum to `total`."""
    out = np.zeros(weights.size, np.int64)
    _systematic(weights, total, _uniform(np.array([np.uint64(seed)])), out)
    return out


@compiled
def deal_elsewhere(
    flows: Array,
    table: Array,
    period: Array,
    now: int,
    offsets: Array,
    members: Array,
    quota: Array,
    kinds: Array,
    seed: int,
    out_user: Array,
    out_place: Array,
    out_slot: Array,
    at: int,
) -> int:
    """Visits elsewhere of one period: `flows` says how many from each anchor to each place.

    People of an anchor stand in a row, in random order. Places come by in random order, and
    whoever is first in the row takes as many visits of a place as go to one of their own other
    places, then goes to the end of the row until they have their quota.
    """
    state = np.array([np.uint64(seed)])
    places, slots = table.shape
    # By place: how many visits each person takes there, as lists that are filled anchor by anchor.
    total = 0
    for a in range(flows.shape[0]):
        for z in range(places):
            total += flows[a, z]
    taken_user = np.empty(total + 1, np.int64)
    taken_count = np.empty(total + 1, np.int64)
    taken_place = np.empty(total + 1, np.int64)
    n = 0
    for anchor in range(flows.shape[0]):
        people = members[offsets[anchor] : offsets[anchor + 1]]
        row = np.empty(people.size, np.int64)
        size = 0
        for k in _shuffled(people.size, state):
            if quota[people[k]] > 0:
                row[size] = people[k]
                size += 1
        if size == 0:
            continue
        everybody, rest = size, np.empty(size, np.int64)
        for k in range(size):
            rest[k] = quota[row[k]]
        head = 0
        for z in _shuffled(places, state):
            wanted = flows[anchor, z]
            while wanted > 0:
                if size == 0:  # more visits than anybody wants: one more round for all
                    size = everybody
                    for k in range(size):
                        rest[k] = 1
                if head >= size:
                    head = 0
                user = row[head]
                # Somebody with a share of a visit to each place has one more now and then.
                each = quota[user] / max(kinds[user], 1.0)
                take = min(max(1, int(each + _uniform(state))), min(wanted, rest[head]))
                taken_user[n], taken_count[n], taken_place[n] = user, take, z
                n += 1
                wanted -= take
                rest[head] -= take
                if rest[head] <= 0:  # done: the last in the row takes the place
                    size -= 1
                    row[head], row[size] = row[size], row[head]
                    rest[head], rest[size] = rest[size], rest[head]
                else:
                    head += 1
    by_place = np.argsort(taken_place[:n], kind="mergesort")
    which = np.empty(slots, np.int64)
    k = 0
    for place in range(places):
        begin = k
        while k < n and taken_place[by_place[k]] == place:
            k += 1
        if k == begin:
            continue
        many = 0
        for slot in range(slots):
            if period[slot] == now and table[place, slot] > 0:
                which[many] = slot
                many += 1
        some = by_place[begin:k]
        at = _deal(
            taken_user[some], taken_count[some], table[place], which[:many], place, state,
            out_user, out_place, out_slot, at,
        )  # fmt: skip
    return at
