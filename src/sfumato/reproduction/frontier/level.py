"""What all outside baselines share: one budget, a weight bound, and a level that is paid for.

Weighting busy users down keeps the shape of the counts and loses their level, so every
baseline spends a small share on a capped grand total and scales to it, as `paris` does.
Without it each would be worse by a third. The rest goes to the baseline's own measurements.
Claim: (epsilon, delta)-DP for one user's whole record; `GaussianPart.l2` of each is argued
where it is made. The limit C is a constant tuned on other cities (docs/frontier.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.consistency import project_to_simplex
from sfumato.density.scheme import PublicFacts
from sfumato.model.bound import WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.calibration import GaussianPart, calibrate_gaussians
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.wall import Wall

Table = NDArray[np.float64]
TOTAL = "grand total"
TOTAL_SHARE = 0.02
TOTAL_CAP = 250


@dataclass(frozen=True, slots=True, eq=False)
class Purse:
    """The calibrated parts of one baseline; `measure` takes them one by one."""

    wall: Wall
    parts: Mapping[str, GaussianPart]
    sigma2: Mapping[str, Fraction]

    def measure(self, label: str, box: Private[Counts]) -> Measurement:
        """The planned measurement of that label."""
        part = self.parts[label]
        return self.wall.gaussian(box, sigma2=self.sigma2[label], touched=part.touched, label=label)

    def sd(self, label: str) -> float:
        """Standard deviation of its noise, in lattice units."""
        return math.sqrt(self.sigma2[label])


def purse(wall: Wall, facts: PublicFacts, parts: Mapping[str, GaussianPart]) -> Purse:
    """The grand total and a baseline's own parts, whose shares sum to at most one."""
    scaled = {
        label: GaussianPart(part.l2, part.touched, round(part.share * (1 - TOTAL_SHARE), 12))
        for label, part in parts.items()
    }
    whole = {TOTAL: GaussianPart(float(TOTAL_CAP), 1, TOTAL_SHARE), **scaled}
    found = calibrate_gaussians(facts.epsilon, facts.delta, list(whole.values()))
    return Purse(wall, whole, dict(zip(whole, found.sigma2, strict=True)))


def bounded(source: Source, facts: PublicFacts, limit: float) -> Private[Counts]:
    """Place x slot with weights min(1, C / norm)."""
    return source.weighted(WeightBound(limit), facts.counting)


def finished(spent: Purse, source: Source, facts: PublicFacts, table: Table) -> Table:
    """Counted places to zones: at the level of the paid grand total, and not negative.

    The sums of the table are still unbiased when the level is taken, so it is taken first;
    then each slot is projected on the non-negative maps with its own sum. Where the grand
    total drowns in its noise the sum of the table stands.
    """
    total = spent.measure(TOTAL, source.capped_total(TOTAL_CAP, facts.counting))
    level, mass = float(total.estimate()[0]), float(table.sum())
    factor = level / mass if mass > 0 and level > 3 * total.sd else 1.0
    zones = table if facts.overlay is None else facts.overlay.to_zones(table)
    return project_to_simplex(factor * zones, factor * zones.sum(axis=0))


def touched_everywhere(facts: PublicFacts, rows: int) -> int:
    """Most cells that one user moves: all of them, since a weight bound limits no number."""
    return max(rows * facts.grid.slots, 1)
