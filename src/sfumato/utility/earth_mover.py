"""The earth mover's distance between maps, in metres (Rubner et al. 2000).

The cost of moving mass is a metric, so mass that both maps share stays where it is and only the
difference of the two maps has to be transported: the surplus zones on one side against the short
zones on the other, about a quarter of the full problem.

**Exact** up to `EXACT` zones. The solver's time grows with about the cube of the zones: a week of
hours takes some ten seconds at a thousand zones and ten minutes at five thousand.

**Above, of a coarser map.** Zones are gathered to `EXACT` groups of neighbours, and the distance of
the maps of groups is exact. The distance of the maps themselves then lies between two bounds, which
are found with it and do not rest on any assumption:

* from below by a potential that no two zones differ in by more than their distance (Kantorovich):
  that of the groups, continued to the zones, raised for surplus and lowered for short ones;
* from above by a plan: within each group first, then from group to group, all in proportion.

On a release of 5,000 zones the coarse distance was within 1.2 % of the exact one, the bounds 4 to
5 % below and 10 to 13 % above it (docs/benchmarks/speed.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from sfumato.errors import UsageError
from sfumato.model.extras import line_for, missing, optional

Vector = NDArray[np.float64]
Table = NDArray[np.float64]
Whole = NDArray[np.int64]

EXACT = 1_500
"""Zones up to which the distance is exact, and groups that more of them are gathered to."""
_BLOCK = 128
"""Rows of distances looked at together: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Metres that one unit of mass moves on average, a number for each slot."""

    metres: Vector
    lower: Vector
    """Certain bounds; the distance itself where it is exact."""
    upper: Vector
    zones: int
    groups: int | None = None
    """Groups that the zones were gathered to; None where the distance is exact."""


_WHAT = "The earth mover's distance"


def distance_wanted(said: bool | None) -> tuple[bool, tuple[str, ...]]:
    """Whether the distance is computed, and the remark where it is left out for want of POT.

    POT's network simplex is optional. SciPy can solve the same problem (HiGHS), but took 46 to 90
    times as long at 100 and 200 zones: who has no POT is better told how to get it.
    """
    if said is None and missing("emd"):
        how = f"Install it with: {line_for('emd')}."
        return False, (f"{_WHAT} is left out: it needs POT, which is not installed. {how}",)
    if said is not False:
        optional("ot", _WHAT, instead="Or give `earth_mover=False`.")
    return said is not False, ()


def earth_mover_distance(truth: Vector, released: Vector, distances: Table) -> float:
    """Metres that one unit of mass moves on average, exact; NaN where either map is empty.

    Both maps are normalised to one; negative released counts count as zero.
    """
    difference = _difference(truth, released, distances)
    return float("nan") if difference is None else _solved(difference, distances).cost


def earth_mover_series(
    truth: Table,
    released: Table,
    distances: Table,
    progress: Callable[[int, int], None] | None = None,
    exact: int = EXACT,
) -> Moved:
    """The distance for every slot of two zone x slot tables.

    Args:
        truth: Zone x slot …
        released: … and again.
        distances: Metres between zones, a metric.
        progress: Told how many slots of how many are done.
        exact: Zones above which the distance is that of a map of so many groups, with bounds.

    Returns:
        The distances, NaN where either map is empty.
    """
    zones, slots = truth.shape
    groups = None if zones <= exact else _Groups.of(distances, exact)

    def moved(slot: int) -> tuple[float, float, float]:
        difference = _difference(truth[:, slot], released[:, slot], distances)
        if difference is None:
            return (float("nan"),) * 3
        if groups is not None:
            return groups.bounded(difference)
        return (_solved(difference, distances).cost,) * 3

    found = np.empty((3, slots))
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        for slot, values in enumerate(pool.map(moved, range(slots))):
            found[:, slot] = values
            if progress is not None:
                progress(slot + 1, slots)
    count = None if groups is None else int(groups.apart.shape[0])
    return Moved(found[0], found[1], found[2], zones, count)


def _difference(truth: Vector, released: Vector, distances: Table) -> Vector | None:
    """Of the two maps, each of mass one; None where one is empty."""
    p = np.asarray(truth, dtype=np.float64)
    q = np.maximum(np.asarray(released, dtype=np.float64), 0.0)
    if p.shape != q.shape or distances.shape != (p.size, p.size):
        raise UsageError("Two maps of the same zones and their distance matrix are needed.")
    if p.sum() <= 0 or q.sum() <= 0:
        return None
    found: Vector = p / p.sum() - q / q.sum()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What is moved from where to where, at what cost, and the potentials of the short zones."""

    cost: float
    source: Whole
    target: Whole
    mass: Vector
    short: Whole
    potential: Vector


