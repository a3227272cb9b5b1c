"""k-anonymity of whole records (Definition 1): by generalisation, and by suppression.

Nothing in a record of visits is public or sensitive once and for all, so Definition 1 asks that a
record be the same as k - 1 others *entirely* (Acs, Biczók & Castelluccia 2018, section 2.1).

*By generalisation*: every place is replaced by the area that holds it at one depth of a hierarchy,
every slot by an interval of one length, the same for everybody (full-domain recoding, Sweeney
2002). Of all pairs of depth and length that leave at most the allowed share of people in groups
below k, the one that loses least is taken; who is in such a group is left out, and counted. A week
of a person is nearly unique (de Montjoye et al. 2013), so this ends near the top: that is the
curse of dimensionality, shown rather than hidden.

*By suppression*: items are ordered by how many people have them, records become branches of a
prefix tree, and from the leaves up a branch that fewer than k people end in loses its last item.
What is left of a record is true and exact; k people share all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato_lab.syntactic.hierarchy import Times, Tree
from sfumato_lab.syntactic.people import Held, enough_people

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records as sorted distinct numbers: record i is `items[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints
    items: Ints

    @classmethod
    def of(cls, record: Ints, item: Ints, records: int) -> Rows:
        """From pairs in any order; a pair that stands twice counts once."""
        many = int(item.max(initial=0)) + 1
        key = np.sort(record * many + item)
        key = key[np.r_[True, key[1:] != key[:-1]]] if key.size else key
        offsets = np.searchsorted(key, np.arange(records + 1) * many).astype(np.int64)
        return cls(offsets, key % many)

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def record(self) -> Ints:
        """The record of every item."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def take(self, rows: Ints) -> Rows:
        """Some of the records, in this order."""
        many = np.diff(self.offsets)[rows]
        offsets = np.r_[0, np.cumsum(many)].astype(np.int64)
        at = np.repeat(self.offsets[rows] - offsets[:-1], many) + np.arange(offsets[-1])
        return Rows(offsets, self.items[at])

    def mapped(self, to: Ints) -> Rows:
        """Every item replaced; what falls together counts once."""
        return Rows.of(self.record, to[self.items], len(self))


def identical(rows: Rows) -> Ints:
    """The group of every record: the same number for records that are the same, exactly.

    Example:
        >>> rows = Rows(np.array([0, 2, 3, 5, 5]), np.array([4, 7, 4, 4, 7]))
        >>> group = identical(rows)
        >>> group[0] == group[2], len(set(group.tolist()))
        (np.True_, 3)
    """
    return _prefixes(rows)[0]


