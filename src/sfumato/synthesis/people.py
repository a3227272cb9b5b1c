"""From a population to records: people, their visits, and times. The only randomness is public.

Whole numbers come from controlled rounding: running sums are rounded, so that sums over
neighbouring cells stay what they are to within one, and no sampling noise is added.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.model.lives import ACTIVITY, COARSE, LifeQuestion
from sfumato.synthesis.allot import (
    deal_elsewhere,
    deal_roles,
    grouped,
    quotas,
)
from sfumato.synthesis.fit import Population, classes
from sfumato.synthesis.method import Chunk, SynthFacts, people_stream

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Shorts = NDArray[np.int32]

CHUNK = 200_000
"""People of one chunk."""
_SWAPS = 6
"""Rounds of mending: each leaves a few percent of the repetitions."""


def rounded_running(values: Floats, total: int | None = None, start: float = 0.5) -> Ints:
    """Whole numbers whose running sums are those of `values` to within one, in their order."""
    flat = values.ravel()
    running = np.cumsum(flat)
    if total is not None and running[-1] > 0:
        running *= total / running[-1]
    upto = np.floor(running + start).astype(np.int64)
    if total is not None:
        upto[-1] = total
    upto = np.maximum.accumulate(upto)
    return np.diff(upto, prepend=0).reshape(values.shape)


def whole_roles(roles: Floats) -> Ints:
    """Place x slot x role as whole numbers: places by slot first, then the roles in them.

    The table is rounded along the places of one slot after the other, so that totals of slots and
    of neighbouring places stay; roles along the slots of a place.
    """
    table = roles.sum(axis=2)
    places = table.shape[0]
    whole = np.ascontiguousarray(rounded_running(np.ascontiguousarray(table.T)).T)
    share = roles / np.maximum(table, 1e-12)[:, :, None]
    home = np.stack([rounded_running(share[p, :, 0] * whole[p]) for p in range(places)])
    home = np.minimum(home, whole)
    work = np.stack([rounded_running(share[p, :, 1] * whole[p]) for p in range(places)])
    work = np.minimum(work, whole - home)
    return np.stack([home, work, whole - home - work], axis=2)


def settled(found: Population, people: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Home, work (-1: none) and standing of each person; neighbours follow each other."""
    standing = rounded_running(found.activity.sum(axis=1), people)
    size = found.homes.size
    own = np.diag(found.pairs)
    apart = found.pairs - np.diag(own)
    parts_home, parts_work, parts = [], [], []
    alone = rounded_running(found.homes, int(standing[1]))
    workers = rounded_running(found.works, int(standing[2]))
    pairs = rounded_running(apart, int(standing[3]))
    same = rounded_running(own if own.sum() > 0 else found.homes, int(standing[4]))
    none = int(standing[0])
    parts_home.append(np.full(none, -1))
    parts_work.append(np.full(none, -1))
    parts_home.append(np.repeat(np.arange(size), alone))
    parts_work.append(np.full(int(alone.sum()), -1))
    parts_home.append(np.full(int(workers.sum()), -1))
    parts_work.append(np.repeat(np.arange(size), workers))
    flat = np.repeat(np.arange(size * size), pairs.ravel())
    parts_home.append(flat // size)
    parts_work.append(flat % size)
    both = np.repeat(np.arange(size), same)
    parts_home.append(both)
    parts_work.append(both)
    parts = [np.full(len(part), k) for k, part in enumerate(parts_home)]
    order = people_stream(seed, "order").permutation(people)
    return tuple(  # type: ignore[return-value]
        np.concatenate(one).astype(np.int64)[order] for one in (parts_home, parts_work, parts)
    )


def activities(law_of: Floats, standing: Ints, seed: int) -> Floats:
    """How many visits each person wants, by the law of their standing (standing x class)."""
    random = people_stream(seed, "activity")
    wanted = np.empty(standing.size)
    for kind in range(law_of.shape[0]):
        who = np.flatnonzero(standing == kind)
        if who.size == 0:
            continue
        law = law_of[kind]
        law = law if law.sum() > 0 else np.ones(ACTIVITY)
        sizes = rounded_running(law, who.size)
        level = np.repeat(np.arange(ACTIVITY), sizes)
        # Within a class from n to 2 n the smaller numbers are the likelier ones.
        inside = random.random(who.size) ** 1.3
        value = np.floor(np.exp2(level) * (1 + inside))
        wanted[who] = value[random.permutation(who.size)]
    return wanted


def dealt(
    found: Population, question: LifeQuestion, at: Floats, people: int, seed: int
) -> tuple[Shorts, Shorts, Shorts]:
    """Person, place and slot of every visit."""
    roles = whole_roles(found.roles)
    places = roles.shape[0]
    total = int(roles.sum())
    home, work, standing = settled(found, people, seed)
    random = people_stream(seed, "anchors")
    anchor = np.where(home >= 0, home, work)
    lost = np.flatnonzero(anchor < 0)
    anchor[lost] = random.choice(places, lost.size, p=found.homes)
    wanted = activities(found.activity, standing, seed)
    wanted *= total / max(wanted.sum(), 1.0)
    left = wanted.copy()
    nights, shifts = np.zeros(people, np.int64), np.zeros(people, np.int64)
    user = np.empty(total, np.int32)
    place = np.empty(total, np.int32)
    slot = np.empty(total, np.int32)
    period = question.period
    words = random.integers(1, 1 << 62, 8)
    n = 0
    people_at = (work, wanted, left, nights, shifts)
    works_elsewhere = np.where(work == home, -1, work)
    n = deal_roles(
        np.ascontiguousarray(roles[:, :, 1]), period, 1, *grouped(works_elsewhere, places),
        *people_at, int(words[0]), user, place, slot, n,
    )  # fmt: skip
    n = deal_roles(
        np.ascontiguousarray(roles[:, :, 0]), period, 0, *grouped(home, places),
        *people_at, int(words[1]), user, place, slot, n,
    )  # fmt: skip
    # What places without residents or workers have left over is elsewhere, too.
    spread = np.zeros_like(roles[:, :, 2])
    np.add.at(spread, (place[:n], slot[:n]), 1)
    rest = roles.sum(axis=2) - spread
    many = np.log2(np.maximum(wanted, 1)).astype(np.int64)
    coarse = np.clip(many - 1, 0, COARSE - 1)
    kinds = np.maximum(found.variety[coarse] - (home >= 0) - ((work >= 0) & (work != home)), 1.0)
    offsets, members = grouped(anchor, places)
    for now in range(3):
        able = np.ones(people, np.bool_)
        if now == 0:
            able = nights > 1
        if now == 1:
            able = shifts > 1
        supply = np.where(period[None, :] == now, rest, 0).sum(axis=1)
        weight = np.where(able, np.maximum(left, 1e-3), 0.0)
        if now == 0:
            weight = np.minimum(weight, 2.0 * np.maximum(nights - 1, 0))
        if now == 1:
            weight = np.minimum(weight, 2.0 * np.maximum(shifts - 1, 0))
        if weight.sum() <= 0:
            weight = np.ones(people)
        quota = quotas(weight, int(supply.sum()), int(words[2 + now]))
        flows = errand_flows(found, at, question, now, anchor, quota, supply)
        n = deal_elsewhere(
            flows, rest, period, now, offsets, members, quota, kinds, int(words[5 + now]),
            user, place, slot, n,
        )  # fmt: skip
        left -= quota
    return without_repeats(user[:n], place[:n], slot[:n], period, random)


def without_repeats(
    user: Shorts, place: Shorts, slot: Shorts, period: Ints, random: np.random.Generator
) -> tuple[Shorts, Shorts, Shorts]:
    """Where a person was dealt one slot of a place twice, its second visit changes slots with
    another at the same place and in the same period of the day; where that does not help (a person
    with more visits than there are slots), somebody else who comes there has the visit."""
    slots = period.size
    group = place.astype(np.int64) * 3 + period[slot]
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], np.arange(int(group.max(initial=0)) + 2))
    for turn in range(3 * _SWAPS):
        key = (user.astype(np.int64) * slots + slot) * (int(place.max(initial=0)) + 1) + place
        by = np.argsort(key, kind="stable")
        again = by[1:][np.diff(key[by]) == 0]
        if again.size == 0:
            break
        first, last = begins[group[again]], begins[group[again] + 1]
        other = order[first + (random.random(again.size) * (last - first)).astype(np.int64)]
        if turn >= _SWAPS:
            user[again] = user[other]
            continue
        _, once = np.unique(other, return_index=True)  # nobody's visit changes hands twice
        again, other = again[once], other[once]
        apart = ~np.isin(other, again)
        again, other = again[apart], other[apart]
        slot[again], slot[other] = slot[other], slot[again]
    return user, place, slot


