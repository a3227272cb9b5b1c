"""Variable-length n-grams and prefix trees: two of the chapter's methods for trips, corrected.

*`ngrams`* (Chen, Acs & Castelluccia 2012). Grams of grid cells up to n long. Printed: noise of each
node by an adaptive split along its path, the number of occurrences as sensitivity. Here each trip
counts once in each gram and each depth has a fixed share, so that the plan is known beforehand.

*`prefix`* (Chen, Fung & Desai 2011). Counts of prefixes, the one chain from a trip's first cell; a
trip has one prefix of each depth: sensitivity 1. Empty children get noise like all others, which is
what the paper's sampling of false positives stands for.

*Claim* of both. Unit: one trajectory; neighbours: add or remove one; sensitivity: that of `grams`
for every depth, 1 in L1 and L2 for the clock. Cost: one Gaussian event for each. Cells, depths,
shares and thresholds are public; what is expanded is read from noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sfumato.density.scheme import Plan, PlannedMeasurement
from sfumato.model.counts import Counts
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
    TripTables,
    blocks_within,
    people_stream,
)
from sfumato.synthesis.trips.blocks import Floats, Ints, Paths
from sfumato.synthesis.trips.trajectories import (
    CLOCK,
    CLOCK_SHARE,
    TRAJECTORY,
    Timed,
    by_hour,
    chunks_of,
    clock_block,
    clock_counts,
    clock_of,
    expected,
    integer_counts,
    true_trips,
)
from sfumato_lab.synthesis.grams import (
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

LONGEST = 20
"""Cells of a trip that count: the n-gram paper's l_max."""


def sharpness(facts: SynthFacts) -> float:
    """Expected trips times mu of the whole budget: what a grid's fineness follows from."""
    return expected(facts) * gaussian_mu(facts.public.epsilon, facts.public.delta)


class Grown:
    """What these methods and DPT share: tables measured depth after depth."""

    name = ""
    side_at = (0.6, 3, 12)
    """Cells a side: a factor of the cube root of sharpness, least, most. So a cell of a table has
    about the same signal to noise whatever the budget (not tuned)."""
    begin = True
    """The grams of depth 1 are where trips begin."""
    marks = 1

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

    def chains(self, paths: Paths, noisy: Noisy, facts: SynthFacts) -> Chains:
        """Trips as they are counted; `noisy` is what was measured before."""
        del noisy
        return cell_chains(paths, self.side(facts), LONGEST, marks=self.marks)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        trips = true_trips(source, facts)
        chains = trips.map(lambda t: self.chains(t.paths, {}, facts), "chains of cells")
        return self._taken(trips, chains, {}, wall, facts)

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

    def counted(self, made: Timed, noisy: Noisy, facts: SynthFacts) -> Noisy:
        tree = Tree(self.shape(facts), *self.turn(facts))
        chains = self.chains(made.paths, noisy, facts)
        return {CLOCK: clock_of(made), "depth 1": tree.count(chains).astype(np.float64)}

    def shown(self, tables: Noisy, noisy: Noisy, facts: SynthFacts) -> TripTables:
        """Grams of one cell: those that trips pass, or begin in."""
        del noisy
        cells = tables["depth 1"][: self.side(facts) ** 2]
        return TripTables(hours=by_hour(tables), cells=cells, begin=self.begin)

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        return Figures(trips=self.shown(noisy, noisy, facts))


def taken(wall: Wall, box: Private[Counts], planned: PlannedMeasurement) -> Floats:
    """One planned Gaussian measurement, in counts."""
    event = planned.event
    assert isinstance(event, GaussianEvent)
    sigma2 = Fraction(event.sigma2)
    found = wall.gaussian(box, sigma2=sigma2, label=planned.label, touched=event.touched)
    return np.asarray(found.estimate(), np.float64)


_SIDE = Setting("Cells of the grid a side; 0 follows from expected trips and budget", 0, 0, 40)


class NGrams(Grown):
    """Variable-length n-grams of grid cells."""

    name = "ngrams"
    begin, marks = False, 2
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"side": _SIDE, "longest": Setting("Cells of a gram", 4, 2, 6)}),
        least=190.0,
    )

    def shape(self, facts: SynthFacts) -> Shape:
        symbols = self.side(facts) ** 2 + 2
        return Shape(symbols, symbols, int(facts.number("longest")), LONGEST + 1)

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


class Prefix(Grown):
    """A tree of prefixes of grid cells."""

    name = "prefix"
    side_at = (0.4, 3, 8)
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"side": _SIDE, "height": Setting("Depth of the tree", 12, 2, 20)}),
        least=95.0,
    )

    def shape(self, facts: SynthFacts) -> Shape:
        symbols = self.side(facts) ** 2 + 1
        return Shape(symbols, symbols, int(facts.number("height")), 1)

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
