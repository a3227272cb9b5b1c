"""Trees of grams with noisy counts, grown where they are full: n-grams, prefix trees, DPT.

A trip is a chain of *positions*: each has a first symbol (where one is) and a symbol that follows
it. A gram of depth k at a position is its first symbol and the k - 1 symbols that follow. Depth
after depth, the children of every *expanded* node are counted, empty ones too, noise is added, and
nodes whose noisy count passes a public threshold are expanded. What is expanded is read from noisy
counts alone, so that the keys of the next table are public by then.

*Claim.* Unit: one trajectory. Neighbours: add or remove one. Sensitivity: of a trip the first
`positions` positions count, and each gram of it once, so that a table of one depth moves by at most
`positions` in L1 and sqrt(positions) in L2, whatever was expanded. Cost: one Gaussian event a
depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.synthesis.trips.blocks import Floats, Ints, Paths

MOST_NODES = 4000
"""Expanded at one depth, the fullest by their noisy counts: a bound on work and memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """True trips as chains: chain i has the positions `starts[i]` to `starts[i + 1]`."""

    first: Ints
    after: Ints
    reach: Ints
    """How many symbols follow a position before its run ends."""
    starts: Ints


@dataclass(frozen=True, slots=True)
class Shape:
    """Public sizes of a tree."""

    firsts: int
    symbols: int
    depth: int
    positions: int

    def cells(self, level: int) -> int:
        """Most cells of the table of a depth, counted from 1."""
        return self.firsts if level == 1 else min(self.firsts, MOST_NODES) * self.symbols

    @property
    def l2(self) -> float:
        return math.sqrt(self.positions)


