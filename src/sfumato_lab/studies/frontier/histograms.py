"""One-shot histograms of the literature on the same task: grids, trees, wavelets, partitions.

The chapter and the Paris paper lean on them; none was made for a density that one person is part of
for a whole week. All are brought to one form here, so that structures are compared and not
noises: mass per slot bounded as in `frontier.baselines` (L2 over slots at most C), Gaussian noise,
the same (epsilon, delta) for a whole record.

* *Structure.* Printed forms choose it hour by hour, with the exponential mechanism or Laplace
  noise on each histogram. Composed over 168 hours nothing would be left for the counts, so where a
  structure hangs on data it is chosen once, from a noisy *guide*: one random visit of each user by
  place (L2 of one visit), a tenth of the budget. Everything after the guide is post-processing.
* *Sums.* The structure is a list of nested partitions of the places. Each level is one Gaussian
  measurement of its sums in every hour: a partition lets a user's mass per slot through, so its
  L2 sensitivity is C whatever the guide said. Levels are made consistent by least squares, and a
  leaf's count is spread evenly over its places.

| name | structure |
|---|---|
| uniform grid (Qardaji, Yang & Li 2013) | m x m squares, m = sqrt(N e / 10) |
| adaptive grid (the same) | m1 x m1, each square cut again by its noisy count |
| kd-tree (Cormode et al. 2012) | halves of equal noisy mass, again and again, all levels measured |
| hierarchy (Hay et al. 2010) | runs of a Hilbert curve, four in one |
| wavelet (Xiao, Wang & Gehrke 2010) | Haar differences along the curve |
| DPCube (Xiao et al. 2012) | kd cuts until a part is even up to noise; leaves measured |
| AHP (Zhang et al. 2014) | small guides to zero, sorted, clustered greedily |
| NoiseFirst (Xu et al. 2012) | every place measured, runs of alike neighbours averaged |
| StructureFirst (the same) | best runs by the guide, then measured |
| P-HPartition (Acs, Castelluccia & Chen 2012) | runs bisected while that pays |
| DAWA (Li et al. 2014) | runs of dyadic length by absolute deviation, measured with a hierarchy |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.density.scheme import PublicFacts
from sfumato.geography.overlay import Layout
from sfumato.model.compiled import compiled
from sfumato.model.counts import WEIGHT_UNITS
from sfumato.model.source import Source
from sfumato.privacy.calibration import GaussianPart
from sfumato.privacy.mechanisms.linear import apply_map
from sfumato.privacy.wall import Wall
from sfumato_lab.studies.frontier.baselines import (
    GUIDE,
    GUIDE_SHARE,
    HOURLY_VISITS,
    UNITS,
    Labels,
    Strategy,
    consistent,
    gather,
    guide_box,
)
from sfumato_lab.studies.frontier.oracle import Table, bounded, finished, purse, touched_everywhere

Floats = NDArray[np.float64]
LIMIT = 1.0
"""C, as for the other outside baselines."""
_GRID_CONSTANT = 10.0
"""Qardaji, Yang & Li's c: fixed by them for many maps."""


@dataclass(frozen=True, slots=True, eq=False)
class Guided:
    """What a structure may be chosen by: public facts, and the noisy guide where one was paid."""

    unit: Floats
    """Places in the unit square."""
    order: Labels
    """Places along a Hilbert curve."""
    guess: Floats
    """Expected visits of an average hour by place: the guide scaled to the expected level."""
    guess_sd: float
    sd: float
    """Noise of one sum in one hour, were all of the budget spent on one level."""
    hourly: float
    """Expected visits of an hour in the whole city, from public facts."""


