"""Probabilistic k^m-anonymity (Acs, Achara & Castelluccia 2015): m may be large.

To count all sets of m items is hopeless beyond a few; to draw some is not. The promise: of the
m-itemsets that occur, drawn by a *stated law*, at least the share p is in k records or more, with a
stated confidence. Two laws, and both are measured:

* `sets`, the paper's: uniform over the **distinct m-itemsets that occur**. Rare sets count as much
  as common ones. Drawn exactly: a record in proportion to how many m-subsets it has, then one of
  these uniformly, gives every set in proportion to its support s; kept with probability 1 / s it is
  uniform. With u uniform the test s <= 1 / u needs no more than 1 / u records looked at, so common
  sets are thrown away cheaply. (The paper walks by Metropolis-Hastings to the same law.)
* `people`: a person uniformly, then m of their items uniformly (all, if they have fewer). This is
  what somebody who knows m things about a chosen person meets; common sets count more.

Whoever has fewer than m items has no m-set and is nobody under the first law; under the second
their whole record is drawn.

The share is judged by an exact binomial bound (Clopper-Pearson) on fresh draws. Records are judged
again after every round of generalisation, so round r is judged at (1 - confidence) 6 / (pi r)^2:
over all rounds the chance of a wrong stop is at most 1 - confidence. Otherwise the sets found too
rare generalise, as in `km`: the rarest item of each climbs to its parent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from sfumato.errors import InputError, UsageError
from sfumato.model.compiled import compiled
from sfumato_lab.syntactic.hierarchy import Tree
from sfumato_lab.syntactic.k_anonymity import Rows
from sfumato_lab.syntactic.km import Rare, Tell, climb
from sfumato_lab.syntactic.people import enough_people

Ints = NDArray[np.int64]
MOST_M = 60
AT_ONCE = 1 << 15
"""Sets that are drawn at a time."""
MOST_DRAWS = 1 << 27
"""Draws that may be thrown away in one round before common sets are called too common."""
_ALL = 1 << 62


class Law(StrEnum):
    """How the m items that somebody knows are drawn."""

    SETS = "sets"
    """Uniform over the distinct m-itemsets that occur."""
    PEOPLE = "people"
    """A person uniformly, then m of their items."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Draws by a law, and the share that is in fewer than k records."""

    law: Law
    draws: int
    rare: int
    upper: float
    """No more than this share is too rare, at the confidence that was asked for."""

    @property
    def share(self) -> float:
        """Estimated share in k records or more."""
        return 1.0 - self.rare / max(1, self.draws)


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Records, and for every item the records that have it."""

    rows: Rows
    starts: Ints
    records: Ints

    @classmethod
    def of(cls, rows: Rows) -> Index:
        """The inverted lists."""
        many = int(rows.items.max(initial=0)) + 1
        order = np.argsort(rows.items, kind="stable")
        starts = np.searchsorted(rows.items[order], np.arange(many + 1)).astype(np.int64)
        return cls(rows, starts, rows.record[order])


def draw_sets(
    index: Index, m: int, draws: int, k: int, law: Law, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Itemsets by a law, and their supports as far as k.

    Args:
        index: The records.
        m: Items in a set.
        draws: How many sets.
        k: Supports are counted up to here.
        law: By which they are drawn.
        rng: Of the draws.

    Returns:
        Sets x m items, -1 beyond a shorter record's end; and min(support, k) of each.

    Raises:
        InputError: Nobody has m items, or sets are so common that too few are kept.
    """
    lengths = np.diff(index.rows.offsets)
    if law is Law.PEOPLE:
        has = np.flatnonzero(lengths > 0)
        record = has[rng.integers(has.size, size=draws)]
        return _drawn(index, record, np.full(draws, k), m, k, rng)
    weight = _log_subsets(lengths, m)
    if not np.isfinite(weight).any():
        raise InputError(
            f"nobody has {m} different items: there is no set of so many.",
            remedy="Lower `m`.",
        )
    cumulated = np.cumsum(np.exp(weight - weight.max()))
    sets, support = [np.empty((0, m), np.int64)], [np.empty(0, np.int64)]
    kept = tried = 0
    while kept < draws:
        if tried > MOST_DRAWS:
            raise InputError(
                "sets of items are so common that hardly any is kept: nothing is rare here.",
                remedy="Take the law `people`, or a larger `m`.",
            )
        pick = rng.random(AT_ONCE) * cumulated[-1]
        record = np.minimum(np.searchsorted(cumulated, pick, side="right"), lengths.size - 1)
        with np.errstate(divide="ignore"):
            most = np.minimum(1.0 / rng.random(AT_ONCE), float(_ALL)).astype(np.int64)
        # Counted up to what throws the set away, never up to k alone: whoever stopped at k would
        # keep common sets with probability 1 / k, and rare ones would be too small a share.
        found, times = _drawn(index, record, np.full(AT_ONCE, _ALL), m, k, rng, most)
        keep = times >= 0
        sets.append(found[keep])
        support.append(times[keep])
        kept += int(keep.sum())
        tried += AT_ONCE
    return np.concatenate(sets)[:draws], np.concatenate(support)[:draws]


