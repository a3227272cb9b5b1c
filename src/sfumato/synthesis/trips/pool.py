"""Candidate trips over a public box: shortest paths through a smooth density, with endpoints drawn.

Everything here reads public facts and noisy numbers that have passed the wall. Endpoints come from
smooth fields or from an earlier pool; a path is the cheapest on the graph of 32 x 32 cells with
eight neighbours, where a cell costs exp(-beta log density + sigma field), beta, sigma and a random
field drawn anew for every few trips of one origin; every path runs beside the cells' middles by an
offset of its own, so that neighbours use parallel streets; some candidates are two paths in a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.synthesis.trips.blocks import Floats, Ints, Paths
from sfumato.synthesis.trips.maxent import Noisy, Smooth, blur, fit_weights

SIDE = 32
"""Cells of the graph a side."""
CELLS = SIDE * SIDE
TREE = 8
"""Trips of one origin that share a random field and a tree of shortest paths."""


def field_of(tables: list[tuple[int, Floats, float]], steps: int = 120) -> Floats:
    """A smooth density on the graph's cells from noisy tables (cells a side, values, sd).

    The cells are the candidates, and each table has a total of its own.
    """
    cell = np.arange(CELLS)
    columns, noisy, offset = [], [], 0
    for group, (side, values, sd) in enumerate(tables):
        inside = cell // SIDE * side // SIDE * side + cell % SIDE * side // SIDE
        columns.append(offset + inside)
        offset += side * side
        widths = [width for width in (0.25, 0.12, 0.06, 0.03) if width * side >= 0.4]
        # The blur is over the table's cells; below their size nothing is known.
        levels = tuple((1.5, (blur(side, width),) * 2) for width in widths)
        prior = Smooth((side, side), (*levels, (0.7, (None, None))))
        noisy.append(Noisy(values, sd, prior, group))
    pointer = np.arange(CELLS + 1, dtype=np.int64) * len(tables)
    flat = np.stack(columns, 1).ravel().astype(np.int32)
    fitted = fit_weights(pointer, flat, np.ones(flat.size, np.float32), noisy, steps)
    # Uneven blocks of a coarse table are smoothed over one cell of the graph.
    soft = blur(SIDE, 0.5 / max(side for side, _, _ in tables))
    soft /= soft.sum(1, keepdims=True)
    field: Floats = soft @ fitted.weights.reshape(SIDE, SIDE) @ soft.T
    density: Floats = (field / field.sum()).ravel()
    return density


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Where candidates begin and end, in the unit square."""

    x0: Floats
    y0: Floats
    x1: Floats
    y1: Floats

    def __len__(self) -> int:
        return int(self.x0.size)

    @property
    def origin(self) -> Ints:
        return cell_of(self.x0, self.y0)

    def pick(self, which: Ints | slice) -> Ends:
        return Ends(self.x0[which], self.y0[which], self.x1[which], self.y1[which])

    @staticmethod
    def joined(first: Ends, second: Ends) -> Ends:
        names = ("x0", "y0", "x1", "y1")
        return Ends(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names))


def cell_of(x: Floats, y: Floats, side: int = SIDE) -> Ints:
    """Number of the cell of a grid over the unit square."""
    across, up = (np.minimum((v * side).astype(np.int64), side - 1) for v in (x, y))
    return across * side + up


def inside(value: Floats) -> Floats:
    """Folded back into the unit interval."""
    folded = np.abs(value)
    folded = np.where(folded > 1, 2 - folded, folded)
    return np.clip(folded, 0.0, 1 - 1e-9)


