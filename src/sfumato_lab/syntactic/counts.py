"""Counts of people by place and slot: small ones suppressed, sums protected, numbers rounded.

*Primary suppression*: a count below k is not published. A total adds up people once for each place
and slot, so one person can make it large: it is not published where fewer than k *different* people
are behind it.

*Secondary suppression*: where totals of rows and columns are published, a single suppressed count
of a row follows by subtraction. Further cells are suppressed until no suppressed one follows. What
follows is decided exactly (Gusfield 1988): take rows and columns as nodes and suppressed cells as
edges. A way to change cells so that no sum changes is a cycle; an edge may be passed one way where
its count can grow and also the other where it can shrink, which nought cannot. A suppressed cell is
determined if and only if no such cycle has it: its ends are in different strongly connected
components, or it is a bridge within one (Boesch & Tindell 1980: a strongly connected mixed graph
without bridges has a strongly connected orientation). Totals are cells like others, with their sign
turned. To protect a cell the cheapest path between its ends is suppressed, where a cell costs what
it counts.

That a count does not follow exactly does not mean that little follows: bounds do, and the attack
`differencing` computes them. Without secondary suppression the subtraction itself works.

*Rounding*: to the nearest multiple of a base, or at random to one of the two next to it so that the
mean is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato_lab.syntactic.people import Held, enough_people
from sfumato_lab.syntactic.published import Counts

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Rounding(StrEnum):
    """How counts are rounded."""

    NONE = "none"
    NEAREST = "nearest"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Suppressed:
    """How many cells were not published, for which reason."""

    primary: int
    secondary: int
    determined: int
    """Suppressed cells that follow from the totals all the same."""


def different_people(held: Held, places: int, slots: int) -> Ints:
    """How many different people were in each place and slot; the last column in each place at any
    time, the last row in each slot anywhere, and their corner at all.

    Example:
        >>> alone = Held.of([0, 0, 0, 1], [0, 0, 0, 1], [0, 1, 2, 0])
        >>> different_people(alone, 2, 3).tolist()
        [[1, 1, 1, 1], [1, 0, 0, 1], [2, 1, 1, 2]]
    """
    place, slot = held.place.astype(np.int64), held.slot.astype(np.int64)
    by_place = np.unique(held.person * places + place) % places
    by_slot = np.unique(held.person * slots + slot) % slots
    out = np.empty((places + 1, slots + 1), np.int64)
    cells = np.bincount(place * slots + slot, minlength=places * slots)
    out[:-1, :-1] = cells.reshape(places, slots)
    out[:-1, -1] = np.bincount(by_place, minlength=places)
    out[-1, :-1] = np.bincount(by_slot, minlength=slots)
    out[-1, -1] = len(held)
    return out


def with_totals(people: Ints) -> Ints:
    """The table with its sums as a last column and a last row."""
    rows = np.column_stack([people, people.sum(axis=1)])
    return np.vstack([rows, rows.sum(axis=0)])


def determined(table: Ints, hidden: Flags) -> Flags:
    """Which hidden cells of a table with totals follow from what is shown.

    Args:
        table: With its sums as the last column and row.
        hidden: What is not shown, sums among it.

    Example:
        >>> table = with_totals(np.array([[1, 7], [8, 9]]))
        >>> determined(table, table < 5).nonzero()
        (array([0]), array([0]))
    """
    rows, columns = table.shape
    row, column = np.nonzero(hidden)
    tail, head = row, rows + column
    turned = (row == rows - 1) != (column == columns - 1)  # a sum grows the other way
    tail, head = np.where(turned, head, tail), np.where(turned, tail, head)
    shrinks = table[row, column] > 0
    arcs = (np.r_[tail, head[shrinks]], np.r_[head, tail[shrinks]])
    n = rows + columns
    graph = csr_array((np.ones(arcs[0].size), arcs), shape=(n, n))
    part = connected_components(graph, connection="strong")[1]
    same = part[tail] == part[head]
    fixed = ~same
    fixed[same] = _bridges(n, tail[same].astype(np.int64), head[same].astype(np.int64))
    out = np.zeros_like(hidden)
    out[row, column] = fixed
    return out


@compiled
def _bridges(n: int, one: Ints, other: Ints) -> Flags:
    """Which edges lie on no cycle: Tarjan's search, without recursion."""
    edges = one.size
    degree = np.zeros(n + 1, np.int64)
    for e in range(edges):
        degree[one[e] + 1] += 1
        degree[other[e] + 1] += 1
    start = np.cumsum(degree)
    fill = start[:-1].copy()
    edge = np.empty(2 * edges, np.int64)
    for e in range(edges):
        edge[fill[one[e]]] = e
        fill[one[e]] += 1
        edge[fill[other[e]]] = e
        fill[other[e]] += 1
    seen = np.full(n, -1, np.int64)
    low = np.zeros(n, np.int64)
    at = start[:-1].copy()
    via = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    out = np.zeros(edges, np.bool_)
    clock = 0
    for root in range(n):
        if seen[root] >= 0:
            continue
        height = 1
        stack[0] = root
        seen[root] = low[root] = clock
        clock += 1
        while height:
            u = stack[height - 1]
            if at[u] < start[u + 1]:
                e = edge[at[u]]
                at[u] += 1
                if e == via[u]:
                    continue
                v = other[e] if one[e] == u else one[e]
                if seen[v] < 0:
                    seen[v] = low[v] = clock
                    clock += 1
                    via[v] = e
                    stack[height] = v
                    height += 1
                else:
                    low[u] = min(low[u], seen[v])
            else:
                height -= 1
                if height:
                    above = stack[height - 1]
                    low[above] = min(low[above], low[u])
                    if low[u] > seen[above]:
                        out[via[u]] = True
    return out


