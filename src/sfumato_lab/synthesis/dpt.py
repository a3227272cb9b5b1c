"""`dpt`: DPT (He et al. 2015), trees of moves on hierarchical reference systems, corrected.

Each step of a trip is a move to a neighbour (or a stay) in the finest of several grids where it is
one; a tree of moves for each grid, symbols for changing the grid and for the end. Printed, the
choice of trees and the start cells lean on true counts; here they are measured: which grids to keep
(each trip spreads a weight of one over them), and where trips start. One bound on a trip's
move-grams holds for all trees together, because they are counted as one table of a depth.

*Claim.* Unit: one trajectory; neighbours: add or remove one; sensitivity: that of `grams` for every
depth, 1 in L1 and L2 for the choice of trees (2^16 lattice units, weights rounded down), the start
cells and the clock. Cost: one Gaussian event for each. Grids, depths, shares and thresholds are
public; what is kept and expanded is read from noisy counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sfumato.model.compiled import compiled
from sfumato.model.counts import WEIGHT_UNITS, Counts
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import (
    Block,
    Chunk,
    Declaration,
    Noisy,
    Reads,
    Setting,
    SynthFacts,
    TripTables,
    people_stream,
)
from sfumato.synthesis.trips.blocks import Floats, Ints, Paths
from sfumato.synthesis.trips.trajectories import (
    CLOCK,
    TRAJECTORY,
    Timed,
    by_hour,
    chunks_of,
    clock_of,
    integer_counts,
    true_trips,
)
from sfumato_lab.synthesis.grams import Chains, Shape, drawn, points_in, squares_of, walks
from sfumato_lab.synthesis.trees import Grown, taken

DPT_SIDES = (4, 8, 16, 32)
"""Grids of the reference systems, coarse to fine, each cell four of the next."""
DPT_MOVES = 40
"""Move-grams of a trip that count, over all trees."""
TREES, STARTS = "trees", "starts"
TREES_SHARE, STARTS_SHARE = 0.05, 0.15
"""Of DPT's budget: a ninth for the choice in the paper, where it is worth that little."""
LEAST_TREE = 0.05
"""Of all steps: grids with less are left out, and their steps go to the next coarser one."""
END = 9
"""DPT's symbols: nine moves, the end, then a change to each grid."""


class Dpt(Grown):
    """Trees of moves on hierarchical reference systems."""

    name = "dpt"
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"height": Setting("Depth of the trees", 3, 2, 6)}),
        least=800.0,
    )

    def shape(self, facts: SynthFacts) -> Shape:
        cells = sum(side * side for side in DPT_SIDES)
        symbols = END + 1 + len(DPT_SIDES)
        return Shape(cells, symbols, int(facts.number("height")), DPT_MOVES)

    def chains(self, paths: Paths, noisy: Noisy, facts: SynthFacts) -> Chains:
        del facts
        return move_chains(paths, kept_trees(np.asarray(noisy[TREES], np.float64)))

    def counted(self, made: Timed, noisy: Noisy, facts: SynthFacts) -> Noisy:
        chains = self.chains(made.paths, noisy, facts)
        return {CLOCK: clock_of(made), STARTS: _starts(chains, self.shape(facts).firsts).values}

    def shown(self, tables: Noisy, noisy: Noisy, facts: SynthFacts) -> TripTables:
        """Starts, by square of the coarsest grid."""
        del noisy, facts
        across, up, side = squares_of(*DPT_SIDES)
        wide = DPT_SIDES[0]
        cell = across * wide // side * wide + up * wide // side
        starts = np.bincount(cell, np.asarray(tables[STARTS], np.float64), wide * wide)
        return TripTables(hours=by_hour(tables), cells=starts.astype(np.float64), begin=True)

    def turn(self, facts: SynthFacts) -> tuple[Ints, int]:
        return _turns(np.zeros(self.shape(facts).firsts)), END

    def before(self, facts: SynthFacts) -> tuple[Block, ...]:
        cells, units = self.shape(facts).firsts, WEIGHT_UNITS
        return (
            Block(TREES, len(DPT_SIDES), float(units), TREES_SHARE, units),
            Block(STARTS, cells, 1.0, STARTS_SHARE, touched=1),
        )

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        trips, planned = true_trips(source, facts), self._planned(facts)
        votes = trips.map(lambda t: _votes(t.paths), TREES)
        found = taken(wall, votes, planned[TREES])
        chains = trips.map(lambda t: self.chains(t.paths, {TREES: found}, facts), "chains of moves")
        starts = chains.map(lambda c: _starts(c, self.shape(facts).firsts), STARTS)
        noisy = dict(self._taken(trips, chains, {STARTS: starts}, wall, facts))
        noisy[TREES] = found
        return noisy

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        rng, tree = people_stream(facts.seed, self.name), self._tree(noisy, facts)
        turn = _turns(np.asarray(noisy["depth 1"], np.float64))
        start = drawn(
            _above(np.asarray(noisy[STARTS]), self._planned(facts)[STARTS].sd), facts.people, rng
        )
        draws = rng.random((facts.people, DPT_MOVES))
        out, size = walks(*tree.laws(), turn.shape[1], start, draws, turn, False, END)
        made = points_in(squares_of(*DPT_SIDES), out, size, rng)
        yield from chunks_of(made, facts, noisy[CLOCK], rng)


def _above(noisy: Floats, sd: float) -> Floats:
    """Counts that stand out of the noise."""
    return np.where(noisy >= 2 * sd, noisy, 0.0)