def _solved(difference: Vector, distances: Table) -> _Plan:
    """The cheapest plan that makes up a difference between zones."""
    surplus, short = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if surplus.size == 0 or short.size == 0:
        nothing = np.zeros(0, np.int64)
        return _Plan(0.0, nothing, nothing, np.zeros(0), nothing, np.zeros(0))
    give, take = difference[surplus], -difference[short]
    cost = np.ascontiguousarray(distances[np.ix_(surplus, short)])
    # The solver checks that both sides weigh the same to the last bit.
    take = take * (give.sum() / take.sum())
    ot = optional("ot", _WHAT)
    result, log = ot.emd2(give, take, cost, numItermax=10_000_000, log=True, return_matrix=True)
    if log["warning"] is not None:
        raise UsageError("The transport problem did not reach its optimum.")
    at = np.nonzero(log["G"])
    return _Plan(
        float(result), surplus[at[0]], short[at[1]], log["G"][at], short, -np.asarray(log["v"])
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Zones gathered to groups of neighbours."""

    distances: Table
    """Between zones …"""
    group: Whole
    """… each of which is in one of these."""
    members: Whole
    """Groups x most members: their zones, and how many zones there are in all where none is."""
    to_groups: Table
    """Zones x groups: mean distance to the zones of a group …"""
    apart: Table
    """… and from group to group."""

    @classmethod
    def of(cls, distances: Table, most: int) -> _Groups:
        nearness = linkage(squareform(distances, checks=False), "ward")
        group = fcluster(nearness, most, "maxclust").astype(np.int64) - 1
        count = np.bincount(group)
        members = np.full((count.size, int(count.max())), group.size)
        order = np.argsort(group, kind="stable")
        first = np.cumsum(count) - count
        members[group[order], np.arange(group.size) - np.repeat(first, count)] = order
        to_groups = np.add.reduceat(distances[:, order], first, axis=1) / count
        apart = np.add.reduceat(to_groups[order], first, axis=0) / count[:, None]
        return cls(distances, group, members, to_groups, apart)

    def bounded(self, difference: Vector) -> tuple[float, float, float]:
        """The distance between maps of groups, and bounds of that between maps of zones."""
        gathered = np.bincount(self.group, weights=difference).astype(np.float64)
        plan = _solved(gathered, self.apart)
        lower, upper = self._lower(difference, plan), self._upper(difference, plan)
        return min(max(plan.cost, lower), upper), lower, upper

    def _lower(self, difference: Vector, plan: _Plan) -> float:
        """By potentials that differ by no more than the distance between any two zones. A mean of
        distances does not either, nor does the least of several such."""
        surplus, short = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
        known = np.full(difference.size, np.inf)
        known[short] = 0.0
        if plan.short.size:
            known[short] = (self.to_groups[np.ix_(short, plan.short)] + plan.potential).min(axis=1)
        above = self._highest(surplus, known)
        known = np.full(difference.size, np.inf)
        known[surplus] = -above
        below = -self._highest(short, known)
        return float(difference[surplus] @ above + difference[short] @ below)

    def _highest(self, rows: Whole, known: Vector) -> Vector:
        """What the potential may be at some zones, if it is known at others."""
        blocks = range(0, rows.size, _BLOCK)
        parts = [(self.distances[rows[k : k + _BLOCK]] + known).min(axis=1) for k in blocks]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _upper(self, difference: Vector, plan: _Plan) -> float:
        give, take = (np.append(np.maximum(one, 0.0), 0.0) for one in (difference, -difference))
        gives, takes = (np.bincount(self.group, weights=one[:-1]) for one in (give, take))
        share, part = (
            one[self.members] / np.maximum(whole, 1e-300)[:, None]
            for one, whole in ((give, gives), (take, takes))
        )
        own = np.flatnonzero(np.minimum(gives, takes) > 0)
        source, target = np.concatenate((own, plan.source)), np.concatenate((own, plan.target))
        mass = np.concatenate((np.minimum(gives, takes)[own], plan.mass))
        at = np.minimum(self.members, difference.size - 1)  # fillers have no mass
        apart = self.distances[at[source][:, :, None], at[target][:, None, :]]
        return float(np.einsum("f,fi,fij,fj->", mass, share[source], apart, part[target]))
