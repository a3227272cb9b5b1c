"""`adatrace`: AdaTrace's ingredients (Gursoy et al. 2018) with a public box and paid splits.

A grid of 6 x 6 cells; the busy ones are split into up to 4 x 4 by noisy density; first-order moves
between neighbouring leaves; a table of (first, last) leaf; how much longer than the shortest way
trips of each distance are. A made-up trip draws its ends, then its length, then walks with the
moves' law conditioned on reaching the end in the steps that are left.

Printed and in the authors' code the box, the densities of the second level, the largest length and
the filters against attacks read raw data, which its epsilon does not cover. Here the box is public,
splits follow from noisy densities, classes of length are fixed, and there are no filters.

*Claim.* Unit: one trajectory. Neighbours: add or remove one. Sensitivity: a trip spreads a weight
of 2^16 evenly, rounded down, over the top cells it visits and over its moves, so each of these
tables moves by at most 2^16 in L1 and in L2; it has one cell in the tables of ends, of lengths and
of the clock: 1. Cost: one Gaussian event each; shares of rho as AdaTrace's of epsilon: .05, .35,
.50, .10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.csgraph import shortest_path

from sfumato.density.scheme import Plan, PlannedMeasurement
from sfumato.model.compiled import compiled
from sfumato.model.counts import WEIGHT_UNITS, Counts
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
    integer_counts,
    true_trips,
)
from sfumato_lab.synthesis.grams import drawn, points_in, to_total
from sfumato_lab.synthesis.trees import sharpness, taken

MOST_SPLITS = 4
FINE = 12
"""Of a top cell, a side: a multiple of 1, 2, 3 and 4."""
EXTRA = 16
"""Classes of steps beyond the shortest way; the last one holds the rest."""
FAR = 8
"""Classes of the shortest way, in moves; the last one holds the rest."""
SPLIT = 0.02
"""Leaves of a top cell: share of the density x sharpness x this, so that a leaf's moves stand out
of the noise by a few standard deviations (set once, not tuned)."""
SHARES = {"density": 0.05, "moves": 0.35, "ends": 0.50, "lengths": 0.10}
"""AdaTrace's own split."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The public grid that noisy densities gave."""

    of: Ints
    """Leaf of every square of the fine lattice, `top * FINE` squares a side."""
    squares: tuple[Ints, Ints, Ints]
    """Column, row and squares a side of each leaf."""
    near: Ints
    """Neighbours of each leaf, padded with -1."""
    hops: Ints
    """Least number of moves between leaves."""


