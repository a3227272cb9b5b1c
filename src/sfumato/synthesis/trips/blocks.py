"""What a trip says about a public grid: blocks of features, each a vector of length at most one.

A trip is a polyline in the unit square of a public box. On a g x g grid its *cells* are those met
at quarter-cell steps, repeats in a row left out, so that consecutive cells are neighbours. Blocks:

* `visits`: the set of its m cells, 1 / sqrt(m) each;
* `ends`: the first and the last cell, 1 / sqrt(2) each, in two tables;
* `pair`: first cell x last cell;
* `moves`, `turns`, `runs`: the set of (cell, next 1, 2, 3 directions), 1 / sqrt(m) each;
* `shape`: class of the length x class of length over diameter.

*Claim.* Unit: a trip (one trajectory, whatever its length and points). Neighbours: add or remove
one trip. Sensitivity: `tally` adds for each of the m features of a block with share s the largest
integer w with m w^2 <= floor(s 2^40), so a trip adds a vector of squared length at most
2^40 sum(s) <= 2^40: L2 at most 2^20 on the lattice, in exact integers, whatever the floating point
of the geometry gave, because a trip's features hang on that trip alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNITS = 1 << 20
"""Lattice units of a vector of length one."""
KINDS = ("visits", "ends", "pair", "moves", "turns", "runs", "shape")
LENGTHS = 24
"""Classes of length: geometric, from 1 % of the box's diagonal to eight times it."""
RATIOS = 9
_VISITS, _ENDS, _PAIR, _MOVES, _TURNS, _RUNS, _SHAPE = range(7)


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Polylines in the unit square: trip i has the points `starts[i]` to `starts[i + 1]`."""

    x: Floats
    y: Floats
    starts: Ints

    def __len__(self) -> int:
        return int(self.starts.size) - 1

    @property
    def points(self) -> Ints:
        """How many points each has."""
        return np.diff(self.starts)

    def pick(self, which: Ints) -> Paths:
        """Some of the polylines, in the order given; one may be taken several times."""
        size = self.points[which]
        starts = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.arange(starts[-1]) + np.repeat(self.starts[which] - starts[:-1], size)
        return Paths(self.x[rows], self.y[rows], starts)

    @staticmethod
    def joined(parts: Sequence[Paths]) -> Paths:
        starts = np.concatenate([[0], np.cumsum(np.concatenate([part.points for part in parts]))])
        x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in "xy")
        return Paths(x, y, starts.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Block:
    """One table of features on a grid of `side` x `side` cells, and its share of the budget."""

    kind: str
    side: int
    share: float

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not 1 <= self.side <= 64 or not self.share > 0:
            raise UsageError("A block has a kind, a grid of 1 to 64 cells a side and a share.")

    @property
    def size(self) -> int:
        cells = self.side**2
        per_cell = {"visits": 1, "ends": 2, "pair": cells, "moves": 8, "turns": 64, "runs": 512}
        return LENGTHS * RATIOS if self.kind == "shape" else cells * per_cell[self.kind]

    @property
    def most(self) -> int:
        """Most features of one trip."""
        return {"ends": 2, "pair": 1, "shape": 1}.get(self.kind, self.size)

    @property
    def label(self) -> str:
        return self.kind if self.kind == "shape" else f"{self.kind} {self.side}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks in their order in one long vector; `aspect` is the box's width over height."""

    blocks: tuple[Block, ...]
    aspect: float

    def __post_init__(self) -> None:
        if not self.blocks or math.fsum(block.share for block in self.blocks) > 1 + 1e-12:
            raise UsageError("Blocks have shares that sum to at most 1.")
        if not 0.01 <= self.aspect <= 100:
            raise UsageError("A box is at most a hundred times as long as it is wide.")

    @property
    def offsets(self) -> Ints:
        """Where each block begins, and the size of all of them."""
        return np.concatenate([[0], np.cumsum([b.size for b in self.blocks])]).astype(np.int64)

    @property
    def size(self) -> int:
        return int(self.offsets[-1])

    @property
    def most(self) -> int:
        """Most features of one trip."""
        return sum(block.most for block in self.blocks)

    @property
    def squares(self) -> Ints:
        """Squared length that each block may have, in lattice units: rounded down, at most 2^40."""
        asked = [math.floor(block.share * UNITS * UNITS) for block in self.blocks]
        over = max(sum(asked) - UNITS * UNITS, 0)
        asked[0] -= over
        return np.array(asked, np.int64)

    def slices(self) -> list[slice]:
        edges = self.offsets
        return [slice(int(a), int(b)) for a, b in pairwise(edges)]

    def _table(self) -> tuple[Ints, Ints, Ints, float, float]:
        kinds = np.array([KINDS.index(block.kind) for block in self.blocks], np.int64)
        sides = np.array([block.side for block in self.blocks], np.int64)
        # Distances in heights of the box's shorter side, so that they are distances.
        wide, high = max(self.aspect, 1.0), max(1 / self.aspect, 1.0)
        return kinds, sides, self.offsets, wide, high

    def features(self, paths: Paths) -> tuple[Ints, NDArray[np.int32], NDArray[np.float32]]:
        """CSR of the features (unit vectors): row pointers, columns, values 1 / sqrt(m)."""
        kinds, sides, offsets, wide, high = self._table()
        stamp = np.full(self.size, -1, np.int64)
        pointer = np.zeros(len(paths) + 1, np.int64)
        room = np.empty(max(64, 60 * len(paths)), np.int32)
        value = np.empty(room.size, np.float32)
        done = 0
        while done < len(paths):
            done, used = _features(
                paths.x, paths.y, paths.starts, kinds, sides, offsets, wide, high, stamp,
                pointer, room, value, done,
            )  # fmt: skip
            if done < len(paths):
                more = max(room.size, self.most)
                room = np.concatenate([room[:used], np.empty(more, np.int32)])
                value = np.concatenate([value[:used], np.empty(more, np.float32)])
                stamp[:] = -1
        used = int(pointer[-1])
        return pointer, room[:used].copy(), value[:used].copy()

    def tally(self, paths: Paths) -> Ints:
        """The sum over trips of their weighted features, in lattice units."""
        kinds, sides, offsets, wide, high = self._table()
        total = np.zeros(self.size, np.int64)
        _tally(
            paths.x, paths.y, paths.starts, kinds, sides, offsets, wide, high, self.squares, total
        )
        return total


