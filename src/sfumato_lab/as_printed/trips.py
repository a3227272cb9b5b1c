"""Methods for trips as they are printed or distributed: runnable, and never published.

Each makes trips up as its paper or its public code does, with the parts of the corrected method
(`sfumato_lab.synthesis`) and the steps that its epsilon does not cover: raw boxes and lengths,
choices by true counts, trees that are charged one by one. Noise is floating-point Laplace noise, as
printed. `sfumato_lab.studies.synthesis.printed` measures what these steps give away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.synthesis.trips.blocks import Floats, Ints, Paths
from sfumato.synthesis.trips.trajectories import Timed
from sfumato.utility.trips import Trips
from sfumato_lab.synthesis.adatrace import (
    EXTRA,
    FAR,
    SHARES,
    Leaves,
    _density,
    _reach,
    _walk,
    leaves_of,
    table,
)
from sfumato_lab.synthesis.dpt import (
    DPT_MOVES,
    DPT_SIDES,
    END,
    _native,
    _starts,
    _turns,
    move_chains,
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

Edges = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Printed:
    """What a printed form gives out."""

    made: Paths
    """In the unit square of `box`."""
    box: Edges
    longest: int = 0
    """Length at which trips were cut, where the method has one: it is part of the output."""
    counts: tuple[Floats, ...] = ()
    """Noisy tables, depth after depth, where it publishes a tree."""


def in_box(trips: Trips, box: Edges) -> Paths:
    """Trips (kilometres) in the unit square of a box: west, east, south, north."""
    west, east, south, north = box
    x = np.clip((trips.x - west) / max(east - west, 1e-9), 0.0, 1 - 1e-9)
    y = np.clip((trips.y - south) / max(north - south, 1e-9), 0.0, 1 - 1e-9)
    return Paths(x, y, trips.starts)


def raw_box(trips: Trips) -> Edges:
    """AdaTrace's grid begins with this. Of two neighbours it differs with certainty: delta is 1."""
    return trips.box


def adatrace(trips: Trips, epsilon: float, rng: np.random.Generator, top: int = 6) -> Printed:
    """The authors' program: the raw box, cells split by raw densities, raw largest lengths."""
    box = raw_box(trips)
    paths = in_box(trips, box)
    timed = Timed(paths, np.zeros(len(paths), np.int64))
    raw = _density(paths, top).values.astype(np.float64)
    leaves = leaves_of(raw, top, len(trips) * epsilon)  # splits read the truth

    def noisy(label: str) -> Floats:
        counts = table(timed, leaves, label)
        values = counts.values / counts.units_per_count
        return values + rng.laplace(0, 1 / (epsilon * SHARES[label]), values.size)

    longest = np.flatnonzero(
        table(timed, leaves, "lengths").values.reshape(FAR, EXTRA).sum(0)
    ).max()
    made = _adatrace_walk(leaves, {k: noisy(k) for k in ("moves", "ends", "lengths")}, len(trips),
                          int(longest), rng)  # fmt: skip
    return Printed(made, box, int(longest))


def _adatrace_walk(
    leaves: Leaves, noisy: dict[str, Floats], count: int, longest: int, rng: np.random.Generator
) -> Paths:
    """Trips from noisy tables, none longer than the longest true one beyond its shortest way."""
    first, last = np.divmod(drawn(noisy["ends"], count, rng), leaves.hops.shape[0])
    lengths = np.maximum(noisy["lengths"], 0.0).reshape(FAR, EXTRA)
    lengths[:, longest + 1 :] = 0.0
    steps = leaves.hops[first, last]
    apart = np.minimum(steps, FAR - 1)
    for far in range(FAR):
        those = np.flatnonzero(apart == far)
        steps[those] += drawn(lengths[far], those.size, rng)
    moves = np.maximum(noisy["moves"].reshape(leaves.near.shape), 0.0) + 1e-9
    moves[leaves.near < 0] = 0.0
    law = moves / moves.sum(1, keepdims=True)
    reach = _reach(law, leaves.near, int(steps.max(initial=1)) + 1)
    draws = rng.random((count, max(int(steps.max(initial=1)), 1)))
    out, size = _walk(first, last, steps, law, leaves.near, leaves.hops, reach, draws)
    return points_in(leaves.squares, out, size, rng)


