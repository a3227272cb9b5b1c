"""k^m-anonymity (Definition 2): whoever knows up to m items of somebody finds 0 or k records.

Records are sets of items (places, or places at times) or, for trajectories, sequences of places.
An itemset of at most m items (a subsequence, where order counts) must be in no record or in at
least k. Three ways, all of which go on until nothing violates that:

* *global* (Terrovitis, Mamoulis & Kalnis 2008): along a tree, the same for everybody. Of each
  itemset that too few share the rarest item climbs to its parent, with all that lies below it;
* *local* (the same authors 2011): records that lie together are anonymised in parts, each with
  areas of its own. Supports only add up when parts are put together, so the whole is k^m-anonymous;
* *by distance* (Poulis et al. 2013, SeqAnon): without a tree; the rarest place of a subsequence is
  merged with the group of places nearest to it.

Itemsets are counted smallest first (apriori): merging items never lowers the support of what they
are part of, so what was mended stays so. Each round mends the quarter of all parents (or places)
that the most violations ask for. Counting is exponential in m: m = 2, 3 for short records; for
more there is `probabilistic`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from sfumato.errors import InputError, UsageError
from sfumato.model.compiled import compiled
from sfumato_lab.syntactic.hierarchy import Tree
from sfumato_lab.syntactic.k_anonymity import Rows
from sfumato_lab.syntactic.people import enough_people

Ints = NDArray[np.int64]
BATCH = 0.25
"""Share of candidates that a round mends. On the made city of 20,000 people, sets of places, m = 2,
one at a time ends at the same loss (0.00985) and takes 70 times as long."""
DENSE = 1 << 26
"""Itemsets that are counted in a table of all there could be: 256 MiB."""
MOST_SETS = 1 << 28
"""Itemsets that are counted by sorting: 2 GiB, twice while they are sorted."""
Tell = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Rare:
    """Itemsets of one size that somebody has and fewer than k have."""

    sets: Ints
    """Itemsets x size, by item."""
    support: Ints


def rare_sets(rows: Rows, k: int, size: int, *, ordered: bool = False) -> Rare:
    """Itemsets of `size` items that 1 to k - 1 records have.

    Args:
        rows: The records; sets are sorted and distinct, sequences are in their order.
        k: Fewest records.
        size: Items in a set.
        ordered: Whether records are sequences and itemsets are subsequences.

    Raises:
        InputError: There are more itemsets than fit into memory.

    Example:
        >>> rows = Rows(np.array([0, 2, 4, 5]), np.array([1, 2, 1, 2, 2]))
        >>> rare_sets(rows, 3, 2).sets.tolist()
        [[1, 2]]
    """
    used, codes = np.unique(rows.items, return_inverse=True)
    codes = codes.astype(np.int64)
    width = max(1, used.size)
    if size == 1 and not ordered:
        support = np.bincount(codes, minlength=width)
        rare = np.flatnonzero(support < k)
        return Rare(used[rare][:, None], support[rare])
    if size == 2 and not ordered and width**2 <= DENSE:
        table = _count_pairs(rows.offsets, codes, width)
        rare = np.flatnonzero((table > 0) & (table < k))
        return Rare(used[np.column_stack([rare // width, rare % width])], table[rare].astype(int))
    if width**size >= 1 << 62:
        raise UsageError("That is too many items at a time.", remedy="Lower `m`.")
    many = _subsets(np.diff(rows.offsets), size)
    if int(many.sum()) > MOST_SETS:
        raise InputError(
            f"there are {int(many.sum()):,} sets of {size} items to count.",
            remedy="Lower `m`, take longer slots or a shorter period, or use `probabilistic-km`.",
        )
    keys = np.empty(int(many.sum()), np.int64)
    kept = _enumerate(rows.offsets, codes, size, width, ordered, keys)
    keys = np.sort(keys[:kept])
    first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if kept else np.empty(0, np.int64)
    support = np.diff(np.r_[first, kept])
    small = support < k
    found = keys[first[small]]
    sets = np.empty((found.size, size), np.int64)
    for at in range(size - 1, -1, -1):
        found, sets[:, at] = np.divmod(found, width)
    return Rare(used[sets], support[small])


def _subsets(lengths: Ints, size: int) -> Ints:
    """n over `size` of every length, exactly while it fits."""
    out = np.ones(lengths.size)
    for j in range(size):
        out *= np.maximum(lengths - j, 0) / (j + 1)
    return np.minimum(np.rint(out), 1 << 60).astype(np.int64)


@compiled
def _count_pairs(offsets: Ints, codes: Ints, width: int) -> NDArray[np.int32]:
    table = np.zeros(width * width, np.int32)
    for i in range(offsets.size - 1):
        for a in range(offsets[i], offsets[i + 1]):
            row = codes[a] * width
            for b in range(a + 1, offsets[i + 1]):
                table[row + codes[b]] += 1
    return table


@compiled
def _enumerate(offsets: Ints, codes: Ints, size: int, width: int, ordered: bool, keys: Ints) -> int:
    """Keys of all subsets of every record, each once a record; how many there are."""
    at = np.empty(size, np.int64)
    put = 0
    for i in range(offsets.size - 1):
        low, high = offsets[i], offsets[i + 1]
        if high - low < size:
            continue
        begin = put
        for j in range(size):
            at[j] = low + j
        while True:
            key = np.int64(0)
            for j in range(size):
                key = key * width + codes[at[j]]
            keys[put] = key
            put += 1
            j = size - 1
            while j >= 0 and at[j] == high - size + j:
                j -= 1
            if j < 0:
                break
            at[j] += 1
            for later in range(j + 1, size):
                at[later] = at[later - 1] + 1
        if ordered:  # a sequence has the same subsequence several times
            own = np.sort(keys[begin:put])
            last = begin
            for j in range(own.size):
                if j == 0 or own[j] != own[j - 1]:
                    keys[last] = own[j]
                    last += 1
            put = last
    return put


def _checked(people: int, k: int, m: int) -> None:
    enough_people(people, k)
    if isinstance(m, bool) or not isinstance(m, int) or not 1 <= m <= 6:
        raise UsageError("`m` is a whole number of items, from 1 to 6.")


def _weakest(rare: Rare, support: Ints, root: int) -> Ints:
    """Of every itemset the item that fewest have; the root is never one."""
    cost = np.where(rare.sets == root, np.iinfo(np.int64).max, support[rare.sets])
    return np.take_along_axis(rare.sets, cost.argmin(axis=1)[:, None], axis=1).ravel()


def _asked_most(candidates: Ints) -> Ints:
    """The quarter of the candidates that most violations ask for."""
    met, times = np.unique(candidates, return_counts=True)
    order = np.argsort(-times, kind="stable")
    return met[order[: max(1, int(np.ceil(BATCH * met.size)))]]


def climb(tree: Tree, at: Ints, chosen: Ints) -> Ints:
    """The cut after the chosen nodes take in all that lies below them."""
    marked = np.zeros(tree.parent.size, np.bool_)
    marked[chosen] = True
    top, node = at.copy(), at.copy()
    for _ in range(int(tree.depth.max(initial=0)) + 1):
        top = np.where(marked[node], node, top)
        node = tree.parent[node]
    return top


def global_km(rows: Rows, k: int, m: int, tree: Tree, tell: Tell | None = None) -> Ints:
    """The cut of a tree under which the records are k^m-anonymous: the node of every leaf.

    Args:
        rows: Records as sets of leaves.
        k: Fewest records that any m items are in, unless none.
        m: Items that somebody may know.
        tree: Along which items are generalised.
        tell: Told what is done and its share.

    Raises:
        UsageError: There are fewer than k people, or m makes no sense.
        InputError: There are more itemsets than can be counted.
    """
    _checked(len(rows), k, m)
    at = np.arange(tree.leaves)
    now = rows
    for size in range(1, m + 1):
        while True:
            rare = rare_sets(now, k, size)
            if not rare.support.size:
                break
            support = np.bincount(now.items, minlength=tree.parent.size)
            weak = _weakest(rare, support, tree.root)
            at = climb(tree, at, _asked_most(tree.parent[weak]))
            now = rows.mapped(at)
            if tell is not None:
                tell(f"k^m-anonymity, {size} of {m} items", -1.0)
    return at


def local_km(
    rows: Rows, k: int, m: int, tree: Tree, part: int, tell: Tell | None = None
) -> tuple[Rows, Ints]:
    """k^m-anonymous records with areas of their own in every part of about `part` people.

    Returns:
        Records of nodes, and the part of everybody.
    """
    _checked(len(rows), k, m)
    if part < k:
        raise UsageError("A part has at least k people.", remedy="Raise `part`.")
    order = _along(rows, tree)
    parts = max(1, len(rows) // part)
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) * parts // len(rows)
    items = rows.items.copy()
    for one in range(parts):
        members = np.flatnonzero(number == one)
        at = global_km(rows.take(members), k, m, tree)
        here = _positions(rows, members)
        items[here] = at[rows.items[here]]
        if tell is not None:
            tell("k^m-anonymity in parts", (one + 1) / parts)
    return Rows.of(rows.record, items, len(rows)), number


def _positions(rows: Rows, members: Ints) -> Ints:
    many = np.diff(rows.offsets)[members]
    ends = np.cumsum(many)
    return np.repeat(rows.offsets[members] - (ends - many), many) + np.arange(many.sum())


def _along(rows: Rows, tree: Tree) -> Ints:
    """Records in the order of their places along the tree: what lies together comes together."""
    path = np.arange(tree.leaves)
    steps = []
    for _ in range(int(tree.depth.max(initial=0)) + 1):
        steps.append(path)
        path = tree.parent[path]
    rank = np.empty(tree.leaves, np.int64)
    rank[np.lexsort(steps)] = np.arange(tree.leaves)
    ranked = rows.mapped(rank)
    length = np.diff(ranked.offsets)
    has = length > 0
    middle, first = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    middle[has] = ranked.items[(ranked.offsets[:-1] + length // 2)[has]]
    first[has] = ranked.items[ranked.offsets[:-1][has]]
    return np.lexsort((first, middle))


def distance_km(
    rows: Rows, k: int, m: int, centre: NDArray[np.float64], tell: Tell | None = None
) -> Ints:
    """The group of every place under which sequences are k^m-anonymous: SeqAnon.

    Args:
        rows: Records as sequences of places.
        k: Fewest records that any subsequence of m places is in, unless none.
        m: Places that somebody may know, in their order.
        centre: Of every place, in metres.
        tell: Told what is done.
    """
    _checked(len(rows), k, m)
    places = len(centre)
    group = np.arange(places)
    for size in range(1, m + 1):
        while True:
            now = Rows(rows.offsets, group[rows.items])
            rare = rare_sets(now, k, size, ordered=True)
            if not rare.support.size:
                break
            support = np.bincount(now.items, minlength=places)
            alone = -1 if np.unique(group).size > 1 else int(group[0])
            if alone >= 0:  # one group of all places: every subsequence is of it alone
                raise InputError(
                    f"some people have more than {size - 1} records and fewer than {k} have as "
                    "many: no grouping of places hides how long a sequence is.",
                    remedy="Lower `m` or `k`.",
                )
            weak = _asked_most(_weakest(rare, support, -1))
            group = _with_nearest(group, weak, centre)
            if tell is not None:
                tell(f"k^m-anonymity, {size} of {m} places", -1.0)
    return group


def _with_nearest(group: Ints, chosen: Ints, centre: NDArray[np.float64]) -> Ints:
    """Groups after each of the chosen is merged with the one whose centre is nearest."""
    numbers, of = np.unique(group, return_inverse=True)
    many = np.bincount(of)
    middle = np.column_stack([np.bincount(of, centre[:, side]) / many for side in (0, 1)])
    which = np.searchsorted(numbers, chosen)
    near = np.asarray(cKDTree(middle).query(middle[which], k=2)[1])
    other = np.where(near[:, 0] == which, near[:, 1], near[:, 0])
    shape = (numbers.size, numbers.size)
    links = coo_array((np.ones(which.size), (which, other)), shape=shape)
    joined = connected_components(links, directed=False)[1]
    first = np.full(joined.max() + 1, -1, np.int64)
    first[joined[::-1]] = numbers[::-1]  # the smallest number stands for its group
    return np.asarray(first[joined[of]], np.int64)