def errand_flows(
    found: Population,
    at: Floats,
    question: LifeQuestion,
    now: int,
    anchor: Ints,
    quota: Ints,
    supply: Ints,
) -> Ints:
    """Anchor x place in whole numbers: as many to each place as it has visits left."""
    places = supply.size
    demand = np.bincount(anchor, quota, places)
    table = np.concatenate(
        [
            found.errands[now][classes(at, question.edges, slice(k, k + 256))]
            for k in range(0, places, 256)
        ]
    )
    table += 1e-7
    np.fill_diagonal(table, 1e-9)
    for _ in range(30):
        table *= (supply / np.maximum(table.sum(axis=0), 1e-12))[None, :]
        table *= (demand / np.maximum(table.sum(axis=1), 1e-12))[:, None]
    table *= (supply / np.maximum(table.sum(axis=0), 1e-12))[None, :]
    table[demand == 0] = 0.0
    columns = [
        rounded_running(table[:, z], int(supply[z]), start=(0.5 + 0.618034 * z) % 1)
        for z in range(places)
    ]
    return np.ascontiguousarray(np.stack(columns, axis=1))


@compiled
def _times(user: Ints, slot: Ints, edges: Ints, luck: Floats, time: Ints) -> None:
    """An instant of each visit: several of one person in a slot share it in equal parts."""
    k = 0
    while k < user.size:
        j = k
        while j < user.size and user[j] == user[k] and slot[j] == slot[k]:
            j += 1
        width = edges[slot[k] + 1] - edges[slot[k]]
        for i in range(k, j):
            part = (i - k + 0.1 + 0.8 * luck[i]) / (j - k) if j - k > 1 else luck[i]
            second = np.int64(part * (width // 1_000_000))
            time[i] = edges[slot[k]] + second * 1_000_000
        k = j


def made_chunks(
    found: Population, question: LifeQuestion, at: Floats, facts: SynthFacts
) -> Iterator[Chunk]:
    """Records of all people, some at a time, in order of person and time."""
    user, place, slot = dealt(found, question, at, facts.people, facts.seed)
    slots = question.period.size
    order = np.argsort(user.astype(np.int64) * slots + slot, kind="stable")
    user, place, slot = (one[order] for one in (user, place, slot))
    del order
    edges = facts.public.grid.edges
    for number, first in enumerate(range(0, facts.people, CHUNK)):
        low, high = np.searchsorted(user, [first, first + CHUNK])
        who = user[low:high].astype(np.int64)
        when = slot[low:high].astype(np.int64)
        random = people_stream(facts.seed, "times", number)
        time = np.empty(who.size, np.int64)
        _times(who, when, edges, random.random(who.size), time)
        yield Chunk(who, time, place[low:high].astype(np.int64))
