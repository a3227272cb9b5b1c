"""`laplace`: bounded counts and one discrete Laplace measurement. The papers' LPA, corrected.

Claim: pure epsilon-DP for adding or removing one user's whole record in the period; delta is
not used. Sensitivity: one user moves the counts of all places and slots together by at most
l in L1 (a sample of l slots, Acs & Castelluccia 2014) or C sqrt(slots) (weights), so noise of
scale l1 / epsilon on every number pays for the whole table (Ghosh, Roughgarden &
Sundararajan 2009 for the discrete law). Noise is added where people were counted, at towers;
spreading over zones by public shares, clipping and rounding read the noisy table alone.

Cost: one pass over the events and one draw for each place and slot.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato.density.parameters import no_others, user_period
from sfumato.density.scheme import Density, Plan, PlannedMeasurement, PublicFacts
from sfumato.density.zoning import Table, bounded_counts, released, released_variance
from sfumato.model.source import Source
from sfumato.privacy.calibration import laplace_scale
from sfumato.privacy.events import LaplaceEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.mechanisms.addition import laplace_variance
from sfumato.privacy.wall import Wall

LABEL = "counts"
COVERAGE = 0.90
_NORMAL_WIDTH = 1.6448536269514722
"""Half-width of the central 90 % of a normal law, in standard deviations."""
_DECIMALS = 3
WORDS = {"clip": "true or false"}


class Laplace:
    """One noisy table. Parameter `clip` (default true) turns negative numbers into zero."""

    @property
    def name(self) -> str:
        return "laplace"

    def plan(self, facts: PublicFacts) -> Plan:
        user_period(self.name, facts)
        no_others(self.name, facts, WORDS)
        event = self._event(facts)
        sd = _sd(event.scale) / facts.bound.units_per_count
        variance = released_variance(facts, np.full((facts.places, 1), sd * sd))
        planned = PlannedMeasurement(LABEL, event, facts.cells, sd)
        lines = (
            f"One table of {facts.places} places x {facts.grid.slots} slots, each number with "
            f"discrete Laplace noise of standard deviation {sd:.3g} {facts.counting}.",
            f"It costs epsilon {facts.epsilon:.4g} outright; delta is not used.",
        )
        return Plan(self.name, (planned,), float(np.sqrt(variance.mean())), lines)

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        event = self.plan(facts).events[LABEL]
        assert isinstance(event, LaplaceEvent)
        counts = bounded_counts(source, wall, facts, LABEL)
        measured = wall.laplace(counts, scale=event.scale, label=LABEL)
        ids, values = released(facts, measured.estimate())
        half = _half_width(facts, measured.sd)
        lower, upper = values - half, values + half
        if facts.parameters.get("clip", True):
            values, lower, upper = (np.maximum(a, 0.0) for a in (values, lower, upper))
        values, lower, upper = (np.round(a, _DECIMALS) + 0.0 for a in (values, lower, upper))
        return Density(ids, values, lower, upper, COVERAGE, (measured,))

    @staticmethod
    def _event(facts: PublicFacts) -> LaplaceEvent:
        l1 = rounded_up(facts.bound.l1(facts.grid.slots))
        return LaplaceEvent(l1, laplace_scale(l1, facts.epsilon))


def _sd(scale: Fraction) -> float:
    return math.sqrt(laplace_variance(scale))


def _half_width(facts: PublicFacts, sd: float) -> Table:
    """Half of the interval of each released row.

    One tower's noise lies within log 10 scales, 1.63 standard deviations, 90 times in 100; a
    weighted sum of many towers, nearly normal, within 1.645. The larger holds for both.
    """
    wide = max(math.log(1 / (1 - COVERAGE)) / math.sqrt(2), _NORMAL_WIDTH)
    return wide * np.sqrt(released_variance(facts, np.full((facts.places, 1), sd * sd)))