def length_ends(diagonal: float) -> Floats:
    """Upper ends of the classes of length, all but the last, in a box of that diagonal."""
    found: Floats = diagonal * 0.01 * 800.0 ** (np.arange(LENGTHS - 1) / (LENGTHS - 1))
    return found


@compiled
def _one_block(
    x: Floats,
    y: Floats,
    first: int,
    last: int,
    kind: int,
    side: int,
    offset: int,
    wide: float,
    high: float,
    stamp: Ints,
    mark: int,
    out: Ints,
) -> int:
    """Columns of one trip in one block, distinct, into `out`; returns how many."""
    found = 0
    if kind == _SHAPE:
        out[0] = offset + _shape(x, y, first, last, wide, high)
        return 1
    if kind in (_ENDS, _PAIR):
        a = min(int(x[first] * side), side - 1) * side + min(int(y[first] * side), side - 1)
        b = min(int(x[last - 1] * side), side - 1) * side + min(int(y[last - 1] * side), side - 1)
        if kind == _PAIR:
            out[0] = offset + a * side * side + b
            return 1
        out[0] = offset + a
        out[1] = offset + side * side + b
        return 2
    grams = 0 if kind == _VISITS else kind - _MOVES + 1
    before = -1
    history = 0  # the last directions, three bits each
    moves = 0
    trail0 = trail1 = trail2 = 0  # cells before the last 1, 2, 3 moves
    base = 1
    for _ in range(grams):
        base *= 8
    for point in range(first, last):
        steps = 1
        px, py = x[point], y[point]
        if point > first:
            px, py = x[point - 1], y[point - 1]
            steps = max(1, math.ceil(math.hypot(x[point] - px, y[point] - py) * 4 * side))
        for step in range(1, steps + 1):
            part = step / steps
            cx = min(int((px + (x[point] - px) * part) * side), side - 1)
            cy = min(int((py + (y[point] - py) * part) * side), side - 1)
            cell = cx * side + cy
            if cell == before:
                continue
            code = -1
            if grams == 0:
                code = cell
            elif before >= 0:
                east, north = cx - before // side + 1, cy - before % side + 1
                nine = east * 3 + north
                history = (history * 8 + (nine if nine < 4 else nine - 1)) % base
                trail2, trail1, trail0 = trail1, trail0, before
                moves += 1
                if moves >= grams:
                    begin = trail0 if grams == 1 else (trail1 if grams == 2 else trail2)
                    code = begin * base + history
            before = cell
            if code >= 0 and stamp[offset + code] != mark:
                stamp[offset + code] = mark
                out[found] = offset + code
                found += 1
    return found