def protect(table: Ints, hidden: Flags) -> Flags:
    """What to hide of a table with totals so that no hidden cell follows."""
    hidden = hidden.copy()
    rows, columns = table.shape
    n = rows + columns
    every = np.indices(table.shape).reshape(2, -1)
    turned = (every[0] == rows - 1) != (every[1] == columns - 1)
    tail = np.where(turned, rows + every[1], every[0])
    head = np.where(turned, every[0], rows + every[1])
    value = table.ravel()
    while True:
        follows = np.flatnonzero(determined(table, hidden))
        if not follows.size:
            return hidden
        cell = int(follows[np.argmin(value[follows])])
        # Hidden cells cost next to nothing, others what they count; nought cannot shrink.
        price = np.where(hidden.ravel(), 1e-6, value + 1.0)
        usable = np.arange(value.size) != cell
        back = usable & (value > 0)
        arcs = (np.r_[tail[usable], head[back]], np.r_[head[usable], tail[back]])
        graph = csr_array((np.r_[price[usable], price[back]], arcs), shape=(n, n))
        far, before = dijkstra(graph, indices=head[cell], return_predecessors=True)
        if not np.isfinite(far[tail[cell]]):
            return np.ones_like(hidden)  # there is nothing to hide it behind
        at = int(tail[cell])
        while at != head[cell]:
            last = int(before[at])
            row, column = (last, at - rows) if last < rows else (at, last - rows)
            hidden[row, column] = True
            at = last


def suppress_counts(
    different: Ints, k: int, *, totals: bool, secondary: bool
) -> tuple[Ints, Flags, Suppressed]:
    """The table with its totals, what of it is hidden, and how many of which kind.

    Args:
        different: People by place and slot, and different people behind every total
            (`different_people`).
        k: Fewest people behind a number that is published.
        totals: Whether sums over places and over slots are published.
        secondary: Whether cells are hidden so that none follows from the sums.

    Raises:
        UsageError: k makes no sense.
    """
    enough_people(k, k)
    table = with_totals(different[:-1, :-1])
    hidden = different < k
    primary = int(hidden.sum()) if totals else int(hidden[:-1, :-1].sum())
    if not totals:
        hidden[-1], hidden[:, -1] = True, True
        return table, hidden, Suppressed(primary, 0, 0)
    if secondary:
        hidden = protect(table, hidden)
    left = int(determined(table, hidden).sum())
    return table, hidden, Suppressed(primary, int(hidden.sum()) - primary, left)


def round_counts(
    table: Ints, rounding: Rounding, base: int, rng: np.random.Generator | None = None
) -> Ints:
    """Counts rounded to multiples of a base.

    Raises:
        UsageError: The base is no whole number above 1.

    Example:
        >>> round_counts(np.array([0, 2, 3, 7, 8]), Rounding.NEAREST, 5).tolist()
        [0, 0, 5, 5, 10]
    """
    if rounding is Rounding.NONE:
        return table
    if isinstance(base, bool) or not isinstance(base, int) or not 2 <= base <= 1_000_000:
        raise UsageError("The `base` of rounding is a whole number from 2 to 1,000,000.")
    down, rest = np.divmod(table, base)
    if rounding is Rounding.NEAREST:
        return (down + (2 * rest >= base)) * base
    lots = (rng or np.random.default_rng()).random(table.shape)
    return (down + (lots * base < rest)) * base


def published_counts(table: Ints, hidden: Flags, totals: bool) -> Counts:
    """What is published: -1 where hidden."""
    shown = np.where(hidden, -1, table)
    cells = np.ascontiguousarray(shown[:-1, :-1])
    if not totals:
        return Counts(cells)
    return Counts(cells, shown[:-1, -1].copy(), shown[-1, :-1].copy(), int(shown[-1, -1]))