class AdaTrace:
    """Grid, first-order moves, ends, lengths."""

    name = "adatrace"
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType({"top": Setting("Top cells a side", 6, 2, 12)}),
        least=380.0,
    )

    def plan(self, facts: SynthFacts) -> Plan:
        planned = self._planned(facts)
        return Plan(
            scheme=self.name,
            measurements=tuple(planned.values()),
            sd=planned["ends"].sd,
            lines=("Density, moves, ends and lengths, in AdaTrace's shares.",),
            bound="each trip a weight of 1 in each table",
        )

    def _planned(self, facts: SynthFacts) -> dict[str, PlannedMeasurement]:
        top, units = int(facts.number("top")), WEIGHT_UNITS
        most = (top * MOST_SPLITS) ** 2
        left = 1 - CLOCK_SHARE
        blocks = (
            clock_block(),
            Block("density", top * top, float(units), SHARES["density"] * left, units),
            Block("moves", most * most, float(units), SHARES["moves"] * left, units),
            Block("ends", most * most, 1.0, SHARES["ends"] * left, touched=1),
            Block("lengths", FAR * EXTRA, 1.0, SHARES["lengths"] * left, touched=1),
        )
        return blocks_within(facts.public.epsilon, facts.public.delta, blocks)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        trips, planned = true_trips(source, facts), self._planned(facts)
        top = int(facts.number("top"))
        noisy = {CLOCK: taken(wall, clock_counts(trips), planned[CLOCK])}
        density = trips.map(lambda t: _density(t.paths, top), "density")
        noisy["density"] = taken(wall, density, planned["density"])
        leaves = leaves_of(noisy["density"], top, sharpness(facts))
        for label in ("moves", "ends", "lengths"):
            box = trips.map(partial(table, leaves=leaves, label=label), label)
            noisy[label] = taken(wall, box, planned[label])
        return noisy

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        rng = people_stream(facts.seed, self.name)
        leaves = self._leaves(noisy, facts)
        count = leaves.hops.shape[0]
        total = np.array([max(float(np.sum(noisy["density"])), 1.0)])
        ends = to_total(np.asarray(noisy["ends"], np.float64)[None], total)[0]
        pair = drawn(ends, facts.people, rng)
        first, last = np.divmod(pair, count)
        lengths = np.asarray(noisy["lengths"], np.float64).reshape(FAR, EXTRA)
        steps = leaves.hops[first, last]
        apart = np.minimum(steps, FAR - 1)
        for far in range(FAR):
            those = np.flatnonzero(apart == far)
            steps[those] += drawn(lengths[far], those.size, rng)
        moves = np.maximum(np.asarray(noisy["moves"], np.float64).reshape(leaves.near.shape), 0.0)
        moves[leaves.near < 0] = 0.0
        even = (leaves.near >= 0) / np.maximum((leaves.near >= 0).sum(1, keepdims=True), 1)
        law = np.where(moves.sum(1, keepdims=True) > 0, moves, even)
        law /= law.sum(1, keepdims=True)
        reach = _reach(law, leaves.near, int(steps.max(initial=1)) + 1)
        draws = rng.random((facts.people, max(int(steps.max(initial=1)), 1)))
        out, size = _walk(first, last, steps, law, leaves.near, leaves.hops, reach, draws)
        made = points_in(leaves.squares, out, size, rng)
        yield from chunks_of(made, facts, noisy[CLOCK], rng)

    def counted(self, made: Timed, noisy: Noisy, facts: SynthFacts) -> Noisy:
        top, leaves = int(facts.number("top")), self._leaves(noisy, facts)
        density = _density(made.paths, top).values / WEIGHT_UNITS
        tables = {label: table(made, leaves, label).values for label in ("ends", "lengths")}
        return {CLOCK: clock_of(made), "density": density, **tables}

    def shown(self, tables: Noisy, noisy: Noisy, facts: SynthFacts) -> TripTables:
        """Top cells, pairs of top cells, and lengths in moves between leaves."""
        top = int(facts.number("top"))
        across, up, side = self._leaves(noisy, facts).squares
        cell = across * top // side * top + up * top // side
        pair = (cell[:, None] * top * top + cell[None]).ravel()
        pairs = np.bincount(pair, np.asarray(tables["ends"], np.float64), top**4)
        lengths = np.asarray(tables["lengths"], np.float64).reshape(FAR, EXTRA)
        steps = np.add.outer(np.arange(FAR), np.arange(EXTRA)).ravel()
        return TripTables(
            hours=by_hour(tables),
            cells=np.asarray(tables["density"], np.float64),
            pairs=pairs.reshape(top * top, top * top).astype(np.float64),
            lengths=np.bincount(steps, lengths.ravel()).astype(np.float64),
            ends=tuple(float(step) for step in range(FAR + EXTRA - 2)),
            unit="moves",
        )

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        return Figures(trips=self.shown(noisy, noisy, facts))

    def _leaves(self, noisy: Noisy, facts: SynthFacts) -> Leaves:
        density = np.asarray(noisy["density"], np.float64)
        return leaves_of(density, int(facts.number("top")), sharpness(facts))