def kept_trees(noisy: Floats) -> Ints:
    """Which grids have steps enough, by noisy weights; the coarsest always stays."""
    kept = noisy >= LEAST_TREE * max(float(np.maximum(noisy, 0).sum()), 1.0)
    kept[0] = True
    return kept.astype(np.int64)


def _votes(paths: Paths) -> Counts:
    """Each trip spreads a weight of one over the grids of its steps, rounded down."""
    sides = np.array(DPT_SIDES, np.int64)
    votes = _native(paths.x, paths.y, paths.starts, sides)
    total = np.maximum(votes.sum(1, keepdims=True), 1)
    units = WEIGHT_UNITS
    whole = (votes * units // total).sum(0)
    return integer_counts(whole, float(units), float(units), TREES, units)


def _starts(chains: Chains, cells: int) -> Counts:
    first = chains.first[chains.starts[:-1][np.diff(chains.starts) > 0]]
    return integer_counts(np.bincount(first, minlength=cells), 1.0, 1.0, STARTS)


def move_chains(paths: Paths, kept: Ints) -> Chains:
    """Chains of moves on the kept grids; a change of grid and the end are symbols of their own."""
    sides = np.array(DPT_SIDES, np.int64)
    return Chains(*_moves(paths.x, paths.y, paths.starts, sides, kept))


def _turns(level_one: Floats) -> Ints:
    """Where a symbol leads from each square; out of the box and the end lead nowhere.

    A change to a finer grid leads to the square that is fullest by the noisy table of depth 1.
    """
    across, up, side = squares_of(*DPT_SIDES)
    edges = np.concatenate([[0], np.cumsum(np.square(DPT_SIDES))])
    base = np.repeat(edges[:-1], np.square(DPT_SIDES))
    turn = np.full((across.size, END + 1 + len(DPT_SIDES)), -1, np.int64)
    for move in range(END):
        x, y = across + move // 3 - 1, up + move % 3 - 1
        inside = (x >= 0) & (x < side) & (y >= 0) & (y < side)
        turn[:, move] = np.where(inside, base + x * side + y, -1)
    for grid, wide in enumerate(DPT_SIDES):
        to = np.full(across.size, -1, np.int64)
        coarse = side >= wide
        to[coarse] = edges[grid] + (across * wide // side * wide + up * wide // side)[coarse]
        for cell in np.flatnonzero(~coarse):
            ratio = wide // side[cell]
            x = across[cell] * ratio + np.repeat(np.arange(ratio), ratio)
            y = up[cell] * ratio + np.tile(np.arange(ratio), ratio)
            inside = edges[grid] + x * wide + y
            to[cell] = inside[np.argmax(level_one[inside])]
        turn[:, END + 1 + grid] = to
    return turn


@compiled
def _grid_of(x0: float, y0: float, x1: float, y1: float, sides: Ints) -> int:
    """The finest grid in which a step is to a neighbour or stays; the coarsest if there is none."""
    for grid in range(sides.size - 1, -1, -1):
        side = sides[grid]
        across = abs(int(x1 * side) - int(x0 * side))
        up = abs(int(y1 * side) - int(y0 * side))
        if across <= 1 and up <= 1:
            return grid
    return 0


@compiled
def _native(x: Floats, y: Floats, starts: Ints, sides: Ints) -> Ints:
    """Steps of each trip by grid; a trip of one point counts for the finest."""
    out = np.zeros((starts.size - 1, sides.size), np.int64)
    for trip in range(starts.size - 1):
        if starts[trip + 1] == starts[trip] + 1:
            out[trip, sides.size - 1] = 1
        for i in range(starts[trip], starts[trip + 1] - 1):
            out[trip, _grid_of(x[i], y[i], x[i + 1], y[i + 1], sides)] += 1
    return out


@compiled
def _moves(
    x: Floats, y: Floats, starts: Ints, sides: Ints, kept: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """First symbol (square), symbol after it, how many follow in its run, where trips begin."""
    room = 2 * x.size + starts.size
    first, after, reach = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    begins = np.zeros(starts.size, np.int64)
    edges = np.zeros(sides.size + 1, np.int64)
    for g in range(sides.size):
        edges[g + 1] = edges[g] + sides[g] * sides[g]
    used = 0
    for trip in range(starts.size - 1):
        now = -1
        for i in range(starts[trip], starts[trip + 1]):
            end = i == starts[trip + 1] - 1
            grid = now if now >= 0 else sides.size - 1
            if not end:
                grid = _grid_of(x[i], y[i], x[i + 1], y[i + 1], sides)
            while kept[grid] == 0:
                grid -= 1
            if now >= 0 and grid != now:
                side = sides[now]
                first[used] = edges[now] + int(x[i] * side) * side + int(y[i] * side)
                after[used] = END + 1 + grid
                used += 1
            now = grid
            side = sides[now]
            cx, cy = int(x[i] * side), int(y[i] * side)
            first[used] = edges[now] + cx * side + cy
            if end:
                after[used] = END
            else:
                dx = min(max(int(x[i + 1] * side) - cx, -1), 1)
                dy = min(max(int(y[i + 1] * side) - cy, -1), 1)
                after[used] = (dx + 1) * 3 + dy + 1
            used += 1
        begins[trip + 1] = used
        follow = 0
        for k in range(used - 1, begins[trip] - 1, -1):
            follow = 1 if after[k] >= END else follow + 1
            reach[k] = follow
    return first[:used].copy(), after[:used].copy(), reach[:used].copy(), begins
