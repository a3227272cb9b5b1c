"""The chapter's methods for trips: variable-length n-grams, prefix trees, DPT; corrected.

*`ngrams`* (Chen, Acs & Castelluccia 2012). Grams of grid cells up to n long. Printed: noise of each
node by an adaptive split along its path, the number of occurrences as sensitivity. Here each trip
counts once in each gram and each depth has a fixed share, so that the plan is known beforehand.

*`prefix`* (Chen, Fung & Desai 2011). Counts of prefixes, the one chain from a trip's first cell; a
trip has one prefix of each depth: sensitivity 1. Empty children get noise like all others, which is
what the paper's sampling of false positives stands for.

*`dpt`* (He et al. 2015). Hierarchical reference systems: each step of a trip is a move to a
neighbour (or a stay) in the finest of several grids where it is one, a tree of moves for each grid,
symbols for changing the grid and for the end. Printed, the choice of trees and the start cells lean
on true counts; here they are measured: which grids to keep (each trip spreads a weight of one over
them), and where trips start. One bound on a trip's move-grams holds for all trees together, because
they are counted as one table of a depth.

*Claim* of all three. Unit: one trajectory; neighbours: add or remove one; sensitivity: that of
`grams` for every depth, 1 in L1 and L2 for the choice of trees (2^16 lattice units, weights rounded
down), the start cells and the clock. Cost: one Gaussian event for each. Cells, depths, shares and
thresholds are public; what is expanded is read from noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sfumato.density.scheme import Plan, PlannedMeasurement
from sfumato.model.compiled import compiled
from sfumato.model.counts import WEIGHT_UNITS, Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import (
    Block,
    Chunk,
    Declaration,
    Figures,
    Noisy,
    Reads,
    Setting,
    SynthFacts,
    blocks_within,
    people_stream,
)
from sfumato.synthesis.trips.blocks import Floats, Ints, Paths
from sfumato.synthesis.trips.grams import (
    Chains,
    Shape,
    Tree,
    cell_chains,
    drawn,
    neighbours,
    points_in,
    squares_of,
    walks,
)
from sfumato.synthesis.trips.trajectories import (
    CLOCK,
    CLOCK_SHARE,
    TRAJECTORY,
    Timed,
    chunks_of,
    clock_block,
    clock_counts,
    expected,
    integer_counts,
    true_trips,
)

LONGEST = 20
"""Cells of a trip that count: the n-gram paper's l_max."""
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


def sharpness(facts: SynthFacts) -> float:
    """Expected trips times mu of the whole budget: what a grid's fineness follows from."""
    return expected(facts) * gaussian_mu(facts.public.epsilon, facts.public.delta)


class _Grown:
    """What the three methods share: tables measured depth after depth."""

    name = ""
    side_at = (0.6, 3, 12)
    """Cells a side: a factor of the cube root of sharpness, least, most. So a cell of a table has
    about the same signal to noise whatever the budget (not tuned)."""

    def side(self, facts: SynthFacts) -> int:
        given = int(facts.number("side"))
        factor, low, high = self.side_at
        return given or min(max(round(factor * sharpness(facts) ** (1 / 3)), low), high)

    def shape(self, facts: SynthFacts) -> Shape:
        raise NotImplementedError

    def turn(self, facts: SynthFacts) -> tuple[Ints, int]:
        """Where symbols lead, and which one ends a trip."""
        side = self.side(facts)
        return neighbours(side, self.shape(facts).symbols), side * side

    def before(self, facts: SynthFacts) -> tuple[Block, ...]:
        """What is measured before the tables."""
        del facts
        return ()

    def plan(self, facts: SynthFacts) -> Plan:
        planned, shape = self._planned(facts), self.shape(facts)
        return Plan(
            scheme=self.name,
            measurements=tuple(planned.values()),
            sd=planned["depth 1"].sd,
            lines=(f"{shape.depth} tables of grams of up to {shape.positions} positions a trip.",),
            bound=f"of each trip {shape.positions} grams a depth, each once",
        )

    def _planned(self, facts: SynthFacts) -> dict[str, PlannedMeasurement]:
        shape, before = self.shape(facts), self.before(facts)
        left = 1 - CLOCK_SHARE - math.fsum(block.share for block in before)
        tables = (
            Block(f"depth {k}", shape.cells(k), shape.l2, left / shape.depth, 1, shape.positions)
            for k in range(1, shape.depth + 1)
        )
        blocks = (clock_block(), *before, *tables)
        return blocks_within(facts.public.epsilon, facts.public.delta, blocks)

    def _taken(
        self,
        trips: Private[Timed],
        chains: Private[Chains],
        more: dict[str, Private[Counts]],
        wall: Wall,
        facts: SynthFacts,
    ) -> Noisy:
        """All planned measurements in order, those in `more` already taken left out."""
        planned, noisy = self._planned(facts), {}
        boxes = {CLOCK: clock_counts(trips), **more}
        tree = Tree(self.shape(facts), *self.turn(facts))
        for label, one in planned.items():
            if label in boxes:
                noisy[label] = taken(wall, boxes[label], one)
            elif label.startswith("depth"):
                box = chains.map(self._counter(tree, label), label)
                noisy[label] = taken(wall, box, one)
                tree.grow(noisy[label], one.sd)
        return noisy

    def _counter(self, tree: Tree, label: str) -> Callable[[Chains], Counts]:
        most = tree.shape.positions
        return lambda chains: integer_counts(tree.count(chains), float(most), tree.shape.l2, label)

    def _tree(self, noisy: Noisy, facts: SynthFacts) -> Tree:
        """The tree again, from what was measured."""
        tree, planned = Tree(self.shape(facts), *self.turn(facts)), self._planned(facts)
        for k in range(1, tree.shape.depth + 1):
            tree.grow(np.asarray(noisy[f"depth {k}"], np.float64), planned[f"depth {k}"].sd)
        return tree

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        del noisy, facts
        return Figures()


