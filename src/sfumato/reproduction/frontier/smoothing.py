"""Grouping and smoothing (Kellaris & Papadopoulos 2013) by hours, with Gaussian noise.

A rough guide, one random visit of each user by place, puts places of like size side by side;
they are cut into groups of w, each group's hours are measured, and a place gets the mean of
its group. `density.grouping` groups cells of different hours and pays for it with the L1 norm
of a whole record; here a group never crosses an hour.

Sensitivity: the guide moves by one in one place. Groups are a partition of the places made
from noisy numbers, so a user's mass per slot goes through and the sums move by at most C in L2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato.density.grouping import groups_of
from sfumato.density.scheme import PublicFacts
from sfumato.model.bound import WEIGHT_UNITS, SampleBound
from sfumato.model.counts import Counts
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
from sfumato.reproduction.frontier.quadtree import gather

LIMIT = 1.5
GUIDE, SUMS = "guide", "groups"
GUIDE_SHARE = 0.1
_VISITS = 13.55 / 168
"""Visits of an average user in an hour (Acs & Castelluccia 2014)."""


@dataclass(frozen=True, slots=True)
class HourlyGrouping:
    """The baseline; `ease` is the tolerated noise of a mean relative to an expected count."""

    limit: float = LIMIT
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
        one = source.sampled(SampleBound(1), wall.sampling_key(GUIDE)).map(_by_place, GUIDE)
        guide = spent.measure(GUIDE, one)
        label = groups_of(guide.values, self._size(facts, spent.sd(SUMS) / WEIGHT_UNITS))
        box = apply_map(
            bounded(source, facts, self.limit), gather(label), 1, SUMS, mass_per_slot=True
        )
        sums = spent.measure(SUMS, box).estimate()
        table = sums[label] / np.bincount(label)[label][:, None]
        return finished(spent, source, facts, table)

    def _size(self, facts: PublicFacts, sd: float) -> int:
        """w: as many places as bring the noise of a mean down to the tolerated share."""
        expected = (facts.expected_users or 1) * _VISITS / max(facts.places, 1)
        return int(min(max(math.ceil(sd / (self.ease * expected)), 1), max(facts.places // 3, 1)))


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