class Tree:
    """What was expanded so far: for each depth the node of every child, or -1."""

    def __init__(self, shape: Shape, turn: Ints, end: int) -> None:
        self.shape = shape
        self.turn = turn
        """Where a symbol leads from a first symbol, -1 for nowhere: what is possible is public."""
        self._possible = turn >= 0
        self._possible[:, end] = True
        self.child: list[Ints] = []
        self.counts: list[Floats] = []
        self._full: Floats = np.empty(0)
        self._at: Ints = np.empty(0, np.int64)

    @property
    def size(self) -> int:
        """Cells of the next table."""
        if not self.child:
            return self.shape.firsts
        return int((self.child[-1] >= 0).sum()) * self.shape.symbols

    def count(self, chains: Chains) -> Ints:
        """The next table: how many trips have each child of the expanded nodes."""
        out = np.zeros(self.size, np.int64)
        flat, edges = _flat(self.child)
        _count(
            chains.first, chains.after, chains.reach, chains.starts, flat, edges,
            self.shape.symbols, self.shape.positions, out,
        )  # fmt: skip
        return out

    def grow(self, noisy: Floats, sd: float) -> None:
        """Expand the children whose noisy count passes the threshold.

        sd sqrt(2 ln cells) lets about one empty child of a table through.
        """
        symbols = self.shape.symbols
        deeper = len(self.child) > 0
        if deeper:
            possible = self._possible[self._at].ravel()
            noisy = np.where(possible, noisy, -np.inf)
        threshold = sd * math.sqrt(2 * math.log(max(noisy.size, 2)))
        full = np.flatnonzero(noisy >= threshold)
        if full.size > MOST_NODES:
            full = np.sort(full[np.argsort(-noisy[full], kind="stable")[:MOST_NODES]])
        child = np.full(noisy.size, -1, np.int64)
        child[full] = np.arange(full.size)
        self.child.append(child)
        if deeper:
            counts = to_total(noisy.reshape(-1, symbols), self._full).ravel()
            self._at = self.turn[self._at[full // symbols], full % symbols]
        else:
            counts = np.where(noisy >= sd, noisy, 0.0)  # within the noise: more often empty
            self._at = full
        self.counts.append(counts)
        self._full = noisy[full]

    def laws(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Children and the cumulative law of each expanded node's children, depth after depth."""
        flat, edges = _flat(self.child)
        width = self.shape.symbols
        tables = [np.cumsum(c.reshape(-1, width), axis=1).ravel() for c in self.counts[1:]]
        sizes = np.concatenate([[0], np.cumsum([t.size for t in tables])]).astype(np.int64)
        return flat, edges, np.concatenate([np.empty(0), *tables]), sizes


def to_total(rows: Floats, totals: Floats) -> Floats:
    """The nearest rows without negative numbers that sum to their totals (norm-sub).

    A threshold of its own for each row, so that small children that add up (the end of trips) are
    not lost to the noise.
    """
    high = -np.sort(-rows, axis=1)
    with np.errstate(invalid="ignore"):
        over = (np.cumsum(high, axis=1) - totals[:, None]) / np.arange(1, rows.shape[1] + 1)
    last = np.maximum((high > over).sum(1) - 1, 0)
    nearest: Floats = np.maximum(rows - over[np.arange(len(rows)), last][:, None], 0.0)
    return nearest


def _flat(parts: Sequence[Ints]) -> tuple[Ints, Ints]:
    edges = np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.int64)
    return np.concatenate([np.empty(0, np.int64), *parts]), edges


def cell_chains(paths: Paths, side: int, most: int, *, marks: int) -> Chains:
    """Chains of grid cells, cut to `most` cells, then an end symbol.

    `marks` 2 puts a symbol for the beginning before them (n-grams), 1 does not (prefixes).
    """
    symbol, starts = _cells(paths.x, paths.y, paths.starts, side, most, marks)
    last = np.repeat(starts[1:] - 1, np.diff(starts))
    at = np.arange(symbol.size)
    after = np.append(symbol[1:], -1)[: symbol.size]
    return Chains(symbol, after, last - at, starts)


@compiled
def _cells(
    x: Floats, y: Floats, starts: Ints, side: int, most: int, marks: int
) -> tuple[Ints, Ints]:
    """Cells of each trip at quarter-cell steps without repeats, its end, and its beginning."""
    room = (starts.size - 1) * (most + 2)
    out = np.empty(room, np.int64)
    begins = np.zeros(starts.size, np.int64)
    used = 0
    for trip in range(starts.size - 1):
        first, last = starts[trip], starts[trip + 1]
        if last > first and marks == 2:
            out[used] = side * side + 1
            used += 1
        before, found = -1, 0
        for point in range(first, last):
            px, py = x[max(point - 1, first)], y[max(point - 1, first)]
            steps = max(1, math.ceil(math.hypot(x[point] - px, y[point] - py) * 4 * side))
            for step in range(1, steps + 1):
                part = step / steps
                cx = min(int((px + (x[point] - px) * part) * side), side - 1)
                cy = min(int((py + (y[point] - py) * part) * side), side - 1)
                cell = cx * side + cy
                if cell != before and found < most:
                    out[used] = cell
                    used += 1
                    found += 1
                    before = cell
            if found == most:
                break
        if last > first:
            out[used] = side * side
            used += 1
        begins[trip + 1] = used
    return out[:used].copy(), begins


@compiled
def _count(
    first: Ints, after: Ints, reach: Ints, starts: Ints, child: Ints, edges: Ints, symbols: int,
    positions: int, out: Ints,
) -> None:  # fmt: skip
    """Each trip counts once in each child of an expanded node that it has."""
    stamp = np.full(out.size, -1, np.int64)
    level = edges.size  # depth of the grams that are counted
    for trip in range(starts.size - 1):
        for i in range(starts[trip], min(starts[trip] + positions, starts[trip + 1])):
            if reach[i] < level - 1:
                continue
            cell = first[i]
            for k in range(level - 1):
                node = child[edges[k] + cell]
                if node < 0:
                    cell = -1
                    break
                cell = node * symbols + after[i + k]
            if cell >= 0 and stamp[cell] != trip:
                stamp[cell] = trip
                out[cell] += 1


@compiled
def walks(
    child: Ints, edges: Ints, law: Floats, offsets: Ints, symbols: int, start: Ints, draws: Floats,
    turn: Ints, whole: bool, end: int,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Chains of first symbols, drawn from a tree: longest known history first.

    `turn[first, symbol]` is where a symbol leads, -1 for nowhere; `whole` uses all of the history
    (a prefix) and ends where it is not known.
    """
    steps = draws.shape[1]
    depth = edges.size - 3  # symbols of history, besides the first, that have a law
    out = np.empty((start.size, steps + 1), np.int64)
    size = np.ones(start.size, np.int64)
    followed = np.empty(steps + 1, np.int64)
    for trip in range(start.size):
        out[trip, 0] = start[trip]
        at = 0
        while at < steps:
            symbol = end
            longest = min(at, depth)
            if whole and at > depth:
                break
            for history in range(longest, -1, -1):
                cell = out[trip, at - history]
                node = -1
                for k in range(history + 1):
                    node = child[edges[k] + cell]
                    if node < 0:
                        break
                    if k < history:
                        cell = node * symbols + followed[at - history + k]
                if node >= 0:
                    row = law[
                        offsets[history] + node * symbols : offsets[history] + (node + 1) * symbols
                    ]
                    if row[-1] > 0:
                        symbol = np.searchsorted(row, draws[trip, at] * row[-1], side="right")
                        symbol = min(symbol, symbols - 1)
                        break
                if whole:
                    break
            there = turn[out[trip, at], symbol]
            if there < 0:
                break
            followed[at] = symbol
            at += 1
            out[trip, at] = there
            size[trip] = at + 1
    return out, size


def points_in(
    squares: tuple[Ints, Ints, Ints], cells: Ints, size: Ints, rng: np.random.Generator
) -> Paths:
    """Trips through squares (column, row, squares a side of each): a point anywhere in each.

    Rows of `cells` are cut to `size`.
    """
    where = cells[np.arange(cells.shape[1]) < size[:, None]]
    spot = rng.random((2, where.size))
    across, up, side = (table[where] for table in squares)
    starts = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return Paths((across + spot[0]) / side, (up + spot[1]) / side, starts)


def squares_of(*sides: int) -> tuple[Ints, Ints, Ints]:
    """Column, row and squares a side of all squares of some grids, one grid after the other."""
    across = np.concatenate([np.repeat(np.arange(side), side) for side in sides])
    up = np.concatenate([np.tile(np.arange(side), side) for side in sides])
    return across, up, np.repeat(np.array(sides), np.square(sides))


def neighbours(side: int, symbols: int) -> Ints:
    """`Tree.turn` of grid cells: to each of eight neighbours, and from further symbols anywhere."""
    across, up, _ = squares_of(side)
    near = (abs(across[:, None] - across) <= 1) & (abs(up[:, None] - up) <= 1)
    np.fill_diagonal(near, False)
    turn = np.full((symbols, symbols), -1, np.int64)
    cells = side * side
    turn[:cells, :cells] = np.where(near, np.arange(cells), -1)
    turn[cells + 1 :, :cells] = np.arange(cells)
    return turn


def drawn(law: NDArray[np.float64], count: int, rng: np.random.Generator) -> Ints:
    """Indices by weight; evenly where nothing is left of the weights."""
    edges = np.cumsum(np.maximum(law, 0.0))
    if not edges.size or edges[-1] <= 0:
        edges = np.arange(1.0, law.size + 1)
    at = rng.random(count) * edges[-1]
    found: Ints = np.searchsorted(edges, at, side="right").astype(np.int64)
    return np.minimum(found, law.size - 1)