def taken(wall: Wall, box: Private[Counts], planned: PlannedMeasurement) -> Floats:
    """One planned Gaussian measurement, in counts."""
    event = planned.event
    assert isinstance(event, GaussianEvent)
    sigma2 = Fraction(event.sigma2)
    found = wall.gaussian(box, sigma2=sigma2, label=planned.label, touched=event.touched)
    return np.asarray(found.estimate(), np.float64)


_SIDE = Setting("Cells of the grid a side; 0 follows from expected trips and budget", 0, 0, 40)


class NGrams(_Grown):
    """Variable-length n-grams of grid cells."""

    name = "ngrams"
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"side": _SIDE, "longest": Setting("Cells of a gram", 4, 2, 6)}),
        says="variable-length n-grams of grid cells (Chen, Acs & Castelluccia 2012)",
    )

    def shape(self, facts: SynthFacts) -> Shape:
        symbols = self.side(facts) ** 2 + 2
        return Shape(symbols, symbols, int(facts.number("longest")), LONGEST + 1)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        trips, side = true_trips(source, facts), self.side(facts)
        chains = trips.map(
            lambda t: cell_chains(t.paths, side, LONGEST, marks=2), "chains of cells"
        )
        return self._taken(trips, chains, {}, wall, facts)

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        side, rng = self.side(facts), people_stream(facts.seed, self.name)
        cells = side * side
        turn, end = self.turn(facts)
        start = np.full(facts.people, cells + 1, np.int64)
        draws = rng.random((facts.people, LONGEST))
        laws = self._tree(noisy, facts).laws()
        out, size = walks(*laws, cells + 2, start, draws, turn, False, end)
        empty = size < 2  # a trip without a cell begins in one of the busiest
        out[empty, 1] = drawn(np.asarray(noisy["depth 1"])[:cells], int(empty.sum()), rng)
        made = points_in(squares_of(side), out[:, 1:], np.maximum(size - 1, 1), rng)
        yield from chunks_of(made, facts, noisy[CLOCK], rng)


class Prefix(_Grown):
    """A tree of prefixes of grid cells."""

    name = "prefix"
    side_at = (0.4, 3, 8)
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"side": _SIDE, "height": Setting("Depth of the tree", 12, 2, 20)}),
        says="a prefix tree of grid cells (Chen, Fung & Desai 2011)",
    )

    def shape(self, facts: SynthFacts) -> Shape:
        symbols = self.side(facts) ** 2 + 1
        return Shape(symbols, symbols, int(facts.number("height")), 1)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        trips, side = true_trips(source, facts), self.side(facts)
        chains = trips.map(
            lambda t: cell_chains(t.paths, side, LONGEST, marks=1), "chains of cells"
        )
        return self._taken(trips, chains, {}, wall, facts)

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        side, rng = self.side(facts), people_stream(facts.seed, self.name)
        cells = side * side
        tree = self._tree(noisy, facts)
        turn, end = self.turn(facts)
        start = drawn(tree.counts[0][:cells], facts.people, rng)
        draws = rng.random((facts.people, LONGEST))
        out, size = walks(*tree.laws(), cells + 1, start, draws, turn, True, end)
        made = points_in(squares_of(side), out, size, rng)
        yield from chunks_of(made, facts, noisy[CLOCK], rng)


class Dpt(_Grown):
    """Trees of moves on hierarchical reference systems."""

    name = "dpt"
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"height": Setting("Depth of the trees", 3, 2, 6)}),
        says="trees of moves on hierarchical reference systems (DPT, He et al. 2015)",
    )

    def shape(self, facts: SynthFacts) -> Shape:
        cells = sum(side * side for side in DPT_SIDES)
        symbols = END + 1 + len(DPT_SIDES)
        return Shape(cells, symbols, int(facts.number("height")), DPT_MOVES)

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
        kept = kept_trees(found)
        chains = trips.map(lambda t: move_chains(t.paths, kept), "chains of moves")
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