def _grown(
    tree: Tree, chains: Chains, scale: float, rng: np.random.Generator
) -> tuple[Floats, ...]:
    """Noisy tables of all depths, Laplace noise of one scale."""
    tables = []
    for _ in range(tree.shape.depth):
        counts = tree.count(chains).astype(np.float64)
        tables.append(counts + rng.laplace(0, scale, counts.size))
        tree.grow(tables[-1], scale * 2**0.5)
    return tuple(tables)


def ngrams(
    paths: Paths, box: Edges, epsilon: float, rng: np.random.Generator, side: int = 8, n: int = 3
) -> Printed:
    """Grams of up to n cells; the cut l_max is the longest *true* trip."""
    cells = side * side
    whole = cell_chains(paths, side, 1 << 12, marks=2)
    longest = int(np.diff(whole.starts).max())
    tree = Tree(Shape(cells + 2, cells + 2, n, longest), neighbours(side, cells + 2), cells)
    tables = _grown(tree, whole, longest * n / epsilon, rng)
    start = np.full(len(paths), cells + 1, np.int64)
    draws = rng.random((len(paths), longest))
    turn = neighbours(side, cells + 2)
    out, size = walks(*tree.laws(), cells + 2, start, draws, turn, False, cells)
    empty = size < 2
    out[empty, 1] = drawn(tables[0][:cells], int(empty.sum()), rng)
    made = points_in(squares_of(side), out[:, 1:], np.maximum(size - 1, 1), rng)
    return Printed(made, box, longest, tables)


def prefix(
    paths: Paths, box: Edges, epsilon: float, rng: np.random.Generator, side: int = 6, h: int = 6
) -> Printed:
    """Prefixes, each level with Laplace noise of scale h / epsilon: sound for one trip a user."""
    cells = side * side
    turn = neighbours(side, cells + 1)
    tree = Tree(Shape(cells + 1, cells + 1, h, 1), turn, cells)
    tables = _grown(tree, cell_chains(paths, side, 20, marks=1), h / epsilon, rng)
    start = drawn(tree.counts[0][:cells], len(paths), rng)
    draws = rng.random((len(paths), 20))
    out, size = walks(*tree.laws(), cells + 1, start, draws, turn, True, cells)
    return Printed(points_in(squares_of(side), out, size, rng), box, h, tables)


def dpt(
    paths: Paths, box: Edges, epsilon: float, rng: np.random.Generator, height: int = 3
) -> Printed:
    """Trees chosen by true counts, each charged alone; true start cells."""
    sides = np.array(DPT_SIDES, np.int64)
    steps = _native(paths.x, paths.y, paths.starts, sides).sum(0)
    kept: Ints = (steps >= 0.05 * steps.sum()).astype(np.int64)
    kept[0] = 1
    chains = move_chains(paths, kept)
    cells = int(np.square(sides).sum())
    turn = _turns(np.zeros(cells))
    tree = Tree(Shape(cells, END + 1 + sides.size, height, DPT_MOVES), turn, END)
    # Every tree has the noise of the whole budget, as if a trip's moves stood in one of them.
    tables = _grown(tree, chains, DPT_MOVES * height / epsilon, rng)
    true_starts = _starts(chains, cells).values.astype(np.float64)
    start = drawn(true_starts, len(paths), rng)
    draws = rng.random((len(paths), DPT_MOVES))
    out, size = walks(*tree.laws(), turn.shape[1], start, draws, turn, False, END)
    return Printed(points_in(squares_of(*DPT_SIDES), out, size, rng), box, DPT_MOVES, tables)