def _log_subsets(lengths: Ints, m: int) -> NDArray[np.float64]:
    """Logarithm of n over m; minus infinity where n < m."""
    table = np.array(
        [
            -math.inf if n < m else math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
            for n in range(int(lengths.max(initial=0)) + 1)
        ]
    )
    return np.asarray(table[lengths], np.float64)


def _drawn(
    index: Index,
    record: Ints,
    stop: Ints,
    m: int,
    k: int,
    rng: np.random.Generator,
    most: Ints | None = None,
) -> tuple[Ints, Ints]:
    """A uniform subset of each record; its support up to `stop`, -1 where it is above `most`."""
    sets = np.full((record.size, m), -1, np.int64)
    times = np.empty(record.size, np.int64)
    luck = rng.random((record.size, m))
    limit = np.full(record.size, _ALL) if most is None else most
    rows = index.rows
    _subsets_and_supports(
        rows.offsets, rows.items, index.starts, index.records, record, luck, stop, limit, sets,
        times,
    )  # fmt: skip
    return sets, np.where(times < 0, -1, np.minimum(times, k))


@compiled
def _subsets_and_supports(
    offsets: Ints,
    items: Ints,
    starts: Ints,
    records: Ints,
    record: Ints,
    luck: NDArray[np.float64],
    stop: Ints,
    most: Ints,
    sets: Ints,
    times: Ints,
) -> None:
    m = luck.shape[1]
    for d in range(record.size):
        low, high = offsets[record[d]], offsets[record[d] + 1]
        n = high - low
        taken = 0  # a uniform subset in order (Knuth's algorithm R would need a copy)
        if n <= m:
            for j in range(n):
                sets[d, j] = items[low + j]
            taken = n
        else:
            for j in range(m):  # Floyd's: uniform among n over m
                top = n - m + j
                pick = items[low + int(luck[d, j] * (top + 1))]
                for i in range(taken):
                    if sets[d, i] == pick:
                        pick = items[low + top]
                        break
                sets[d, taken] = pick
                taken += 1
        # Look through the records of the item that fewest have.
        few = 0
        for j in range(1, taken):
            a, b = sets[d, j], sets[d, few]
            if starts[a + 1] - starts[a] < starts[b + 1] - starts[b]:
                few = j
        rarest = sets[d, few]
        found = 0
        for at in range(starts[rarest], starts[rarest + 1]):
            other = records[at]
            whole = True
            for j in range(taken):
                if j == few:
                    continue
                left, right = offsets[other], offsets[other + 1]
                end = right
                wanted = sets[d, j]
                while left < right:
                    middle = (left + right) >> 1
                    if items[middle] < wanted:
                        left = middle + 1
                    else:
                        right = middle
                if left >= end or items[left] != wanted:
                    whole = False
                    break
            if whole:
                found += 1
                if found > most[d]:
                    found = -1
                    break
                if found >= stop[d]:
                    break
        times[d] = found


