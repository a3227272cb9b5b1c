"""Hierarchies: trees of ever larger areas and longer times, along which records are generalised.

A tree has the places (or other leaves) as its first nodes and one root that covers everything. It
is public: given by the holder as a table of children and parents, or made from the places' own
geometry, halving the map at the median of its longer side until every place is alone.

Times are generalised by the local clock: slots, four hours, half days, days, the whole period.
Items of place *and* time climb both ladders in turn, from a place and slot to everything; that is
a tree as well, and every method here works on any of the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.io.names import Role, missing, pick
from sfumato.io.places import id_texts, load_places
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

Ints = NDArray[np.int64]
CHILD = Role("child", frozenset({"child", "place", "area", "from", "id"}))
PARENT = Role("parent", frozenset({"parent", "to", "within", "generalised", "region"}))


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A hierarchy: node i lies in `parent[i]`, the root in itself; the first are the leaves.

    Example:
        >>> tree = Tree(np.array([3, 3, 4, 4, 4]), 3, ("a", "b", "c", "ab", "all"))
        >>> tree.depth.tolist(), tree.covers.tolist()
        ([2, 2, 1, 1, 0], [1, 1, 1, 2, 3])
    """

    parent: Ints
    leaves: int
    labels: Sequence[str]
    depth: Ints = field(init=False)
    covers: Ints = field(init=False)
    """How many leaves lie in each node."""

    def __post_init__(self) -> None:
        depth = _depths(self.parent)
        covers = np.zeros(self.parent.size, np.int64)
        at = np.arange(self.leaves)
        for _ in range(int(depth.max(initial=0)) + 1):
            # Every leaf climbs one step at a time and stays at the root, where it counts once.
            np.add.at(covers, at, 1)
            at = at[self.parent[at] != at]
            at = self.parent[at]
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "covers", covers)

    @property
    def root(self) -> int:
        """The node that covers everything."""
        return int(np.argmin(self.depth))

    @property
    def loss(self) -> NDArray[np.float64]:
        """Normalised certainty penalty: 0 for a leaf, 1 for everything (Xu et al. 2006)."""
        return (self.covers - 1) / max(1, self.leaves - 1)

    def at_depth(self, depth: int) -> Ints:
        """The node of every leaf no deeper than `depth`."""
        at = np.arange(self.leaves)
        for _ in range(int(self.depth.max(initial=0))):
            at = np.where(self.depth[at] > depth, self.parent[at], at)
        return at

    def cover_pairs(self, nodes: Ints) -> tuple[Ints, Ints]:
        """For every leaf each of its ancestors among `nodes`: numbers in `nodes`, and leaves."""
        number = np.full(self.parent.size, -1, np.int64)
        number[nodes] = np.arange(nodes.size)
        areas, leaves = [], []
        at = np.arange(self.leaves)
        for _ in range(int(self.depth.max(initial=0)) + 1):
            there = number[at] >= 0
            areas.append(number[at[there]])
            leaves.append(np.flatnonzero(there))
            top = self.parent[at] == at
            number[at[top]] = -1  # what was counted at the root is not counted again
            at = self.parent[at]
        return np.concatenate(areas), np.concatenate(leaves)


def _depths(parent: Ints) -> Ints:
    """Steps to the root of every node; pointer doubling, so that long chains cost little."""
    nodes = np.arange(parent.size)
    depth = (parent != nodes).astype(np.int64)
    up = parent.copy()
    for _ in range(max(1, int(np.ceil(np.log2(max(2, parent.size)))) + 1)):
        depth = depth + depth[up]
        up = up[up]
    if not (parent[up] == up).all():
        raise InputError("the hierarchy goes round in a circle.")
    return np.asarray(depth, np.int64)


def halved(centre: NDArray[np.float64], names: Sequence[str]) -> Tree:
    """The tree that halves a map at the median of its longer side until places are alone. Public.

    Example:
        >>> tree = halved(np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0], [8.0, 0.0]]), "abcd")
        >>> tree.parent.tolist()
        [5, 5, 6, 6, 4, 4, 4]
    """
    count = len(centre)
    parent = list(range(count))
    todo: list[tuple[Ints, int]] = []

    def branch(members: Ints, above: int) -> None:
        if members.size == 1:
            parent[int(members[0])] = above if above >= 0 else int(members[0])
            return
        parent.append(above if above >= 0 else len(parent))
        todo.append((members, len(parent) - 1))

    branch(np.arange(count), -1)
    while todo:
        members, node = todo.pop(0)
        here = centre[members]
        axis = int(np.argmax(np.ptp(here, axis=0)))
        order = np.lexsort((members, here[:, 1 - axis], here[:, axis]))
        half = (members.size + 1) // 2
        branch(members[order[:half]], node)
        branch(members[order[half:]], node)
    labels = [*names, *(f"area {number}" for number in range(len(parent) - count))]
    return Tree(np.array(parent, np.int64), count, tuple(labels))


