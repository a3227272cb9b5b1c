"""How many visits each place has in the period, from a noisy histogram and a noisy total.

The histogram gives the shares, the grand total the level: S_i = K * H_i / sum of H. Both are
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

from sfumato.density.paris.budget import HISTOGRAM, ONE_VISIT_UNITS, TOTAL, take
from sfumato.density.paris.settings import Histogram, Settings
from sfumato.density.refine.consistency import project_to_simplex
from sfumato.density.scheme import Plan, PublicFacts
from sfumato.model.bound import SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.source import Source
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.wall import Wall


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