def upper_bound(rare: int, draws: int, mistake: float) -> float:
    """A share that is above the true one but for a chance of `mistake` (Clopper-Pearson)."""
    if rare >= draws:
        return 1.0
    return float(beta.ppf(1 - mistake, rare + 1, draws - rare))


def draws_needed(p: float, mistake: float) -> int:
    """Draws of which half the allowed share may be rare and the bound still hold."""
    draws = 64
    while upper_bound(int((1 - p) * draws / 2), draws, mistake) > 1 - p:
        draws = int(draws * 1.2) + 1
    return draws


def judge(
    rows: Rows, k: int, m: int, p: float, confidence: float, law: Law, seed: int | None = None
) -> Judged:
    """The share of sets in fewer than k records, on fresh draws."""
    rng = np.random.default_rng(seed)
    draws = draws_needed(p, 1 - confidence)
    _, times = draw_sets(Index.of(rows), m, draws, k, law, rng)
    rare = int((times < k).sum())
    return Judged(law, draws, rare, upper_bound(rare, draws, 1 - confidence))


def probabilistic_km(
    rows: Rows,
    k: int,
    m: int,
    tree: Tree,
    *,
    p: float = 0.99,
    confidence: float = 0.95,
    law: Law = Law.SETS,
    seed: int | None = None,
    tell: Tell | None = None,
) -> tuple[Ints, Judged]:
    """The cut of a tree under which at least the share p of m-itemsets is in k records.

    Args:
        rows: Records as sets of leaves.
        k: Fewest records of an itemset.
        m: Items that somebody may know.
        tree: Along which items are generalised.
        p: Least share of itemsets that are in k records.
        confidence: Of that share, over all rounds together.
        law: By which itemsets are drawn.
        seed: Of the draws; none: fresh ones.
        tell: Told what is done.

    Returns:
        The node of every leaf, and what was judged last.

    Raises:
        UsageError: The numbers make no sense, or there are fewer than k people.
        InputError: Nobody has m items.
    """
    enough_people(len(rows), k)
    if isinstance(m, bool) or not isinstance(m, int) or not 1 <= m <= MOST_M:
        raise UsageError(f"`m` is a whole number of items, from 1 to {MOST_M}.")
    if not (0.5 <= p < 1 and 0.5 <= confidence < 1):
        raise UsageError("`p` and `confidence` are shares from 0.5 to below 1.")
    rng = np.random.default_rng(seed)
    at = np.arange(tree.leaves)
    now = rows
    turn = 0
    while True:
        turn += 1
        mistake = (1 - confidence) * 6 / (math.pi * turn) ** 2
        draws = draws_needed(p, mistake)
        if int(np.diff(now.offsets).max()) < m and law is Law.SETS and turn > 1:
            return at, Judged(law, 0, 0, 0.0)  # no set of m items occurs any more
        sets, times = draw_sets(Index.of(now), m, draws, k, law, rng)
        rare = times < k
        upper = upper_bound(int(rare.sum()), draws, mistake)
        if upper <= 1 - p:
            return at, Judged(law, draws, int(rare.sum()), upper)
        at = climb(tree, at, _to_climb(Rare(sets[rare], times[rare]), now, tree))
        now = rows.mapped(at)
        if tell is not None:
            tell("probabilistic k^m-anonymity", -1.0)


def _to_climb(rare: Rare, now: Rows, tree: Tree) -> Ints:
    """Parents of the rarest items of the sets found, those most asked for first."""
    support = np.bincount(now.items, minlength=tree.parent.size)
    blocked = (rare.sets < 0) | (rare.sets == tree.root)
    cost = np.where(blocked, np.iinfo(np.int64).max, support[rare.sets])
    weak = np.take_along_axis(rare.sets, cost.argmin(axis=1)[:, None], axis=1).ravel()
    met, times = np.unique(tree.parent[weak], return_counts=True)
    order = np.argsort(-times, kind="stable")
    return met[order[: max(1, met.size // 4)]]