def read_tree(given: object, places: Places) -> Tree:
    """A hierarchy of the places from a table of children and parents.

    Raises:
        InputError: It is no tree over these places: something has two parents or none, there are
            several roots, or it goes round in a circle.
    """
    table = load_places(given, roles=(CHILD, PARENT))
    child = pick(table.names, CHILD, {}, table.label)
    if child is None:
        raise missing(table.names, CHILD, table.label)
    above = pick([name for name in table.names if name != child], PARENT, {}, table.label)
    if above is None:
        raise missing(table.names, PARENT, table.label)
    children = id_texts(table.attributes[child], child, table.label)
    parents = id_texts(table.attributes[above], above, table.label)

    def refuse(what: str) -> InputError:
        return InputError(
            f"the hierarchy is not a tree: {what}.",
            file=table.label,
            remedy="Give every place and every area but one a row with what it lies in.",
        )

    pairs = {
        (one, other) for one, other in zip(children, parents, strict=True) if one != other and other
    }
    named = [one for one, _ in pairs]
    if len(set(named)) != len(named):
        raise refuse("something lies in two areas")
    within = dict(pairs)
    ids = [str(one) for one in places.ids]
    areas = sorted({other for _, other in pairs} | set(children))
    inner = [one for one in areas if one not in set(ids)]
    if set(ids) & {other for _, other in pairs}:
        raise refuse("a place has something below it")
    absent = [one for one in ids if one not in within]
    if absent and len(ids) > 1:
        raise refuse(f"{len(absent):,} places lie in nothing")
    if len([one for one in inner if one not in within]) != 1:
        raise refuse("there is not exactly one area that holds everything")
    number = {one: n for n, one in enumerate([*ids, *inner])}
    parent = np.array([number[within.get(one, one)] for one in number], np.int64)
    try:
        return Tree(parent, len(ids), tuple(number))
    except InputError:
        raise refuse("it goes round in a circle") from None


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Ladders of the clock: for each level the interval of every slot, and its first and last."""

    names: tuple[str, ...]
    levels: tuple[Ints, ...]

    @classmethod
    def of(cls, grid: TimeGrid) -> Times:
        """Slots, four hours, half days, days, everything: as far as they differ."""
        starts = grid.starts()
        day = np.unique([one.toordinal() for one in starts], return_inverse=True)[1]
        hour = np.array([one.hour for one in starts])
        found: list[tuple[str, Ints]] = [("slot", np.arange(grid.slots))]
        for name, code in (
            ("4 hours", day * 24 + hour // 4),
            ("half day", day * 24 + hour // 12),
            ("day", day),
            ("all", np.zeros(grid.slots, np.int64)),
        ):
            level = np.unique(code, return_inverse=True)[1].astype(np.int64)
            if level.max() < found[-1][1].max():
                found.append((name, level))
        return cls(tuple(one for one, _ in found), tuple(level for _, level in found))

    def bounds(self, level: int) -> tuple[Ints, Ints]:
        """First and last slot of the intervals of a level."""
        of = self.levels[level]
        return np.searchsorted(of, np.arange(of.max() + 1)), np.searchsorted(
            of, np.arange(of.max() + 1), side="right"
        ) - 1


@dataclass(frozen=True, slots=True, eq=False)
class ItemTree:
    """The tree of (place, slot) items, and the area and interval of each of its nodes."""

    tree: Tree
    area: Ints
    """Node of the places' tree."""
    first: Ints
    last: Ints


def items_tree(space: Tree, times: Times) -> ItemTree:
    """The tree of items `place * slots + slot`: both ladders are climbed in turn, evenly."""
    deepest = int(space.depth.max(initial=0))
    steps = [("time", (n + 0.5) / len(times.levels)) for n in range(1, len(times.levels))]
    steps += [("space", (n + 0.5) / (deepest + 1)) for n in range(1, deepest + 1)]
    slots = times.levels[0].size
    where, when = np.arange(space.leaves), 0
    depth = deepest
    item = np.arange(space.leaves * slots)
    node = item.copy()  # of each leaf on the present level
    parents, areas = [], [item // slots]
    firsts, lasts = [item % slots], [item % slots]
    begin, count = 0, item.size
    for kind, _ in sorted(steps, key=lambda step: (step[1], step[0])):
        if kind == "time":
            when += 1
        else:
            depth -= 1
            where = space.at_depth(depth)
        intervals = times.levels[when]
        code = where[item // slots] * (int(intervals.max()) + 1) + intervals[item % slots]
        met, first, up = np.unique(code, return_index=True, return_inverse=True)
        low, high = times.bounds(when)
        inside = intervals[item[first] % slots]
        parent = np.empty(count, np.int64)
        parent[node - begin] = begin + count + up
        parents.append(parent)
        areas.append(where[item[first] // slots])
        firsts.append(low[inside])
        lasts.append(high[inside])
        begin, count = begin + count, met.size
        node = begin + up
    parents.append(np.arange(begin, begin + count))
    whole = [np.concatenate(one).astype(np.int64) for one in (parents, areas, firsts, lasts)]
    tree = Tree(whole[0], item.size, _Labels(int(whole[0].size)))
    return ItemTree(tree, *whole[1:])


class _Labels(Sequence[str]):
    """Names of nodes that nobody reads: made when asked for."""

    def __init__(self, many: int) -> None:
        self._many = many

    def __len__(self) -> int:
        return self._many

    def __getitem__(self, at: Any) -> Any:
        return f"item {at}"
