"""Totals of places in the Paris release: where it works, how many visits, and how sure they are.

**Where it works**: towers, zones, or the smallest cover of both. Noise at towers needs no geometry
in its privacy argument and comes out smaller per zone than noise at zones or on the cover; the
other two are here for comparison. Each gives a public integer map from the counted places to its
cells and the way back to what is released. Sensitivity: the integer columns sum to at most `units`
(shares of a cell sum to at most one; for the cover see `geography.cover`), so one visit adds at
most one in all and the bound on mass per slot goes through the map.

**How many visits** each place has in the period, from a noisy histogram and a noisy total. The
histogram gives the shares, the grand total the level: S_i = K * H_i / sum of H. Both are
noised as counts and divided by their own noisy sum; the paper divides by the true number of
users, which no finite epsilon allows, and scales to the largest contribution in its sample,
where here a cap that is fixed beforehand is enforced.

`one-visit` (Acs & Castelluccia 2014, section 5.4.1) counts one random visit of each user,
L1 = L2 = 1. It estimates where *users* are, not where visits are: heavy users' places come
out too small. `clipped` scales each user's totals to an L2 norm instead.

**How sure** a released count is: the variance behind the 90 % intervals of `paris`. Five parts,
added as if independent. All come from noisy numbers and public facts.

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

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.spatial import cKDTree

from sfumato.density.common import Table, released, released_variance
from sfumato.density.paris.budget import HISTOGRAM, MAP_UNITS, ONE_VISIT_UNITS, TOTAL, take
from sfumato.density.paris.settings import Histogram, Settings, Space
from sfumato.density.refine.fourier import Shapes
from sfumato.density.refine.margins import project_to_simplex
from sfumato.density.scheme import Plan, PublicFacts
from sfumato.errors import UsageError
from sfumato.geography.overlay import Layout
from sfumato.model.counts import Counts, SampleBound, WeightBound
from sfumato.model.source import Source
from sfumato.privacy.events import Measurement
from sfumato.privacy.mechanisms.linear import quantise_map
from sfumato.privacy.wall import Wall


@dataclass(frozen=True, slots=True, eq=False)
class WorkingSpace:
    """Cells to work on: the map to them in whole `units`, where they are, the way back."""

    forward: csr_array
    units: int
    layout: Layout
    back: csr_array | None
    """Zone x cell; None where the cells are the counted places themselves."""

    @property
    def cells(self) -> int:
        return int(self.forward.shape[0])

    def totals(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Noisy totals of the cells from those of the places."""
        return np.asarray(self.forward @ places, dtype=np.float64) / self.units

    def variances(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of these totals, the places' noise being independent."""
        squares = self.forward.astype(np.float64).power(2)
        return np.asarray(squares @ places, dtype=np.float64) / float(self.units) ** 2

    def released(self, facts: PublicFacts, table: Table) -> tuple[NDArray[np.str_], Table]:
        """Ids and rows of the released table."""
        if self.back is None:
            return released(facts, table)
        assert facts.overlay is not None
        return facts.overlay.zone_ids, np.asarray(self.back @ table, dtype=np.float64)

    def released_variance(self, facts: PublicFacts, variance: Table) -> Table:
        """Variance of the released rows, the cells' errors being independent."""
        if self.back is None:
            return released_variance(facts, variance)
        return np.asarray(self.back.power(2) @ variance, dtype=np.float64)


def working_space(facts: PublicFacts, space: Space) -> WorkingSpace:
    """The cells of the chosen space."""
    towers = facts.layout or Layout.in_order(facts.places)
    if space is Space.TOWERS:
        same = csr_array(eye_array(facts.places, dtype=np.int64, format="csr"))
        return WorkingSpace(same, 1, towers, None)
    if facts.overlay is None:
        raise UsageError(f"The space {space} needs both towers and zones.")
    zones = facts.zone_layout or Layout.in_order(facts.overlay.zone_ids.size)
    if space is Space.ZONES:
        shares = csr_array(facts.overlay.shares.T)
        back = csr_array(eye_array(shares.shape[0], format="csr"))
        return WorkingSpace(quantise_map(shares, MAP_UNITS), MAP_UNITS, zones, back)
    from sfumato.geography.cover import minimum_cover

    cover = minimum_cover(facts.overlay)
    layout = zones.take(cover.zones).then(towers.take(cover.towers))
    return WorkingSpace(quantise_map(cover.forward, MAP_UNITS), MAP_UNITS, layout, cover.back)


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Non-negative totals of the counted places, and the variance of their noise."""

    values: NDArray[np.float64]
    variance: NDArray[np.float64]
    level_variance: float
    """Squared relative error that all of them share through the grand total."""
    measurements: tuple[Measurement, ...]


def measure_totals(
    source: Source, wall: Wall, facts: PublicFacts, settings: Settings, plan: Plan
) -> Totals:
    """Take the two measurements and put them together."""
    if settings.histogram is Histogram.CLIPPED:
        box = source.place_totals(WeightBound(settings.histogram_limit), facts.counting)
    else:
        key = wall.sampling_key(HISTOGRAM)
        box = source.sampled(SampleBound(1), key).map(_over_slots, "one visit of each user")
    histogram = take(wall, box, plan, HISTOGRAM)
    if settings.total_share == 0:
        return scaled_totals(histogram, None)
    capped = source.capped_total(settings.total_cap, facts.counting)
    return scaled_totals(histogram, take(wall, capped, plan, TOTAL))


def scaled_totals(histogram: Measurement, total: Measurement | None) -> Totals:
    """K * H_i / sum of H, not negative and summing to K."""
    raw = histogram.estimate()
    mass = float(raw.sum())
    level = mass if total is None else float(total.estimate()[0])
    level = max(level, 0.0)
    if mass <= 0:  # noise alone: nothing is known about where
        even = np.full(raw.size, level / raw.size)
        return Totals(even, np.square(even), 1.0, _taken(histogram, total))
    values = project_to_simplex((raw * (level / mass))[:, None], np.array([level]))[:, 0]
    variance = np.full(raw.size, (histogram.sd * level / mass) ** 2)
    shared = 0.0
    if level > 0:
        own = 0.0 if total is None else total.sd / level
        shared = own**2 + raw.size * (histogram.sd / mass) ** 2
    return Totals(values, variance, shared, _taken(histogram, total))


def _taken(histogram: Measurement, total: Measurement | None) -> tuple[Measurement, ...]:
    return (histogram,) if total is None else (histogram, total)


def _over_slots(counts: Counts) -> Counts:
    """One visit of each user, by place, on a finer lattice: exact, so L1 and L2 scale with it.

    A user has one visit in all, so adding up the slots leaves a change of one in one place.
    """
    finer = ONE_VISIT_UNITS // counts.units_per_count
    return replace(
        counts,
        values=counts.values.sum(axis=1) * finer,
        units_per_count=ONE_VISIT_UNITS,
        l1=counts.l1 * finer,
        l2=counts.l2 * finer,
        what="place totals of one visit a user",
    )


Vector = NDArray[np.float64]
USUAL = 0.012
"""k^2 where nothing is known: shapes of neighbouring clusters differ by some 11 %. Taken as fixed
it did as well on the cities it was settled on (2.6 points from 90 %, against 2.8), but would not
notice a city whose places have less in common (docs/decisions/paris-tuning.md)."""
USUAL_PAIRS = 10.0
"""Pairs of clusters that `USUAL` weighs as much as."""
GROWTH = 0.2
"""Chosen, with the power 1 of n - 1, among nine factors from 0.1 to 1 and powers 1/2, 3/4 and 1, on
the cities of seeds 101 to 104 and 1, for 90 % intervals that hold 90 %
(docs/decisions/paris-tuning.md, "Intervals")."""
_CLOSE_HOURS = 1.5
"""Standard deviation, in hours of the clock, of the kernel that averages the spread of shapes."""


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
