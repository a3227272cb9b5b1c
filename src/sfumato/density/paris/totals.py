"""Totals of places in the Paris release: where it works and how many visits.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from sfumato.density.common import Table, released
from sfumato.density.paris.budget import HISTOGRAM, MAP_UNITS, ONE_VISIT_UNITS, TOTAL, take
from sfumato.density.paris.settings import Histogram, Settings, Space
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

    def released(self, facts: PublicFacts, table: Table) -> tuple[NDArray[np.str_], Table]:
        """Ids and rows of the released table."""
        if self.back is None:
            return released(facts, table)
        assert facts.overlay is not None
        return facts.overlay.zone_ids, np.asarray(self.back @ table, dtype=np.float64)


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
    """Non-negative totals of the counted places, and what they were made from."""

    values: NDArray[np.float64]
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
        return Totals(even, _taken(histogram, total))
    values = project_to_simplex((raw * (level / mass))[:, None], np.array([level]))[:, 0]
    return Totals(values, _taken(histogram, total))


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
