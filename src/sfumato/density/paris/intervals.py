"""How far off a released count may be: the variance behind the 90 % intervals of `paris`.

Five parts, added as if independent. All come from noisy numbers and public facts.

* *Totals* of places: the noise of the histogram.
* *Level*: the noise of the grand total and of the histogram's sum, shared by all.
* *Series*: what the noise on a cluster's hours leaves in its shape.
* *Counting*: a place's hour scatters around its own mean by about the root of it (visits of
  different people are nearly independent), and its cluster's hours know that scatter only as
  far as the place makes up the cluster: variance count * (1 - share of the cluster).
* *Places differ* from the shape that their cluster shares. No measurement shows that directly.
  Neighbouring clusters do: half of the mean squared difference of their shapes, noise and
  counting taken off, is k_t^2 relative to the shape itself, averaged over hours of the day
  that are close and pulled towards `USUAL`. A place among n deviates by
  `GROWTH` * (n - 1) * k_t^2: more, the more places share a shape.

`USUAL` and `GROWTH` were settled on made-up cities (docs/decisions/paris-tuning.md). A city whose
neighbouring towers have less in common than these will be off by more than the intervals say.
Nothing here knows about visits that the contribution bound left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.density.paris.space import WorkingSpace
from sfumato.density.paris.totals import Totals
from sfumato.density.refine.shapes import Shapes
from sfumato.density.scheme import PublicFacts
from sfumato.density.zoning import Table

Vector = NDArray[np.float64]
USUAL = 0.012
"""k^2 where nothing is known: shapes of neighbouring clusters differ by some 11 %."""
USUAL_PAIRS = 10.0
"""Pairs of clusters that `USUAL` weighs as much as."""
GROWTH = 0.2
_CLOSE_HOURS = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """Clusters over time: the cleaned shapes, and the noisy hours that they came from."""

    shapes: Shapes
    noisy: Table
    variance: float
    """Of the noise on one hour."""


def interval_variance(
    facts: PublicFacts,
    space: WorkingSpace,
    totals: Totals,
    course: Course,
    label: NDArray[np.int64],
    values: Table,
) -> Table:
    """Variance of every released count; the cells of a zone mostly share a cluster, so errors
    of series add up as if fully dependent, those of totals and single places do not."""
    cells = space.totals(totals.values)
    sums = np.maximum(np.bincount(label, weights=cells), 1e-9)
    places = np.square(sums) / np.maximum(np.bincount(label, weights=np.square(cells)), 1e-18)
    differ = neighbour_spread(course, cluster_centres(space, label), facts.grid.starts())
    shape = course.shapes.values[label]
    expected = cells[:, None] * shape
    apart = (
        space.variances(totals.variance)[:, None] * np.square(shape)
        + expected * (1 - cells / sums[label])[:, None]
        + np.square(expected) * GROWTH * np.maximum(places - 1, 0.0)[label][:, None] * differ
    )
    _, together = space.released(facts, cells[:, None] * np.sqrt(course.shapes.variance[label]))
    return (
        space.released_variance(facts, apart)
        + np.square(together)
        + np.square(values) * totals.level_variance
    )


def cluster_centres(space: WorkingSpace, label: NDArray[np.int64]) -> Table:
    """Centres of clusters, their cells weighed by area."""
    layout = space.layout
    area = np.bincount(label, weights=layout.areas)
    sums = [np.bincount(label, weights=layout.areas * axis) for axis in layout.centres.T]
    return np.column_stack(sums) / area[:, None]


def neighbour_spread(course: Course, centres: Table, starts: list[datetime]) -> Vector:
    """k_t^2 for every slot, from each cluster and the one closest to it."""
    common = np.maximum(course.shapes.values.mean(axis=0), 1e-9)
    signal, scale, weight = np.zeros(common.size), np.zeros(common.size), 1.0
    if centres.shape[0] > 1:
        other = _closest(centres)
        mass = course.noisy.sum(axis=1)
        # A cluster whose noisy mass is next to nothing must not divide by it.
        mass = np.maximum(mass, max(0.2 * float(np.median(mass)), 1.0))
        shape = course.noisy / mass[:, None]
        noise = course.variance * (1 / np.square(mass) + 1 / np.square(mass[other]))
        counting = (1 / mass + 1 / mass[other])[:, None] * common
        weights = np.square(noise.min() / noise)
        excess = np.square(shape - shape[other]) - noise[:, None] - counting
        signal = (weights[:, None] * excess).sum(axis=0) / 2
        scale = weights.sum() * np.square(common)
        weight = float(weights.mean())
    usual = USUAL_PAIRS * weight * np.square(common)
    above, below = (_over_close_hours(v, starts) for v in (signal + USUAL * usual, scale + usual))
    found: Vector = np.maximum(above / below, 0.0)
    return found


def _closest(centres: Table) -> NDArray[np.int64]:
    """For each point the closest other one."""
    found = np.asarray(cKDTree(centres).query(centres, k=2)[1])
    own = np.arange(centres.shape[0])
    return np.where(found[:, 0] == own, found[:, 1], found[:, 0]).astype(np.int64)


def _over_close_hours(values: Vector, starts: list[datetime]) -> Vector:
    """Sums over all slots, each weighed by how close it is in the hour of the day."""
    clock = np.array([s.hour + s.minute / 60 + s.second / 3600 for s in starts])
    hours, at = np.unique(clock, return_inverse=True)
    apart = np.abs(hours[:, None] - hours[None])
    kernel = np.exp(-np.square(np.minimum(apart, 24 - apart) / _CLOSE_HOURS) / 2)
    found: Vector = (kernel @ np.bincount(at, weights=values))[at]
    return found
