"""Wait for Me: (k, delta)-anonymity of trajectories that are not on a clock (Abul et al. 2010).

Trajectories have points at different times and different numbers of them. Their distance is EDR,
the edit distance on real sequences (Chen, Ozsu & Oria 2005): the fewest points to insert, delete or
replace, where two points are the same if they are close in space and in time; here as a share of
the longer one. Clusters are found as for Never Walk Alone. Then every member is edited into its
pivot: a point that the pivot has an equal of moves to the pivot's time and into the disc of radius
delta / 2 around the pivot's point; a point without one is deleted; a point of the pivot without one
is *made up*, uniformly in the disc. All of a cluster have points at the pivot's times and nowhere
are two more than delta apart.

What is made up was never there: its share is stated. With delta > 0 this is no k-anonymity
(Definition 1), as for Never Walk Alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato_lab.syntactic.never_walk_alone import (
    SLACK_M,
    greedy,
    partition,
    smallest_radius,
)
from sfumato_lab.syntactic.people import TRAJECTORIES, Held, enough_people, on_clock

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BLOCK = 1024
"""People who are clustered together: a matrix of edit distances costs a product of lengths each."""
BEGIN = 0.05
"""First radius, as a share of points."""


@dataclass(frozen=True, slots=True, eq=False)
class Edited:
    """People x slots x 2 metres, NaN where there is no point; who is in which cluster."""

    at: Floats
    cluster: Ints
    """-1 in the trash, whose rows are NaN throughout."""
    radius: float
    moved_m: float
    """Mean distance of points that had an equal, in space."""
    made_up: float
    """Share of published points that were never there."""
    deleted: float
    """Share of points that are gone."""


def wait_for_me(
    held: Held,
    centre: Floats,
    slots: int,
    k: int,
    *,
    delta_m: float,
    near_m: float,
    near_slots: int,
    trash: float = 0.1,
    block: int = BLOCK,
    seed: int | None = None,
) -> Edited:
    """Trajectories edited into clusters of at least k.

    Args:
        held: Everybody's visits.
        centre: Of the places, in metres.
        slots: Of the grid.
        k: Fewest in a cluster.
        delta_m: Diameter of the tube.
        near_m: Points this close are the same, if their times are.
        near_slots: Slots this close are the same.
        trash: Largest share of people in no cluster.
        block: People that are clustered together.
        seed: Of pivots and of points that are made up.

    Raises:
        UsageError: There are fewer than k people with a trajectory.
    """
    rng = np.random.default_rng(seed)
    clock = on_clock(held, centre, slots)  # only to know who lies together
    enough_people(clock.who.size, k, TRAJECTORIES)
    rows = clock.at.reshape(len(clock.at), -1)
    parts = partition(rows, block, k)
    at = np.full((len(held), slots, 2), np.nan)
    cluster = np.full(len(held), -1, np.int64)
    clusters, radius = 0, BEGIN
    tally = np.zeros(4)
    for part in parts:
        who = clock.who[part]
        if who.size < k:
            continue
        points, offsets, when = _points(held.take(who), centre)
        apart = _edr(points, offsets, when, near_m**2, near_slots)
        first = np.array([rng.integers(who.size)])
        radius = smallest_radius([apart], first, k, trash, BEGIN)
        label, many = greedy(apart, k, radius**2, first[0])
        pivots = _medoids(apart, label, many)
        inside = max(delta_m / 2 - SLACK_M, 0.0)
        luck = rng.random((who.size, slots, 2))
        edited = np.full((who.size, slots, 2), np.nan)
        _edit(
            points, offsets, when, label, pivots, near_m**2, near_slots, inside, luck, edited, tally
        )
        at[who] = edited
        cluster[who] = np.where(label < 0, -1, label + clusters)
        clusters += many
    return Edited(
        at,
        cluster,
        radius,
        tally[0] / max(1.0, tally[1]),
        tally[2] / max(1.0, tally[1] + tally[2]),
        tally[3] / max(1.0, tally[1] + tally[3]),
    )


def _points(held: Held, centre: Floats) -> tuple[Floats, Ints, Ints]:
    """One point a person and slot: the mean of its places."""
    person, slot = held.person, held.slot.astype(np.int64)
    new = np.r_[True, (person[1:] != person[:-1]) | (slot[1:] != slot[:-1])]
    number = np.cumsum(new) - 1
    many = np.bincount(number)
    where = centre[held.place]
    points = np.column_stack([np.bincount(number, where[:, side]) / many for side in (0, 1)])
    offsets = np.searchsorted(person[new], np.arange(len(held) + 1)).astype(np.int64)
    return points, offsets, slot[new]


def _medoids(apart: NDArray[np.float32], label: Ints, many: int) -> Ints:
    """Of each cluster the member whose largest distance is least: everybody is edited into it."""
    out = np.empty(many, np.int64)
    for one in range(many):
        members = np.flatnonzero(label == one)
        out[one] = members[apart[np.ix_(members, members)].max(axis=1).argmin()]
    return out


@compiled
def _edr(points: Floats, offsets: Ints, when: Ints, near: float, slots: int) -> NDArray[np.float32]:
    """Squared edit distances of all pairs, as shares of the longer trajectory."""
    n = offsets.size - 1
    longest = 0
    for i in range(n):
        longest = max(longest, offsets[i + 1] - offsets[i])
    out = np.zeros((n, n), np.float32)
    last = np.empty(longest + 1, np.int64)
    for i in range(n):
        for j in range(i):
            a, b = offsets[i], offsets[j]
            many, more = offsets[i + 1] - a, offsets[j + 1] - b
            for y in range(more + 1):
                last[y] = y
            for x in range(many):
                corner = last[0]
                last[0] = x + 1
                for y in range(more):
                    east = points[a + x, 0] - points[b + y, 0]
                    north = points[a + x, 1] - points[b + y, 1]
                    gap = abs(when[a + x] - when[b + y])
                    same = east * east + north * north <= near and gap <= slots
                    best = corner + (0 if same else 1)
                    best = min(best, min(last[y], last[y + 1]) + 1)
                    corner = last[y + 1]
                    last[y + 1] = best
            share = last[more] / max(many, more)
            out[i, j] = out[j, i] = share * share
    return out


@compiled
def _edit(
    points: Floats,
    offsets: Ints,
    when: Ints,
    label: Ints,
    pivots: Ints,
    near: float,
    slots: int,
    inside: float,
    luck: Floats,
    out: Floats,
    tally: Floats,
) -> None:
    """Every member along the cheapest edit into its pivot."""
    for i in range(label.size):
        if label[i] < 0:
            continue
        pivot = pivots[label[i]]
        a, b = offsets[i], offsets[pivot]
        many, more = offsets[i + 1] - a, offsets[pivot + 1] - b
        cost = np.empty((many + 1, more + 1), np.int64)
        for x in range(many + 1):
            cost[x, 0] = x
        for y in range(more + 1):
            cost[0, y] = y
        for x in range(1, many + 1):
            for y in range(1, more + 1):
                same = _same(points, when, a + x - 1, b + y - 1, near, slots)
                best = cost[x - 1, y - 1] + (0 if same else 1)
                cost[x, y] = min(best, min(cost[x - 1, y], cost[x, y - 1]) + 1)
        x, y = many, more
        while x > 0 or y > 0:
            same = x > 0 and y > 0 and _same(points, when, a + x - 1, b + y - 1, near, slots)
            if same and cost[x, y] == cost[x - 1, y - 1]:
                t = when[b + y - 1]
                east = points[a + x - 1, 0] - points[b + y - 1, 0]
                north = points[a + x - 1, 1] - points[b + y - 1, 1]
                apart = np.sqrt(east * east + north * north)
                keep = 1.0 if apart <= inside else inside / apart
                out[i, t, 0] = points[b + y - 1, 0] + keep * east
                out[i, t, 1] = points[b + y - 1, 1] + keep * north
                tally[0] += (1.0 - keep) * apart
                tally[1] += 1
                x, y = x - 1, y - 1
                continue
            # A replacement is a deletion and an insertion here: the point itself says nothing.
            if x > 0 and (y == 0 or cost[x, y] == cost[x - 1, y] + 1):
                tally[3] += 1
                x -= 1
                continue
            if x > 0 and cost[x, y] == cost[x - 1, y - 1] + 1:
                tally[3] += 1
                x -= 1
            t = when[b + y - 1]
            radius = inside * np.sqrt(luck[i, t, 0])
            angle = 2.0 * np.pi * luck[i, t, 1]
            out[i, t, 0] = points[b + y - 1, 0] + radius * np.cos(angle)
            out[i, t, 1] = points[b + y - 1, 1] + radius * np.sin(angle)
            tally[2] += 1
            y -= 1


@compiled
def _same(points: Floats, when: Ints, one: int, other: int, near: float, slots: int) -> bool:
    east = points[one, 0] - points[other, 0]
    north = points[one, 1] - points[other, 1]
    close = east * east + north * north <= near
    return bool(close and abs(when[one] - when[other]) <= slots)