@compiled
def _shape(x: Floats, y: Floats, first: int, last: int, wide: float, high: float) -> int:
    """Class of length and of length over diameter (the widest of 16 directions: 0.5 % short)."""
    length = 0.0
    for i in range(first + 1, last):
        length += math.hypot((x[i] - x[i - 1]) * wide, (y[i] - y[i - 1]) * high)
    diameter = 0.0
    for k in range(16):
        c, s = math.cos(math.pi * k / 16) * wide, math.sin(math.pi * k / 16) * high
        low = top = x[first] * c + y[first] * s
        for i in range(first + 1, last):
            at = x[i] * c + y[i] * s
            low, top = min(low, at), max(top, at)
        diameter = max(diameter, top - low)
    diagonal = math.hypot(wide, high)
    scaled = length / diagonal
    # log2 from 1/100 to 8 of the diagonal
    row = 0
    if scaled > 0.01:
        row = min(int(math.log2(scaled * 100) / math.log2(800.0) * (LENGTHS - 1)) + 1, LENGTHS - 1)
    ratio = length / diameter if diameter > 0 else 1.0
    # 1, 1.05, 1.12, 1.22, 1.35, 1.55, 1.9, 2.6, 4: finer where most trips are
    column = 0
    for edge in (1.05, 1.12, 1.22, 1.35, 1.55, 1.9, 2.6, 4.0):
        if ratio >= edge:
            column += 1
    return row * RATIOS + column


@compiled
def _features(
    x: Floats,
    y: Floats,
    starts: Ints,
    kinds: Ints,
    sides: Ints,
    offsets: Ints,
    wide: float,
    high: float,
    stamp: Ints,
    pointer: Ints,
    room: NDArray[np.int32],
    value: NDArray[np.float32],
    begin: int,
) -> tuple[int, int]:
    """Features of trips from `begin` on, until `room` might not suffice: trips done, room used."""
    most = 0
    for b in range(kinds.size):
        most = max(most, offsets[b + 1] - offsets[b])
    out = np.empty(most, np.int64)
    used = pointer[begin]
    for trip in range(begin, starts.size - 1):
        kept = used
        for b in range(kinds.size):
            if starts[trip + 1] == starts[trip]:
                continue
            found = _one_block(
                x, y, starts[trip], starts[trip + 1], kinds[b], sides[b], offsets[b], wide, high,
                stamp, trip, out,
            )  # fmt: skip
            if used + found > room.size:
                return trip, kept
            for k in range(found):
                room[used + k] = out[k]
                value[used + k] = 1 / math.sqrt(found)
            used += found
        pointer[trip + 1] = used
    return starts.size - 1, used


@compiled
def _tally(
    x: Floats,
    y: Floats,
    starts: Ints,
    kinds: Ints,
    sides: Ints,
    offsets: Ints,
    wide: float,
    high: float,
    squares: Ints,
    total: Ints,
) -> None:
    most = 0
    for b in range(kinds.size):
        most = max(most, offsets[b + 1] - offsets[b])
    out = np.empty(most, np.int64)
    stamp = np.full(total.size, -1, np.int64)
    for trip in range(starts.size - 1):
        if starts[trip + 1] == starts[trip]:
            continue
        for b in range(kinds.size):
            found = _one_block(
                x, y, starts[trip], starts[trip + 1], kinds[b], sides[b], offsets[b], wide, high,
                stamp, trip, out,
            )  # fmt: skip
            if found == 0:
                continue
            weight = int(math.sqrt(squares[b] / found))
            while weight * weight * found > squares[b]:  # the root may be rounded up
                weight -= 1
            for k in range(found):
                total[out[k]] += weight
