"""Estimation over time and over space (Fan, Xiong & Sunderam 2013).

* `fan-temporal`: every slot is measured as in `direct`, and a Kalman filter per cell smooths
  the noisy series. Cells are dense or sparse by their noisy level so far, and dense cells are
  given a larger process variance. Post-processing.
* `fan-spatial`: the cells of a grid are gathered in the leaves of a quadtree; each slot
  measures one sum per leaf and spreads it evenly. A person is in one leaf a slot, so a leaf sum
  costs what a cell costs and its noise per cell is divided by the leaf's size. The tree is
  grown from one noisy histogram at the start of each window (a tenth of the budget): a square
  is split while its noisy total is above what its noise explains.

The Kalman filter is a scalar one for every cell at once: state x with process variance `process` a
slot, observations with variance `noise`. Both are public: the process variance is a guess that
nobody looks up in the raw data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, begins_window
from sfumato.streams.scheme import (
    Meter,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)


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
        self, observed: Values, noise: float, index: slice | NDArray[np.int64] = slice(None)
    ) -> None:
        """Take up observations of the cells `index`, with noise of a known variance."""
        gain = self.variance[index] / (self.variance[index] + noise)
        self.estimate[index] += gain * (observed - self.estimate[index])
        self.variance[index] *= 1 - gain


def default_process(expected_users: int | None, cells: int) -> float:
    """A public guess of how much a count drifts a slot: the mean count, as Poisson counts do."""
    return max(1.0, (expected_users or cells) / cells)


_TREE = Fraction(1, 10)


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
        dense = self._filter.estimate > np.mean(self._filter.estimate)
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


def quadtree_leaves(noisy: Values, columns: int, sd: float) -> NDArray[np.int64]:
    """Leaf of every cell: squares are split while their total exceeds its noise, down to cells."""
    rows = noisy.size // columns
    side = 1 << max(int(np.ceil(np.log2(max(rows, columns)))), 0)
    grid = np.zeros((side, side))
    grid[:rows, :columns] = noisy.reshape(rows, columns)
    inside = np.zeros((side, side))
    inside[:rows, :columns] = 1.0
    leaf = np.full((side, side), -1, dtype=np.int64)
    open_squares = np.ones((1, 1), dtype=bool)
    size, number = side, 0
    while True:
        blocks = side // size
        shape = (blocks, size, blocks, size)
        total = grid.reshape(shape).sum(axis=(1, 3))
        held = inside.reshape(shape).sum(axis=(1, 3))
        split = open_squares & (total > 4 * sd * np.sqrt(np.maximum(held, 1))) & (size > 1)
        done = open_squares & ~split & (held > 0)
        numbers = np.where(done, number + np.cumsum(done.ravel()).reshape(done.shape) - 1, -1)
        number += int(done.sum())
        fine = np.repeat(np.repeat(numbers, size, axis=0), size, axis=1)
        leaf = np.where(fine >= 0, fine, leaf)
        if not split.any():
            return leaf[:rows, :columns].ravel()
        open_squares = np.repeat(np.repeat(split, 2, axis=0), 2, axis=1)
        size //= 2


@dataclass(frozen=True, slots=True)
class FanSpatial:
    """Sums over quadtree leaves, spread evenly."""

    noise: NoiseKind = NoiseKind.BEST
    name: str = "fan-spatial"
    finished: bool = False

    def plan(self, facts: StreamFacts) -> StreamPlan:
        if facts.grid_columns is None:
            raise UsageError("The quadtree needs cells in a full rectangular grid.")
        noise = noise_of(facts, self.noise, facts.window, 1 - _TREE)
        tree = noise_of(facts, noise.kind, 1, _TREE)
        accounts = (
            noise.account("leaves", facts.window, facts.l1, facts.l2),
            tree.account("tree", 1, facts.l1, facts.l2),
        )
        line = f"Sums over quadtree leaves with {noise.kind} noise, sd {noise.sd:.3g} a leaf."
        return StreamPlan(self.name, accounts, (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Spatial(facts, self)


class _Spatial(Repeating):
    def __init__(self, facts: StreamFacts, scheme: FanSpatial) -> None:
        super().__init__(facts)
        self._noise = noise_of(facts, scheme.noise, facts.window, 1 - _TREE)
        self._tree = noise_of(facts, self._noise.kind, 1, _TREE)
        self._leaf = np.zeros(facts.cells, dtype=np.int64)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        if begins_window(self.facts, slot):
            found = self._tree.measure(wall, box, f"tree@{slot}")
            columns = self.facts.grid_columns or self.facts.cells
            self._leaf = quadtree_leaves(found.estimate(), columns, self._tree.sd)
        leaf = self._leaf
        sizes = np.bincount(leaf)

        def gathered(counts: Counts) -> Counts:
            sums = np.zeros(sizes.size, dtype=np.int64)
            np.add.at(sums, leaf, counts.values)
            return replace(counts, values=sums, what="sums over leaves")

        found = self._noise.measure(wall, box.map(gathered, "leaves"), f"leaves@{slot}")
        spread = (found.estimate() / sizes)[leaf]
        return self.renew(spread, self._noise.sd / float(sizes.mean()), found.tainted)

    def state(self) -> State:
        more: dict[str, Any] = {"leaf": self._leaf}
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._leaf = state["leaf"]
