"""Estimation over time and over space (Fan, Xiong & Sunderam 2013).

* `fan-temporal`: every slot is measured as in `direct`, and a Kalman filter per cell smooths
  the noisy series. Cells are dense or sparse by public roads, or by their noisy level so far, and
  dense cells are given a larger process variance. Post-processing.
* `fan-spatial`: cells are gathered in leaves of a tree; each slot measures one sum per leaf and
  spreads it evenly. A person is in one leaf a slot, so a leaf sum costs what a cell costs and its
  noise per cell is divided by the leaf's size. The tree comes from one noisy histogram a window
  (`tree` of the budget), at hours that change from day to day, averaged over the windows so far;
  or for nothing from public roads, as the authors have it.
* `fan-combined`: the same, and a Kalman filter for every leaf.

**Which squares are split.** What a leaf gets every slot is a sum with noise of variance v, spread
over its n cells: a squared error of v/n in all, plus the spread of the true counts around their
mean. A block is split where its parts' errors add up to less (pruning from the bottom, as in
Breiman et al. 1984), the spread being that of the noisy histogram less its noise. With more budget
v falls, leaves become smaller and the error falls with it. Splitting a square while its total
stands out of the noise of the *histogram*, which is measured once, makes single cells of leaves at
once, and their own noise, drawn every slot, buries them.

The tree's blocks are squares of a grid, or runs along an adjacency graph of the places.

The Kalman filter is a scalar one for every cell at once: state x with process variance `process` a
slot, observations with variance `noise`. Both are public: the process variance is a guess that
nobody looks up in the raw data.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Measurement
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, due
from sfumato.streams.parameters import NOISE, Declaration, Kind, Need, Setting, share
from sfumato.streams.scheme import (
    Meter,
    Noise,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)

PROCESS = {
    "process": Setting(
        *("process", Kind.NUMBER, "Q: variance that a count drifts by in a slot", 3.0),
        *(1e-6, 1e12),
        unset="the mean people of a cell",
    ),
    "start": Setting(
        "start", Kind.NUMBER, "P0: the filter's first variance, in Q", 40.0, 1e-3, 1e9
    ),
}
Blocks = NDArray[np.int64]
"""Cell to block."""


@dataclass(slots=True)
class Kalman:
    """Estimates and their variances, one per cell; `process` may differ from cell to cell."""

    estimate: Values
    variance: Values
    process: Values

    @classmethod
    def start(cls, cells: int, variance: float, process: float) -> Kalman:
        return cls(np.zeros(cells), np.full(cells, variance), np.full(cells, process))

    def predict(self) -> None:
        self.variance = self.variance + self.process

    def correct(
        self,
        observed: Values,
        noise: float | Values,
        index: slice | NDArray[np.int64] = slice(None),
    ) -> None:
        """Take up observations of the cells `index`, with noise of a known variance."""
        gain = self.variance[index] / (self.variance[index] + noise)
        self.estimate[index] += gain * (observed - self.estimate[index])
        self.variance[index] *= 1 - gain


def default_process(expected_users: int | None, cells: int) -> float:
    """A public guess of how much a count drifts a slot: the mean count, as Poisson counts do."""
    return max(1.0, (expected_users or cells) / cells)


@dataclass(frozen=True, slots=True)
class FanTemporal:
    """Direct noise, then a Kalman filter in every cell."""

    process: float | None = None
    noise: NoiseKind = NoiseKind.BEST
    name: str = "fan-temporal"
    finished: bool = False
    start: float = 100.0
    """Variance of the first estimate, in process variances."""
    dense: float = 2.0
    sparse: float = 0.25
    """Process variances of dense and of sparse cells, in process variances."""
    declares: ClassVar = Declaration(
        parameters={
            **PROCESS,
            "dense": Setting("dense", Kind.NUMBER, "Q of dense cells, in Q", 1.5, 1e-6, 1e6),
            "sparse": Setting("sparse", Kind.NUMBER, "Q of sparse cells, in Q", 0.5, 1e-6, 1e6),
            **NOISE,
        },
        reads=("roads",),
    )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        noise = noise_of(facts, self.noise, facts.window)
        account = noise.account("histogram", facts.window, facts.l1, facts.l2)
        line = f"Every slot with {noise.kind} noise, sd {noise.sd:.3g}, then filtered over time."
        return StreamPlan(self.name, (account,), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Temporal(facts, self)


class _Temporal(Repeating):
    def __init__(self, facts: StreamFacts, scheme: FanTemporal) -> None:
        super().__init__(facts)
        self._noise = noise_of(facts, scheme.noise, facts.window)
        self._process = scheme.process or default_process(facts.expected_users, facts.cells)
        self._classes = (scheme.dense, scheme.sparse)
        self._filter = Kalman.start(facts.cells, scheme.start * self._process, self._process)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        level = self._filter.estimate if self.facts.roads is None else self.facts.roads
        dense = level > np.mean(level)
        self._filter.process = np.where(dense, *self._classes) * self._process
        self._filter.predict()
        found = self._noise.measure(wall, box, f"histogram@{slot}")
        self._filter.correct(found.estimate(), self._noise.variance)
        sd = float(np.sqrt(self._filter.variance.mean()))
        return self.renew(self._filter.estimate.copy(), sd, found.tainted)

    def state(self) -> State:
        more = {"estimate": self._filter.estimate, "variance": self._filter.variance}
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._filter.estimate, self._filter.variance = state["estimate"], state["variance"]


def square_blocks(cells: int, columns: int) -> list[Blocks]:
    """Cell to block, finest first: single cells, squares of 2 x 2, 4 x 4, up to all in one."""
    row, column = np.divmod(np.arange(cells), columns)
    levels, size = [np.arange(cells)], 2
    while True:
        level = row // size * columns + column // size
        levels.append(np.unique(level, return_inverse=True)[1])
        if levels[-1].max() == 0:
            return levels
        size *= 2


def graph_blocks(cells: int, edges: NDArray[np.int64]) -> list[Blocks]:
    """Cell to block, finest first: neighbours are joined pair by pair, until no edge is left.

    Small blocks go first, so that blocks of one level are of like size; ties by number, so that the
    tree follows from the graph alone.
    """
    levels = [np.arange(cells)]
    while True:
        block = levels[-1]
        count = int(block.max()) + 1
        sizes = np.bincount(block, minlength=count)
        ends = np.unique(np.sort(block[edges], axis=1), axis=0)
        ends = ends[ends[:, 0] != ends[:, 1]]
        if not ends.size:
            return levels
        together, joined = np.arange(count), np.zeros(count, dtype=bool)
        for one, other in ends[np.lexsort((ends[:, 1], ends[:, 0], sizes[ends].sum(axis=1)))]:
            if not (joined[one] or joined[other]):
                joined[[one, other]] = True
                together[other] = one
        levels.append(np.unique(together, return_inverse=True)[1][block])


def pruned(
    levels: list[Blocks],
    seen: Values,
    noise: float,
    chance: float,
    each: Callable[[Values], Values],
    margin: float = 1.0,
) -> Blocks:
    """Leaf of every cell: blocks stay whole where that has the least expected squared error.

    Args:
        levels: Cell to block, finest first; a block of one level lies in one of the next.
        seen: Noisy counts that tell how much cells differ.
        noise: Variance of their noise.
        chance: Share of a count's own (Poisson) variance that `seen` does not show, because it is
            a mean over several slots or a guess.
        each: Size of a leaf to the squared error that its noise causes in each slot.
        margin: By how many standard errors of the noise a split must pay (Breiman et al.: one).
    """
    leaf = levels[0]
    best = each(np.ones(leaf.size))
    for finer, block in itertools.pairwise(levels):
        count = int(block.max()) + 1
        size = np.bincount(block, minlength=count).astype(np.float64)
        total = np.bincount(block, weights=seen, minlength=count)
        squares = np.bincount(block, weights=np.square(seen), minlength=count)
        spread = squares - np.square(total) / size - (size - 1) * noise
        spread += chance * np.maximum(total, 0.0) * (size - 1) / size
        whole = spread + each(size)
        parent = np.zeros(best.size, dtype=np.int64)
        parent[finer] = block
        parts = np.bincount(parent, weights=best, minlength=count)
        # The spread between k parts has k - 1 degrees of freedom, of which noise alone makes this.
        chosen = np.maximum(np.bincount(parent, minlength=count) - 1, 0)
        by_chance = margin * noise * np.sqrt(2.0 * chosen)
        stays = whole <= parts + by_chance
        leaf = np.where(stays[block], leaf.size + block, leaf)
        leaf = np.unique(leaf, return_inverse=True)[1]
        best = np.where(stays, whole, parts)
    return leaf


@dataclass(frozen=True, slots=True)
class FanSpatial:
    """Sums over the leaves of a tree, spread evenly; `filtered` over time as well."""

    noise: NoiseKind = NoiseKind.BEST
    name: str = "fan-spatial"
    finished: bool = False
    tree: Fraction = Fraction(1, 10)
    """Share of the budget for the histogram that the tree is grown from; free with roads."""
    filtered: bool = False
    process: float | None = None
    start: float = 100.0
    """Variance of the first estimate, in process variances."""
    margin: float = 1.0
    """By how many standard errors of the tree's noise a split must pay. At 0 a crowd of 20,000 had
    11 % more error over all cells at epsilon 0.4 and 32 % more at 0.1; at 2 the busiest lose."""

    @property
    def declares(self) -> Declaration:
        margin = "standard errors by which a split must pay"
        return Declaration(
            parameters={
                "tree": share(
                    "tree", "share of the budget for growing the tree; none with roads", 0.3
                ),
                "margin": Setting("margin", Kind.NUMBER, margin, 0.0, 0, 100),
                **(PROCESS if self.filtered else {}),
                **NOISE,
            },
            reads=("roads", "adjacency"),
            needs=(Need.NEIGHBOURS,),
        )

    def noises(self, facts: StreamFacts) -> tuple[Noise, Noise | None]:
        """Of a leaf's sum in each slot, and of the tree's histogram."""
        if facts.grid_columns is None and facts.adjacent is None:
            raise UsageError(
                f"{self.name} joins neighbours, and these places are not a full rectangular grid.",
                remedy="Give a `grid`, or say with `adjacency` which places lie side by side.",
            )
        if facts.roads is not None:
            return noise_of(facts, self.noise, facts.window), None
        noise = noise_of(facts, self.noise, facts.window, 1 - self.tree)
        return noise, noise_of(facts, noise.kind, 1, self.tree)

    def plan(self, facts: StreamFacts) -> StreamPlan:
        noise, tree = self.noises(facts)
        accounts = [noise.account("leaves", facts.window, facts.l1, facts.l2)]
        if tree is not None:
            accounts.append(tree.account("tree", 1, facts.l1, facts.l2))
        over = ", filtered over time" if self.filtered else ""
        line = (
            f"Sums over leaves of a tree with {noise.kind} noise, sd {noise.sd:.3g} a leaf{over}."
        )
        return StreamPlan(self.name, tuple(accounts), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Spatial(facts, self)


class _Spatial(Repeating):
    def __init__(self, facts: StreamFacts, scheme: FanSpatial) -> None:
        super().__init__(facts)
        self._scheme = scheme
        self._noise, self._tree = scheme.noises(facts)
        if facts.adjacent is not None:
            self._levels = graph_blocks(facts.cells, facts.adjacent)
        else:
            self._levels = square_blocks(facts.cells, facts.grid_columns or facts.cells)
        self._process = scheme.process or default_process(facts.expected_users, facts.cells)
        self._leaf = np.zeros(facts.cells, dtype=np.int64)
        self._mean, self._trees = np.zeros(facts.cells), 0
        self._filter = Kalman.start(facts.cells, scheme.start * self._process, self._process)
        if facts.roads is not None:
            people = facts.expected_users or facts.cells
            length = facts.roads / max(float(facts.roads.sum()), 1e-300)
            self._leaf = pruned(self._levels, people * length, 0.0, 1.0, self._each)

    def _each(self, size: Values) -> Values:
        """Squared error in all that the noise of leaves of such sizes causes in a slot."""
        variance = self._noise.variance
        if not self._scheme.filtered:
            return np.asarray(variance / size)
        # What a filter that has run for long leaves of it (the Riccati equation's fixed point).
        drift = self._process * size
        before = (drift + np.sqrt(drift * drift + 4 * drift * variance)) / 2
        return np.asarray(before * variance / (before + variance) / size)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        tree = self._tree
        if tree is not None and (self._trees == 0 or due(self.facts, slot, 1)):
            each = tree.event(self.facts.l1, self.facts.l2)
            if meter.affords("tree", slot, each):
                self._grow(tree, tree.measure(wall, box, f"tree@{slot}"))
        leaf = self._leaf
        sizes = np.bincount(leaf)

        def gathered(counts: Counts) -> Counts:
            sums = np.zeros(sizes.size, dtype=np.int64)
            np.add.at(sums, leaf, counts.values)
            return replace(counts, values=sums, what="sums over leaves")

        found = self._noise.measure(wall, box.map(gathered, "leaves"), f"leaves@{slot}")
        spread = (found.estimate() / sizes)[leaf]
        if not self._scheme.filtered:
            return self.renew(spread, self._noise.sd / float(sizes.mean()), found.tainted)
        # Cells of a leaf share its noise, so each is filtered as the mean of the leaf that it is.
        size = sizes[leaf].astype(np.float64)
        self._filter.process = self._process / size
        self._filter.predict()
        self._filter.correct(spread, self._noise.variance / np.square(size))
        sd = float(np.sqrt(self._filter.variance.mean()))
        return self.renew(self._filter.estimate.copy(), sd, found.tainted)

    def _grow(self, tree: Noise, found: Measurement) -> None:
        """The tree from the mean of all histograms so far."""
        self.tainted = self.tainted or found.tainted
        self._trees += 1
        self._mean = self._mean + (found.estimate() - self._mean) / self._trees
        noise, chance = tree.variance / self._trees, 1 - 1 / self._trees
        self._leaf = pruned(
            self._levels, self._mean, noise, chance, self._each, self._scheme.margin
        )

    def state(self) -> State:
        more: dict[str, Any] = {"leaf": self._leaf, "mean": self._mean, "trees": self._trees}
        if self._scheme.filtered:
            more |= {"estimate": self._filter.estimate, "variance": self._filter.variance}
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._leaf = state["leaf"]
        self._mean, self._trees = state["mean"], int(state["trees"])
        if self._scheme.filtered:
            self._filter.estimate, self._filter.variance = state["estimate"], state["variance"]


temporal = FanTemporal()
spatial = FanSpatial()
combined = FanSpatial(name="fan-combined", filtered=True)