Structure = Callable[[Guided], list[Labels]]


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A method of the table: nested partitions, measured level by level."""

    name: str
    structure: Structure
    levels: int | Callable[[int], int] = 1
    """How many levels the structure has, or a function of the number of places that says it."""
    guided: bool = True
    growth: float = 1.0
    """Share of a level relative to the one above it."""

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Table:
        depth = self.levels if isinstance(self.levels, int) else self.levels(facts.places)
        weight = self.growth ** np.arange(depth)
        rest = (1 - GUIDE_SHARE if self.guided else 1.0) * (1 - 1e-9)
        cells = touched_everywhere(facts, facts.places)
        parts = {
            f"level {k}": GaussianPart(
                LIMIT * WEIGHT_UNITS, cells, round(float(rest * w / weight.sum()), 12)
            )
            for k, w in enumerate(weight)
        }
        names = list(parts)
        if self.guided:
            parts[GUIDE] = GaussianPart(float(WEIGHT_UNITS), 1, GUIDE_SHARE)
        spent = purse(wall, facts, parts)
        known = _public(facts, spent.sd(names[-1]) / WEIGHT_UNITS)
        if self.guided:
            measured = spent.measure(GUIDE, guide_box(source, wall))
            known = _with_guide(known, measured.estimate(), measured.sd)
        levels = self.structure(known)
        assert len(levels) == depth
        counts = bounded(source, facts, LIMIT)
        noisy, variance = [], []
        for name, label in zip(names, levels, strict=True):
            box = apply_map(counts, gather(label), 1, "a level of parts", mass_per_slot=True)
            found = spent.measure(name, box)
            noisy.append(found.estimate())
            variance.append(found.sd**2)
        leaves = consistent(levels, noisy, variance)[-1]
        if self.name == NOISE_FIRST:
            leaves = _averaged_runs(leaves, known.order, variance[-1])
        last = levels[-1]
        return finished(spent, source, facts, leaves[last] / np.bincount(last)[last][:, None])


def _public(facts: PublicFacts, sd: float) -> Guided:
    layout = facts.layout or Layout.in_order(facts.places)
    at = np.where(np.abs(layout.centres) < 1e8, layout.centres, 0.0)
    low, side = at.min(axis=0), max(float(np.ptp(at, axis=0).max()), 1e-9)
    unit = np.clip((at - low) / side, 0.0, 1.0 - 1e-12)
    hourly = (facts.expected_users or 1) * HOURLY_VISITS
    even = np.full(facts.places, hourly / max(facts.places, 1))
    return Guided(unit, np.argsort(_hilbert(unit), kind="stable"), even, 0.0, sd, hourly)


def _with_guide(known: Guided, guide: Floats, sd: float) -> Guided:
    scale = known.hourly / max(float(guide.sum()), 3 * sd * math.sqrt(guide.size))
    return Guided(known.unit, known.order, guide * scale, sd * scale, known.sd, known.hourly)


def _hilbert(unit: Floats, bits: int = 12) -> Labels:
    """Position along a Hilbert curve of 2^bits squares a side (Warren's rotation by quadrants)."""
    x, y = (np.floor(unit[:, k] * 2**bits).astype(np.int64) for k in (0, 1))
    found = np.zeros(x.size, np.int64)
    for bit in range(bits - 1, -1, -1):
        right, up = (x >> bit) & 1, (y >> bit) & 1
        found += (1 << (2 * bit)) * ((3 * right) ^ up)
        # Turn the quadrant so that the curve inside it runs on.
        flip = (up == 0) & (right == 1)
        mask = (1 << bit) - 1
        x, y = (
            np.where(flip, mask - (x & mask), x & mask),
            np.where(flip, mask - (y & mask), y & mask),
        )
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return found


def _dense(label: Labels) -> Labels:
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _squares(unit: Floats, side: int) -> Labels:
    cell = np.floor(unit * side).astype(np.int64)
    return _dense(cell[:, 0] * side + cell[:, 1])


def _grid_side(visits: float, sd: float) -> int:
    """sqrt(N e / c) with the e of Laplace noise of this standard deviation."""
    return max(round(math.sqrt(max(visits, 0.0) * math.sqrt(2.0) / sd / _GRID_CONSTANT)), 1)


def uniform_grid(known: Guided) -> list[Labels]:
    """m x m squares."""
    return [_squares(known.unit, _grid_side(known.hourly, known.sd))]


def adaptive_grid(known: Guided) -> list[Labels]:
    """A coarse grid, its squares cut by what the guide says is in them (c / 2, as printed)."""
    coarse = max(_grid_side(known.hourly, known.sd) // 4, 1)
    above = _squares(known.unit, coarse)
    mass = np.bincount(above, weights=known.guess)
    below = np.zeros(above.size, np.int64)
    for node in range(mass.size):
        here = above == node
        fine = coarse * _grid_side(2 * mass[node], known.sd)
        below[here] = _squares(known.unit[here], fine)
    return [above, _dense(above * (below.max() + 1) + below)]


def _halves(known: Guided, depth: int, stop: Callable[[NDArray[np.int64]], bool]) -> list[Labels]:
    """kd cuts along the longer side at the median of the guide's mass; `stop` keeps a node."""
    levels = [np.zeros(known.guess.size, np.int64)]
    nodes = [np.arange(known.guess.size)]
    for _ in range(depth):
        below: list[NDArray[np.int64]] = []
        for node in nodes:
            if node.size < 2 or stop(node):
                below.append(node)
                continue
            axis = int(np.argmax(np.ptp(known.unit[node], axis=0)))
            ranked = node[np.argsort(known.unit[node, axis], kind="stable")]
            mass = np.cumsum(np.maximum(known.guess[ranked], 0.0) + 1e-9)
            cut = int(np.clip(np.searchsorted(mass, mass[-1] / 2), 1, node.size - 1))
            below += [ranked[:cut], ranked[cut:]]
        label = np.zeros(known.guess.size, np.int64)
        for number, node in enumerate(below):
            label[node] = number
        levels.append(label)
        nodes = below
    return levels


def binary_depth(places: int) -> int:
    return math.ceil(math.log2(max(places, 2))) + 1


def kd_tree(known: Guided) -> list[Labels]:
    """All levels of the tree, down to single places or nearly so."""
    return _halves(known, binary_depth(known.guess.size) - 1, lambda _: False)


def dpcube(known: Guided) -> list[Labels]:
    """Leaves alone: a node whose guides differ by no more than their noise is kept whole."""

    def even(node: NDArray[np.int64]) -> bool:
        beyond = float(known.guess[node].var()) - known.guess_sd**2
        return beyond * node.size < known.sd**2 / node.size

    return _halves(known, 2 * binary_depth(known.guess.size), even)[-1:]


def quarter_depth(places: int) -> int:
    return math.ceil(math.log(max(places, 2), 4)) + 1


def hierarchy(known: Guided) -> list[Labels]:
    """Runs of the curve, four of a level in one of the level above."""
    rank = np.empty(known.order.size, np.int64)
    rank[known.order] = np.arange(known.order.size)
    depth = quarter_depth(rank.size)
    return [_dense(rank // 4 ** (depth - 1 - level)) for level in range(depth)]


def ahp(known: Guided) -> list[Labels]:
    """Small guides are zero; sorted ones join a cluster while that costs less than its noise."""
    tiny = known.guess_sd * math.sqrt(2 * math.log(max(known.guess.size, 2)))
    guess = np.where(known.guess < tiny, 0.0, known.guess)
    ranked = np.argsort(-guess, kind="stable")
    label = np.zeros(guess.size, np.int64)
    first = 0
    for at in range(1, guess.size + 1):
        joined = ranked[first : at + 1]
        spread = float(guess[joined].var()) * joined.size
        if at == guess.size or spread > known.sd**2 / max(at - first, 1):
            label[ranked[first:at]] = int(label.max()) + 1
            first = at
    return [_dense(label)]


@compiled
def best_runs(
    values: Floats, own: float, whole: float, part: float, dyadic: bool, absolute: bool
) -> Labels:
    """Cut a sequence into runs of least cost; returns the first index of each value's run.

    Cost of a run of b values: its squared deviation from its mean less what noise of variance
    `own` explains (or its absolute deviation), plus `whole` + `part` / b. O(n^2), or n log n runs
    where only dyadic lengths are tried.
    """
    n = values.size
    cost = np.empty(n + 1)
    start = np.zeros(n + 1, np.int64)
    cost[0] = 0.0
    sums = np.zeros(n + 1)
    squares = np.zeros(n + 1)
    for i in range(n):
        sums[i + 1] = sums[i] + values[i]
        squares[i + 1] = squares[i] + values[i] * values[i]
    for end in range(1, n + 1):
        cost[end] = np.inf
        size = 1
        while size <= end:
            i = end - size
            mean = (sums[end] - sums[i]) / size
            if absolute:
                apart = 0.0
                for j in range(i, end):
                    apart += abs(values[j] - mean)
                apart -= (size - 1) * math.sqrt(own)
            else:
                apart = squares[end] - squares[i] - size * mean * mean - (size - 1) * own
            total = cost[i] + max(apart, 0.0) + whole + part / size
            if total < cost[end]:
                cost[end] = total
                start[end] = i
            size = 2 * size if dyadic else size + 1
    label = np.zeros(n, np.int64)
    end = n
    while end > 0:
        label[start[end] : end] = start[end]
        end = start[end]
    return label


def _along(known: Guided, runs: Labels) -> Labels:
    label = np.empty(runs.size, np.int64)
    label[known.order] = runs
    return _dense(label)


def structure_first(known: Guided) -> list[Labels]:
    """Runs of least expected squared error; a run's sum is measured once: s^2 / b for its mean."""
    values = known.guess[known.order]
    runs = best_runs(values, known.guess_sd**2, 0.0, known.sd**2, False, False)
    return [_along(known, runs)]


def p_hpartition(known: Guided) -> list[Labels]:
    """Bisection at the best cut while the squared error falls by more than the noise of a part."""
    values = known.guess[known.order]
    runs = np.zeros(values.size, np.int64)
    todo = [(0, values.size)]
    while todo:
        low, high = todo.pop()
        runs[low:high] = low
        size = high - low
        if size < 2:
            continue
        here = np.cumsum(values[low:high])
        left = np.arange(1, size)
        between = here[:-1] ** 2 / left + (here[-1] - here[:-1]) ** 2 / (size - left)
        gain = between - here[-1] ** 2 / size - known.guess_sd**2
        gain -= known.sd**2 * (1 / left + 1 / (size - left) - 1 / size)
        best = int(gain.argmax())
        if gain[best] > 0:
            todo += [(low, low + best + 1), (low + best + 1, high)]
    return [_along(known, runs)]


def dawa(known: Guided) -> list[Labels]:
    """Runs of dyadic length by absolute deviation; above them eight runs in one, and all."""
    values = known.guess[known.order]
    runs = best_runs(values, known.guess_sd**2, known.sd, 0.0, True, True)
    number = _dense(runs)
    return [_along(known, number // 64), _along(known, number // 8), _along(known, number)]


NOISE_FIRST = "NoiseFirst"


def noise_first(known: Guided) -> list[Labels]:
    """Every place by itself; runs are found afterwards, hour by hour."""
    return [np.arange(known.guess.size, dtype=np.int64)]


def _averaged_runs(table: Table, order: Labels, variance: float) -> Table:
    """Means over runs of alike noisy neighbours: b means have the variance of one place."""
    found = table.copy()
    for hour in range(table.shape[1]):
        values = np.ascontiguousarray(table[order, hour])
        runs = _dense(best_runs(values, variance, variance, 0.0, False, False))
        means = np.bincount(runs, weights=values) / np.bincount(runs)
        found[order, hour] = means[runs]
    return found


def haar(facts: PublicFacts) -> Strategy:
    """Differences of halves along the curve, and the sum: square, columns of norm at most one."""
    order = _public(facts, 1.0).order
    rows = [np.ones(order.size)]
    todo = [(0, order.size)]
    while todo:
        low, high = todo.pop()
        if high - low < 2:
            continue
        middle = (low + high) // 2
        row = np.zeros(order.size)
        row[low:middle], row[middle:high] = 1.0, -1.0
        rows.append(row)
        todo += [(low, middle), (middle, high)]
    along = np.array(rows)
    matrix = np.zeros_like(along)
    matrix[:, order] = along / math.sqrt(float((along != 0).sum(axis=0).max()))
    whole = np.trunc(matrix * UNITS).astype(np.int64)
    return Strategy(whole, np.asarray(np.linalg.inv(whole / UNITS), np.float64))


HISTOGRAMS = (
    Partitioned("uniform grid", uniform_grid, guided=False),
    Partitioned("adaptive grid", adaptive_grid, 2),
    Partitioned("kd-tree", kd_tree, binary_depth, growth=2 ** (2 / 3)),
    Partitioned("hierarchy", hierarchy, quarter_depth, guided=False),
    Partitioned("DPCube", dpcube),
    Partitioned("AHP", ahp),
    Partitioned(NOISE_FIRST, noise_first, guided=False),
    Partitioned("StructureFirst", structure_first),
    Partitioned("P-HPartition", p_hpartition),
    Partitioned("DAWA", dawa, 3, growth=2.0),
)