def drawn_ends(count: int, origin: Floats, destination: Floats, rng: np.random.Generator) -> Ends:
    """Endpoints from two fields, joined by a distance law of a random scale for each trip."""
    first = rng.choice(CELLS, count, p=origin)
    scale = np.exp(rng.uniform(math.log(0.04), math.log(0.5), 16))
    kind = rng.integers(0, 16, count)
    second = np.empty(count, np.int64)
    at = np.arange(CELLS)
    apart = np.hypot(at[:, None] // SIDE - at // SIDE, at[:, None] % SIDE - at % SIDE) / SIDE
    for k in range(16):
        law = np.cumsum(destination * np.exp(-apart / scale[k]), axis=1)
        rows = np.flatnonzero(kind == k)
        pick = rng.random(rows.size) * law[first[rows], -1]
        second[rows] = _searched(law, first[rows], pick)
    spot = rng.random((4, count))
    return Ends(
        (first // SIDE + spot[0]) / SIDE,
        (first % SIDE + spot[1]) / SIDE,
        (second // SIDE + spot[2]) / SIDE,
        (second % SIDE + spot[3]) / SIDE,
    )


def moved_ends(paths: Paths, weights: Floats, count: int, rng: np.random.Generator) -> Ends:
    """Endpoints of an earlier pool, drawn by weight and moved by about half a cell."""
    which = systematic(weights, count, rng)
    first, last = paths.starts[which], paths.starts[which + 1] - 1
    step = rng.normal(0, 0.5 / SIDE, (4, count))
    return Ends(
        inside(paths.x[first] + step[0]),
        inside(paths.y[first] + step[1]),
        inside(paths.x[last] + step[2]),
        inside(paths.y[last] + step[3]),
    )


def systematic(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Systematic resampling: each index floor or ceil of count x weight times."""
    edges = np.cumsum(weights)
    at = (np.arange(count) + rng.random()) / count * edges[-1]
    found: Ints = np.searchsorted(edges, at, side="right").astype(np.int64)
    return np.minimum(found, weights.size - 1)


def routed(
    ends: Ends,
    density: Floats,
    aspect: float,
    rng: np.random.Generator,
    beta: tuple[float, float],
    sigma: tuple[float, float],
) -> Paths:
    """Paths between endpoints through a density; sorted by origin."""
    order = np.argsort(ends.origin, kind="stable")
    ends = ends.pick(order)
    origin, goal = ends.origin, cell_of(ends.x1, ends.y1)
    new = np.concatenate([[True], origin[1:] != origin[:-1]])
    run = np.arange(origin.size) - np.maximum.accumulate(np.where(new, np.arange(origin.size), 0))
    tree = np.cumsum(new | (run % TREE == 0)) - 1
    trees = int(tree[-1]) + 1 if tree.size else 0
    root = origin[np.searchsorted(tree, np.arange(trees))]
    level = np.log(density * CELLS + 0.01)
    wide, high = max(aspect, 1.0), max(1 / aspect, 1.0)
    parts = []
    for a in range(0, trees, 4096):
        b = min(a + 4096, trees)
        noise = rng.standard_normal((b - a, CELLS), dtype=np.float32)
        lean = rng.uniform(*beta, b - a)
        rough = rng.uniform(*sigma, b - a)
        lo, hi = np.searchsorted(tree, [a, b])
        count = hi - lo
        offset = rng.uniform(-0.5, 0.5, (2, count))
        wobble = np.exp(rng.uniform(math.log(0.05), math.log(0.45), count))
        keep = rng.integers(1, 3, count)
        cells, starts = _shortest(
            root[a:b], tree[lo:hi] - a, goal[lo:hi], level, noise, lean, rough, wide, high
        )
        jitter = rng.uniform(-1, 1, (2, cells.size + 2 * count))
        x, y, begins = _polylines(
            cells, starts, ends.x0[lo:hi], ends.y0[lo:hi], ends.x1[lo:hi], ends.y1[lo:hi],
            offset, wobble, keep, jitter,
        )  # fmt: skip
        parts.append(Paths(x, y, begins))
    return Paths.joined(parts)


def spliced(paths: Paths, weights: Floats, count: int, rng: np.random.Generator) -> Paths:
    """Two paths in a row, the second from the cell where the first ends."""
    first = systematic(weights, count, rng)[rng.permutation(count)]
    ends, begins = paths.starts[1:] - 1, paths.starts[:-1]
    goal = cell_of(paths.x[ends], paths.y[ends])
    start = cell_of(paths.x[begins], paths.y[begins])
    order = np.argsort(start, kind="stable")
    sizes = np.bincount(start, minlength=CELLS)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    here = goal[first]
    first = first[sizes[here] > 0]
    here = goal[first]
    second = order[edges[here] + (rng.random(first.size) * sizes[here]).astype(np.int64)]
    x, y, starts = _joined(paths.x, paths.y, paths.starts, first, second)
    return Paths(x, y, starts)


def pair_order(paths: Paths) -> Ints:
    """Place of each (origin, destination) on a Morton curve through pairs of the graph's cells."""
    first, last = paths.starts[:-1], paths.starts[1:] - 1
    key = np.zeros(len(paths), np.int64)
    for bit in range(SIDE.bit_length() - 2, -1, -1):
        for at, axis in ((first, paths.x), (first, paths.y), (last, paths.x), (last, paths.y)):
            key = key * 2 + ((axis[at] * SIDE).astype(np.int64) >> bit & 1)
    return key


def jittered(paths: Paths, lattice: int, rng: np.random.Generator) -> Paths:
    """Every point anywhere in its cell of a public lattice."""
    spot = rng.random((2, paths.x.size))
    x, y = (np.floor(v * lattice) for v in (paths.x, paths.y))
    return Paths((x + spot[0]) / lattice, (y + spot[1]) / lattice, paths.starts)


@compiled
def _searched(law: Floats, rows: Ints, at: Floats) -> Ints:
    out = np.empty(rows.size, np.int64)
    for i in range(rows.size):
        out[i] = min(np.searchsorted(law[rows[i]], at[i], side="right"), law.shape[1] - 1)
    return out


@compiled
def _shortest(
    root: Ints,
    tree: Ints,
    goal: Ints,
    level: Floats,
    noise: NDArray[np.float32],
    lean: Floats,
    rough: Floats,
    wide: float,
    high: float,
) -> tuple[Ints, Ints]:
    """Cells of the cheapest path of every trip from its tree's root to its goal."""
    parent = np.empty(CELLS, np.int64)
    distance = np.empty(CELLS, np.float64)
    cost = np.empty(CELLS, np.float64)
    heap = np.empty(CELLS * 9, np.float64)
    node = np.empty(CELLS * 9, np.int64)
    back = np.empty(CELLS, np.int64)
    starts = np.zeros(tree.size + 1, np.int64)
    cells = np.empty(max(tree.size * 16, 64), np.int64)
    used = 0
    done = -1
    for trip in range(tree.size):
        if tree[trip] != done:
            done = tree[trip]
            for c in range(CELLS):
                cost[c] = math.exp(-lean[done] * level[c] + rough[done] * noise[done, c])
                distance[c] = np.inf
                parent[c] = -1
            # the tree ends when its last goal is reached
            left = 0
            last = trip
            while last < tree.size and tree[last] == done:
                last += 1
                left += 1
            distance[root[done]] = 0.0
            heap[0], node[0] = 0.0, root[done]
            size = 1
            while size > 0 and left > 0:
                at, here = heap[0], node[0]
                size -= 1
                key, move = heap[size], node[size]
                i = 0
                while True:
                    child = 2 * i + 1
                    if child >= size:
                        break
                    if child + 1 < size and heap[child + 1] < heap[child]:
                        child += 1
                    if heap[child] >= key:
                        break
                    heap[i], node[i] = heap[child], node[child]
                    i = child
                heap[i], node[i] = key, move
                if at > distance[here]:
                    continue
                for k in range(trip, last):
                    if goal[k] == here:
                        left -= 1
                cx, cy = here // SIDE, here % SIDE
                for dx in range(-1, 2):
                    for dy in range(-1, 2):
                        nx, ny = cx + dx, cy + dy
                        if (dx == 0 and dy == 0) or not (0 <= nx < SIDE and 0 <= ny < SIDE):
                            continue
                        there = nx * SIDE + ny
                        far = at + (cost[here] + cost[there]) * math.hypot(dx * wide, dy * high)
                        if far < distance[there]:
                            distance[there] = far
                            parent[there] = here
                            i = size
                            size += 1
                            while i > 0 and heap[(i - 1) // 2] > far:
                                heap[i], node[i] = heap[(i - 1) // 2], node[(i - 1) // 2]
                                i = (i - 1) // 2
                            heap[i], node[i] = far, there
        length = 0
        here = goal[trip]
        while here >= 0:
            back[length] = here
            length += 1
            here = parent[here]
        if used + length > cells.size:
            more = np.empty(cells.size * 2 + CELLS, np.int64)
            more[:used] = cells[:used]
            cells = more
        for k in range(length):
            cells[used + k] = back[length - 1 - k]
        used += length
        starts[trip + 1] = used
    return cells[:used].copy(), starts


@compiled
def _polylines(
    cells: Ints,
    starts: Ints,
    x0: Floats,
    y0: Floats,
    x1: Floats,
    y1: Floats,
    offset: Floats,
    wobble: Floats,
    keep: Ints,
    jitter: Floats,
) -> tuple[Floats, Floats, Ints]:
    """Points beside the path's cells: every first or second of them, and the two ends."""
    count = starts.size - 1
    x, y = np.empty(jitter.shape[1]), np.empty(jitter.shape[1])
    begins = np.zeros(count + 1, np.int64)
    used = 0
    for trip in range(count):
        a, b = starts[trip], starts[trip + 1]
        x[used], y[used] = x0[trip], y0[trip]
        used += 1
        inner = 0
        for k in range(a + 1, b - 1):
            if (k - a) % keep[trip] == 0:
                px = (
                    cells[k] // SIDE + 0.5 + offset[0, trip] + wobble[trip] * jitter[0, used]
                ) / SIDE
                py = (
                    cells[k] % SIDE + 0.5 + offset[1, trip] + wobble[trip] * jitter[1, used]
                ) / SIDE
                x[used], y[used] = min(max(px, 0.0), 1 - 1e-9), min(max(py, 0.0), 1 - 1e-9)
                used += 1
                inner += 1
        if inner == 0:  # a point between, so that no trip is a bare pair
            px = (x0[trip] + x1[trip]) / 2 + wobble[trip] * jitter[0, used] / SIDE
            py = (y0[trip] + y1[trip]) / 2 + wobble[trip] * jitter[1, used] / SIDE
            x[used], y[used] = min(max(px, 0.0), 1 - 1e-9), min(max(py, 0.0), 1 - 1e-9)
            used += 1
        x[used], y[used] = x1[trip], y1[trip]
        used += 1
        begins[trip + 1] = used
    return x[:used].copy(), y[:used].copy(), begins


@compiled
def _joined(
    x: Floats, y: Floats, starts: Ints, first: Ints, second: Ints
) -> tuple[Floats, Floats, Ints]:
    size = 0
    for i in range(first.size):
        size += starts[first[i] + 1] - starts[first[i]] + starts[second[i] + 1] - starts[second[i]]
    ox, oy = np.empty(size), np.empty(size)
    begins = np.zeros(first.size + 1, np.int64)
    used = 0
    for i in range(first.size):
        for k in range(starts[first[i]], starts[first[i] + 1] - 1):
            ox[used], oy[used] = x[k], y[k]
            used += 1
        for k in range(starts[second[i]], starts[second[i] + 1]):
            ox[used], oy[used] = x[k], y[k]
            used += 1
        begins[i + 1] = used
    return ox[:used].copy(), oy[:used].copy(), begins
