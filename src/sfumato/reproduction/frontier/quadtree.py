"""A quadtree over space for every hour, made consistent: the textbook spatial baseline.

Cormode et al. (2012) cut the map into four again and again and count every node; Hay et al.
(2010) make parents agree with their children by least squares, which is the best linear
unbiased use of all levels. The tree is cut by the public positions of the counted places,
never by data, so its shape costs nothing.

Sensitivity: a level is a partition of the places, so a user's mass per slot, whose L2 norm
over slots is at most C, stays what it is; each level is one Gaussian measurement with L2 C and
its own share of the budget, growing geometrically towards the leaves.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.layout import Layout
from sfumato.density.scheme import PublicFacts
from sfumato.model.bound import WEIGHT_UNITS
from sfumato.model.source import Source
from sfumato.privacy.calibration import GaussianPart
from sfumato.privacy.mechanisms.linear import apply_map
from sfumato.privacy.wall import Wall
from sfumato.reproduction.frontier.level import (
    Table,
    bounded,
    finished,
    purse,
    touched_everywhere,
)

LIMIT = 1.0
"""C. On tuning cities nothing from 0.75 to 2 was better by more than the noise of the draws."""
GROWTH = 2.0
"""Share of a level relative to the one above it."""
DEEPEST = 8
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quadtree:
    """The baseline; `limit` and `growth` are public."""

    limit: float = LIMIT
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