def leaves_of(density: Floats, top: int, sharp: float) -> Leaves:
    """The leaves that noisy densities of the top cells give."""
    busy = np.maximum(density, 0.0)
    share = busy / max(float(busy.sum()), 1e-9)
    split = np.clip(np.round(np.sqrt(share * sharp * SPLIT)), 1, MOST_SPLITS).astype(np.int64)
    fine = top * FINE
    at = np.arange(fine)
    cell = (at[:, None] // FINE) * top + at[None] // FINE
    begin = np.concatenate([[0], np.cumsum(split**2)])
    part = split[cell]
    inner = (at[:, None] % FINE * part // FINE) * part + at[None] % FINE * part // FINE
    of = (begin[cell] + inner).astype(np.int64)
    own = np.repeat(np.arange(top * top), split**2)
    local = np.arange(own.size) - begin[own]
    across = own // top * split[own] + local // split[own]
    up = own % top * split[own] + local % split[own]
    joined = np.zeros((own.size, own.size), np.bool_)
    for dx in (0, 1):
        for dy in (-1, 0, 1):
            a = of[: fine - dx, max(dy, 0) : fine + min(dy, 0)]
            b = of[dx:, max(-dy, 0) : fine + min(-dy, 0)]
            joined[a, b] = joined[b, a] = True
    np.fill_diagonal(joined, False)
    width = int(joined.sum(1).max())
    near = np.full((own.size, width), -1, np.int64)
    for leaf in range(own.size):
        beside = np.flatnonzero(joined[leaf])
        near[leaf, : beside.size] = beside
    hops = shortest_path(joined, unweighted=True).astype(np.int64)
    return Leaves(of, (across, up, top * split[own]), near, hops)


def _density(paths: Paths, top: int) -> Counts:
    found = _visited(paths.x, paths.y, paths.starts, top, WEIGHT_UNITS)
    return integer_counts(found, float(WEIGHT_UNITS), float(WEIGHT_UNITS), "density", WEIGHT_UNITS)


def table(trips: Timed, leaves: Leaves, label: str) -> Counts:
    """Moves (weighted), ends or extra lengths of true trips."""
    paths = trips.paths
    moves, ends, extra = _tables(
        paths.x, paths.y, paths.starts, leaves.of, leaves.near, leaves.hops, WEIGHT_UNITS
    )
    units = float(WEIGHT_UNITS)
    if label == "moves":
        return integer_counts(moves.ravel(), units, units, label, WEIGHT_UNITS)
    return integer_counts(ends if label == "ends" else extra, 1.0, 1.0, label)


@compiled
def _visited(x: Floats, y: Floats, starts: Ints, top: int, units: int) -> Ints:
    """Each trip spreads its weight evenly over the distinct top cells of its points."""
    out = np.zeros(top * top, np.int64)
    stamp = np.full(top * top, -1, np.int64)
    for trip in range(starts.size - 1):
        found = 0
        for i in range(starts[trip], starts[trip + 1]):
            cell = int(x[i] * top) * top + int(y[i] * top)
            if stamp[cell] != trip:
                stamp[cell] = trip
                found += 1
        for cell in range(top * top):
            if stamp[cell] == trip:
                out[cell] += units // found
    return out


@compiled
def _tables(
    x: Floats, y: Floats, starts: Ints, of: Ints, near: Ints, hops: Ints, units: int
) -> tuple[Ints, Ints, Ints]:
    """Leaves of each trip in a row; moves to leaves that do not touch are left out."""
    fine = of.shape[0]
    leaves = hops.shape[0]
    moves = np.zeros(near.shape, np.int64)
    ends = np.zeros(leaves * leaves, np.int64)
    extra = np.zeros(FAR * EXTRA, np.int64)
    for trip in range(starts.size - 1):
        first, last = starts[trip], starts[trip + 1]
        if last == first:
            continue
        steps = 0
        # once to count the moves, once to add their weights
        for again in range(2):
            weight = units // max(steps, 1)
            steps = 0
            before = of[int(x[first] * fine), int(y[first] * fine)]
            for i in range(first + 1, last):
                far = max(abs(x[i] - x[i - 1]), abs(y[i] - y[i - 1]))
                parts = max(1, int(far * fine) + 1)
                for p in range(1, parts + 1):
                    px = x[i - 1] + (x[i] - x[i - 1]) * p / parts
                    py = y[i - 1] + (y[i] - y[i - 1]) * p / parts
                    leaf = of[min(int(px * fine), fine - 1), min(int(py * fine), fine - 1)]
                    if leaf == before:
                        continue
                    steps += 1
                    if again == 1:
                        for k in range(near.shape[1]):
                            if near[before, k] == leaf:
                                moves[before, k] += weight
                    before = leaf
        origin = of[int(x[first] * fine), int(y[first] * fine)]
        ends[origin * leaves + before] += 1
        apart = hops[origin, before]
        more = min(max(steps - apart, 0), EXTRA - 1)
        extra[min(apart, FAR - 1) * EXTRA + more] += 1
    return moves, ends, extra


@compiled
def _reach(law: Floats, near: Ints, steps: int) -> Floats:
    """Probability to be at an end (second axis) after so many moves from each leaf (third)."""
    leaves = law.shape[0]
    out = np.zeros((steps + 1, leaves, leaves), np.float64)
    for leaf in range(leaves):
        out[0, leaf, leaf] = 1.0
    for step in range(1, steps + 1):
        for end in range(leaves):
            for leaf in range(leaves):
                total = 0.0
                for k in range(near.shape[1]):
                    if near[leaf, k] >= 0:
                        total += law[leaf, k] * out[step - 1, end, near[leaf, k]]
                out[step, end, leaf] = total
    return out


@compiled
def _walk(
    first: Ints, last: Ints, steps: Ints, law: Floats, near: Ints, hops: Ints, reach: Floats,
    draws: Floats,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Leaves of every trip: the moves' law, conditioned on the end; else the shortest way."""
    out = np.zeros((first.size, draws.shape[1] + 1), np.int64)
    weight = np.empty(near.shape[1])
    for trip in range(first.size):
        here, end = first[trip], last[trip]
        out[trip, 0] = here
        for step in range(steps[trip]):
            total = 0.0
            for k in range(near.shape[1]):
                weight[k] = 0.0
                if near[here, k] >= 0:
                    weight[k] = law[here, k] * reach[steps[trip] - step - 1, end, near[here, k]]
                    total += weight[k]
            if not total > 0:
                for k in range(near.shape[1]):
                    weight[k] = 0.0
                    if near[here, k] >= 0 and hops[near[here, k], end] <= max(
                        hops[here, end] - 1, 1
                    ):
                        weight[k] = 1.0
                        total += 1.0
            left = draws[trip, step] * total
            chosen = -1
            for k in range(near.shape[1]):
                if weight[k] > 0:
                    chosen = k
                    left -= weight[k]
                    if left < 0:
                        break
            here = near[here, chosen]
            out[trip, step + 1] = here
    return out, steps + 1