def _prefixes(rows: Rows) -> tuple[Ints, list[Ints], list[Ints]]:
    """The node of a prefix tree that every record ends in; parents and items, level by level.

    Nodes are numbered level by level, the root is 0.
    """
    many = np.diff(rows.offsets)
    node = np.zeros(len(rows), np.int64)
    alive = np.flatnonzero(many > 0)
    width = int(rows.items.max(initial=0)) + 1
    nodes = 1
    parents, items = [np.zeros(1, np.int64)], [np.full(1, -1)]
    level = 0
    while alive.size:
        key = node[alive] * width + rows.items[rows.offsets[alive] + level]
        met, at = np.unique(key, return_inverse=True)
        node[alive] = nodes + at
        parents.append(met // width)
        items.append(met % width)
        nodes += met.size
        level += 1
        alive = alive[many[alive] > level]
    return node, parents, items


@dataclass(frozen=True, slots=True)
class Level:
    """How far everything is generalised: depth of the areas, ladder rung of the times."""

    depth: int
    time: int
    loss: float
    left_out: float
    """Share of people in groups below k."""


def generalised(held: Held, depth: int, time: int, space: Tree, times: Times) -> Rows:
    """Records of (interval, area) at a level: interval * nodes + area, so that time comes first."""
    area = space.at_depth(depth)[held.place]
    interval = times.levels[time][held.slot]
    return Rows.of(held.person, interval * space.parent.size + area, len(held))


def small_groups(group: Ints, k: int) -> NDArray[np.bool_]:
    """Who is in a group of fewer than k."""
    small: NDArray[np.bool_] = np.bincount(group, minlength=1)[group] < k
    return small


def choose_level(held: Held, k: int, trash: float, space: Tree, times: Times) -> tuple[Level, Rows]:
    """The level that loses least among those that leave few enough people out.

    Generalising further only makes groups larger: for each length of interval the deepest areas
    that do are found by halving.

    Raises:
        UsageError: There are fewer than k people, or `trash` is no share.
    """
    enough_people(len(held), k)
    if not 0 <= trash < 1:
        raise UsageError("`trash` is a share of people, from 0 to below 1.")
    weight = np.bincount(held.place, minlength=space.leaves)
    best: tuple[Level, Rows] | None = None
    for time in range(len(times.levels)):
        low, high = -1, int(space.depth.max(initial=0)) + 1  # low does, high does not
        found: tuple[Level, Rows] | None = None
        while high - low > 1:
            depth = (low + high) // 2
            rows = generalised(held, depth, time, space, times)
            out = float(small_groups(identical(rows), k).mean())
            if out > trash:
                high = depth
                continue
            low = depth
            coarse = np.average(space.loss[space.at_depth(depth)], weights=weight)
            long = _time_loss(times.levels[time])
            found = Level(depth, time, (float(coarse) + long) / 2, out), rows
        if found is not None and (best is None or found[0].loss < best[0].loss):
            best = found
    assert best is not None  # the last level is one area and one interval: everybody is alike
    return best


def _time_loss(level: Ints) -> float:
    """How much of the period an interval covers, beyond a slot."""
    many = np.bincount(level)[level]
    return float((many - 1).mean() / max(1, level.size - 1))


def suppress(rows: Rows, k: int) -> tuple[Rows, Ints]:
    """Records without the items that too few share, and the group that each is in then.

    Returns:
        What is left of every record, and its group; -1 where nothing is left that k people share.

    Example:
        >>> rows = Rows(np.array([0, 2, 4, 6, 7]), np.array([1, 5, 1, 6, 1, 6, 9]))
        >>> left, group = suppress(rows, 2)
        >>> left.items.tolist(), group.tolist()
        ([1, 6, 1, 6], [-1, 3, 3, -1])
    """
    enough_people(len(rows), k)
    support = np.bincount(rows.items, minlength=1)
    rank = np.empty(support.size, np.int64)
    by_rank = np.argsort(-support, kind="stable")
    rank[by_rank] = np.arange(support.size)
    ordered = rows.mapped(rank)
    node, parents, items = _prefixes(ordered)
    above, item = np.concatenate(parents), np.concatenate(items)
    ends = np.bincount(node, minlength=above.size)
    keep = _pruned(above, ends, k)
    node = keep[node]
    group = np.where(node > 0, node, -1)  # at the root nothing is left
    length = np.where(group >= 0, _lengths(above)[node], 0)
    offsets = np.r_[0, np.cumsum(length)].astype(np.int64)
    left = _branches(above, item, node, offsets)
    back = Rows.of(np.repeat(np.arange(len(rows)), length), by_rank[left], len(rows))
    return back, group


@compiled
def _pruned(parent: Ints, ends: Ints, k: int) -> Ints:
    """Where records of each node go: up, until k of them are together. Changes `ends`."""
    to = np.arange(parent.size)
    for node in range(parent.size - 1, 0, -1):  # a parent has a smaller number
        if 0 < ends[node] < k:
            ends[parent[node]] += ends[node]
            ends[node] = 0
            to[node] = parent[node]
    for node in range(1, parent.size):
        to[node] = to[to[node]] if to[node] != node else node
    return to


@compiled
def _lengths(parent: Ints) -> Ints:
    out = np.zeros(parent.size, np.int64)
    for node in range(1, parent.size):
        out[node] = out[parent[node]] + 1
    return out


@compiled
def _branches(parent: Ints, item: Ints, node: Ints, offsets: Ints) -> Ints:
    out = np.empty(offsets[-1], np.int64)
    for record in range(offsets.size - 1):
        at = node[record]
        for j in range(offsets[record + 1] - 1, offsets[record] - 1, -1):
            out[j] = item[at]
            at = parent[at]
    return out
