"""Outside baselines of the frontier: matrix mechanism, quadtree, grouping by hours. Gaussian noise.

**The matrix mechanism for every hour**: zones as the workload, the best linear strategy there is,
and its exact integer form. The matrix mechanism (Li et al. 2010) measures S x instead of x and
answers W x by least squares; its squared error is sigma^2 tr(W X^-1 W'), X = S'S. HDMM (McKenna et
al. 2018) seeks a good S among parametrised ones. Under Gaussian noise with columns of norm at most
one the problem is convex, and its optimum satisfies X D X = W'W with a diagonal D that a fixed
point finds (Denisov et al. 2022): nothing that measures each hour by itself and is linear does
better in total squared error for this workload. It stands for HDMM per hour, and is at least as
good in squared error. Sensitivity of the integer form: columns M_p of norm at most `units` (checked
in integers), so ||M x_t||_2 <= sum_p x_pt ||M_p||_2 <= units m_t for the mass m_t of a user in slot
t, and over slots units * C: one Gaussian measurement of all rows and slots with L2 C.

**A quadtree over space for every hour**, made consistent: the textbook spatial baseline. Cormode et
al. (2012) cut the map into four again and again and count every node; Hay et al.
(2010) make parents agree with their children by least squares, which is the best linear
unbiased use of all levels. The tree is cut by the public positions of the counted places,
never by data, so its shape costs nothing. Sensitivity: a level is a partition of the places, so a
user's mass per slot, whose L2 norm
over slots is at most C, stays what it is; each level is one Gaussian measurement with L2 C and
its own share of the budget, growing geometrically towards the leaves.

**Grouping and smoothing** (Kellaris & Papadopoulos 2013) by hours. A rough guide, one random visit
of each user by place, puts places of like size side by side;
they are cut into groups of w, each group's hours are measured, and a place gets the mean of
its group. `density.grouping` groups cells of different hours and pays for it with the L1 norm
of a whole record; here a group never crosses an hour. Sensitivity: the guide moves by one in one
place. Groups are a partition of the places made
from noisy numbers, so a user's mass per slot goes through and the sums move by at most C in L2.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.scheme import PublicFacts
from sfumato.errors import InputError, UsageError
from sfumato.geography.overlay import Layout
from sfumato.model.counts import WEIGHT_UNITS, Counts, SampleBound
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.calibration import GaussianPart
from sfumato.privacy.mechanisms.linear import apply_map
from sfumato.privacy.wall import Wall
from sfumato_lab.density.grouping import groups_of
from sfumato_lab.studies.frontier.oracle import Table, bounded, finished, purse, touched_everywhere

Matrix = NDArray[np.float64]
UNITS = 1 << 10
_RIDGE = 1e-4
"""Places that no query asks for still need a positive definite problem."""


@dataclass(frozen=True, slots=True, eq=False)
class Strategy:
    """Integer rows to measure (on 1/`UNITS`), and the way back to the places."""

    whole: NDArray[np.int64]
    back: Matrix
    """Places x rows: the least-squares inverse of `whole` / `UNITS`."""


def best_strategy(workload: Matrix, rounds: int = 12) -> Strategy:
    """The optimal strategy for a workload (queries x places), put on the lattice."""
    gram = workload.T @ workload
    size = gram.shape[0]
    gram = gram + _RIDGE * float(np.trace(gram)) / size * np.eye(size)
    weight = np.maximum(np.diag(gram), 1e-12) ** 0.5
    for _ in range(rounds):
        weight = np.maximum(np.diag(_root(gram, weight)), 1e-12)
    scale = 1.0 / np.sqrt(weight)
    inner = _root(gram, weight) * np.outer(scale, scale)
    inner = inner / np.outer(*(2 * [np.sqrt(np.diag(inner))]))
    rows = scipy.linalg.cholesky(inner + 1e-9 * np.eye(size))
    # Towards zero: a column can only become shorter.
    rows = rows / np.linalg.norm(rows, axis=0)
    whole = np.trunc(rows * UNITS).astype(np.int64)
    return Strategy(whole, np.linalg.inv(whole / UNITS))


def _root(gram: Matrix, weight: Matrix) -> Matrix:
    """The square root of D^1/2 G D^1/2."""
    half = np.sqrt(weight)
    values, vectors = scipy.linalg.eigh(gram * np.outer(half, half), driver="evd")
    root: Matrix = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def apply_strategy(box: Private[Counts], whole: NDArray[np.int64]) -> Private[Counts]:
    """Rows of the strategy x slot, exact; for place x slot counts bounded in mass per slot."""
    if int(np.square(whole).sum(axis=0).max()) > UNITS * UNITS:
        raise InputError("A column of the strategy is longer than one.")
    most = int(np.abs(whole).sum(axis=1).max())

    def mapped(counts: Counts) -> Counts:
        if counts.norms:
            raise UsageError("Counts weighted for event norms have no bound on mass per slot.")
        if int(np.abs(counts.values).max(initial=0)) > (1 << 62) // max(most, 1):
            raise InputError("The counts are too large for this lattice.")
        return replace(
            counts,
            values=whole @ counts.values,
            units_per_count=counts.units_per_count * UNITS,
            l1=counts.l2 * UNITS * math.sqrt(whole.shape[0] * counts.values.shape[1]),
            l2=counts.l2 * UNITS,
            what="rows of a strategy",
        )

    return box.map(mapped, "rows of a strategy")


MATRIX_LIMIT = 1.0
"""C. On tuning cities nothing from 0.75 to 2 was better by more than the noise of the draws."""
ROWS = "strategy"


@dataclass(frozen=True, slots=True)
class MatrixMechanism:
    """The baseline, or another linear strategy; that of a map is computed once and kept."""

    limit: float = MATRIX_LIMIT
    name: str = "matrix mechanism"
    strategy: Callable[[PublicFacts], Strategy] | None = None
    """From public facts; none: the best for the workload of zones."""
    _known: dict[str, Strategy] = field(default_factory=dict, repr=False)

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Table:
        strategy = self._strategy(facts)
        rows = strategy.whole.shape[0]
        part = GaussianPart(self.limit * WEIGHT_UNITS * UNITS, touched_everywhere(facts, rows))
        spent = purse(wall, facts, {ROWS: part})
        box = apply_strategy(bounded(source, facts, self.limit), strategy.whole)
        noisy = spent.measure(ROWS, box).estimate()
        return finished(spent, source, facts, strategy.back @ noisy)

    def _strategy(self, facts: PublicFacts) -> Strategy:
        if facts.overlay is None:
            workload = np.eye(facts.places)
        else:
            workload = np.asarray(facts.overlay.shares.T.toarray(), dtype=np.float64)
        key = hashlib.sha256(workload.tobytes()).hexdigest()
        if key not in self._known:
            self._known[key] = (
                best_strategy(workload) if self.strategy is None else self.strategy(facts)
            )
        return self._known[key]


QUADTREE_LIMIT = 1.0
"""C. On tuning cities nothing from 0.75 to 2 was better by more than the noise of the draws."""
GROWTH = 2.0
"""Share of a level relative to the one above it."""
DEEPEST = 8
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quadtree:
    """The baseline; `limit` and `growth` are public."""

    limit: float = QUADTREE_LIMIT
    growth: float = GROWTH

    @property
    def name(self) -> str:
        return "quadtree"

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Table:
        levels = tree(facts.layout or Layout.in_order(facts.places))
        weight = self.growth ** np.arange(len(levels))
        shares = weight / weight.sum() * (1 - 1e-9)
        parts = {
            f"level {k}": GaussianPart(
                self.limit * WEIGHT_UNITS,
                touched_everywhere(facts, int(label.max()) + 1),
                round(float(share), 12),
            )
            for k, (label, share) in enumerate(zip(levels, shares, strict=True))
        }
        spent = purse(wall, facts, parts)
        counts = bounded(source, facts, self.limit)
        noisy, variance = [], []
        for name, label in zip(parts, levels, strict=True):
            box = apply_map(counts, gather(label), 1, "a level of the tree", mass_per_slot=True)
            measured = spent.measure(name, box)
            noisy.append(measured.estimate())
            variance.append(measured.sd**2)
        leaves = consistent(levels, noisy, variance)[-1]
        last = levels[-1]
        table = leaves[last] / np.bincount(last)[last][:, None]
        return finished(spent, source, facts, table)


def tree(layout: Layout) -> list[Labels]:
    """For every level the node of each place, until all stand alone or `DEEPEST` is reached."""
    at = layout.centres
    near = np.abs(at).max(axis=1) < 1e8
    low = at[near].min(axis=0) if near.any() else np.zeros(2)
    side = float(np.ptp(at[near], axis=0).max()) if near.any() else 0.0
    unit = np.clip((at - low) / max(side, 1e-9), 0.0, 1.0 - 1e-12)
    levels = [np.zeros(at.shape[0], dtype=np.int64)]
    for depth in range(1, DEEPEST + 1):
        if int(levels[-1].max()) + 1 == at.shape[0]:
            break
        cell = np.floor(unit * 2**depth).astype(np.int64)
        _, label = np.unique(cell[:, 0] * 2**depth + cell[:, 1], return_inverse=True)
        levels.append(np.asarray(label, dtype=np.int64))
    return levels


def gather(label: Labels) -> csr_array:
    """Nodes x places, one where the place lies in the node."""
    ones = np.ones(label.size, dtype=np.int64)
    shape = (int(label.max()) + 1, label.size)
    return csr_array((ones, (label, np.arange(label.size))), shape=shape)


def consistent(levels: list[Labels], noisy: list[Table], variance: list[float]) -> list[Table]:
    """Least squares over the tree: one pass up, one down; parents are their children's sums.

    Noise is independent, of one variance within a level.
    """
    parents = [_parents(above, below) for above, below in itertools.pairwise(levels)]
    best, spread = [noisy[-1]], [np.full(noisy[-1].shape[0], variance[-1])]
    sums: list[Table] = []
    for k in range(len(levels) - 2, -1, -1):
        added = np.zeros(noisy[k].shape)
        np.add.at(added, parents[k], best[0])
        across = np.bincount(parents[k], weights=spread[0])
        own = 1.0 / variance[k]
        precision = own + 1.0 / across
        mixed = (noisy[k] * own + added / across[:, None]) / precision[:, None]
        best.insert(0, mixed)
        spread.insert(0, 1.0 / precision)
        sums.insert(0, added)
    found = [best[0]]
    for k, parent in enumerate(parents):
        across = np.bincount(parent, weights=spread[k + 1])
        part = spread[k + 1] / across[parent]
        found.append(best[k + 1] + (found[k] - sums[k])[parent] * part[:, None])
    return found


def _parents(above: Labels, below: Labels) -> Labels:
    """The node above of each node below."""
    result = np.zeros(int(below.max()) + 1, dtype=np.int64)
    result[below] = above
    return result


SMOOTHING_LIMIT = 1.5
GUIDE, SUMS = "guide", "groups"
GUIDE_SHARE = 0.1
HOURLY_VISITS = 13.55 / 168
"""Visits of an average user in an hour (Acs & Castelluccia 2014)."""


@dataclass(frozen=True, slots=True)
class HourlyGrouping:
    """The baseline; `ease` is the tolerated noise of a mean relative to an expected count."""

    limit: float = SMOOTHING_LIMIT
    ease: float = 0.025

    @property
    def name(self) -> str:
        return "grouping by hours"

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Table:
        cells = touched_everywhere(facts, facts.places)
        parts = {
            GUIDE: GaussianPart(float(WEIGHT_UNITS), 1, GUIDE_SHARE),
            SUMS: GaussianPart(self.limit * WEIGHT_UNITS, cells, 1 - GUIDE_SHARE),
        }
        spent = purse(wall, facts, parts)
        guide = spent.measure(GUIDE, guide_box(source, wall))
        label = groups_of(guide.values, self._size(facts, spent.sd(SUMS) / WEIGHT_UNITS))
        box = apply_map(
            bounded(source, facts, self.limit), gather(label), 1, SUMS, mass_per_slot=True
        )
        sums = spent.measure(SUMS, box).estimate()
        table = sums[label] / np.bincount(label)[label][:, None]
        return finished(spent, source, facts, table)

    def _size(self, facts: PublicFacts, sd: float) -> int:
        """w: as many places as bring the noise of a mean down to the tolerated share."""
        expected = (facts.expected_users or 1) * HOURLY_VISITS / max(facts.places, 1)
        return int(min(max(math.ceil(sd / (self.ease * expected)), 1), max(facts.places // 3, 1)))


def guide_box(source: Source, wall: Wall) -> Private[Counts]:
    """One random visit of each user, by place: what structures are chosen by, once it is noisy."""
    return source.sampled(SampleBound(1), wall.sampling_key(GUIDE)).map(_by_place, GUIDE)


def _by_place(counts: Counts) -> Counts:
    """One visit of each user, by place, on the lattice of weights: L1 and L2 of one visit."""
    return replace(
        counts,
        values=counts.values.sum(axis=1) * WEIGHT_UNITS,
        units_per_count=WEIGHT_UNITS,
        l1=float(WEIGHT_UNITS),
        l2=float(WEIGHT_UNITS),
        what="place totals of one visit a user",
    )
