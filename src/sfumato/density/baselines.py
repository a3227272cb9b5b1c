"""`gaussian` and `laplace`: bounded counts and one discrete measurement. The plain baselines.

Unit and neighbours of both: adding or removing one user's whole record in the period. The counts
of all places and slots are one measurement, so the sensitivity is that of the whole table.

* `gaussian`. Claim: (epsilon, delta)-DP, by rho-zCDP (Canonne, Kamath & Steinke 2020) or, where the
  lattice is fine enough, by the exact Gaussian curve (Balle & Wang 2018); the plan says which.
  Sensitivity: the counts are bounded to L2 at most C (weights) or sqrt(l) (sampling) for one user
  over all places and slots together.
* `laplace`, the papers' LPA, corrected. Claim: pure epsilon-DP; delta is not used. Sensitivity: one
  user moves the counts of all places and slots together by at most l in L1 (a sample of l slots,
  Acs & Castelluccia 2014) or C sqrt(slots) (weights), so noise of scale l1 / epsilon on every
  number pays for the whole table (Ghosh, Roughgarden & Sundararajan 2009 for the discrete law).

Noise is added where people were counted, at towers. What follows reads only the noisy table: rows
of a tower that moved are added up, towers are spread over zones by public area shares, negative
numbers become zero, and everything is rounded. No intervals: the law of the noise gives them for
the bounded count, and what the bound left out is not known (docs/decisions/intervals.md).

Cost: one pass over the events and one draw for each place and slot.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.density.common import (
    bounded_counts,
    no_others,
    released,
    released_variance,
    rounded,
    user_period,
)
from sfumato.density.scheme import (
    Declaration,
    Density,
    Margin,
    Plan,
    PlannedMeasurement,
    PublicFacts,
)
from sfumato.model import rounding
from sfumato.model.counts import Counts, SampleBound
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.calibration import gaussian_sigma2_for, laplace_scale
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, Measurement
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.mechanisms.additive import laplace_variance
from sfumato.privacy.wall import Wall

LABEL = "counts"
_WIDTH = 1.6448536269514722
"""Half-width of the central 90 % of a normal law, in standard deviations."""
WORDS = {"clip": "true or false"}
NO_INTERVALS = (
    "No interval is stated: the noise has a known size, but what the limit on each person's share "
    "may have left out of these counts was not measured."
)

NO_SUMS = (
    "Noise of single counts is independent, but a sum is off by what the limit on each person's "
    "share left out and by negative counts that became zero, and neither was measured."
)


class Gaussian:
    """One noisy table. Parameter `clip` (default true) turns negative numbers into zero."""

    declares = Declaration(
        WORDS,
        margins={LABEL: Margin.BOTH},
        other_values={"clip": {"clip": False}},
        no_posterior=NO_SUMS,
    )

    @property
    def name(self) -> str:
        return "gaussian"

    def plan(self, facts: PublicFacts) -> Plan:
        user_period(self.name, facts)
        no_others(self.name, facts, WORDS)
        bound, slots = facts.bound, facts.grid.slots
        l2 = rounded_up(bound.l2(slots))
        touched = min(bound.slots, slots) if isinstance(bound, SampleBound) else facts.cells
        found = gaussian_sigma2_for(facts.epsilon, facts.delta, l2, touched)
        (sigma2,) = found.sigma2
        sd = math.sqrt(sigma2) / bound.units_per_count
        event = GaussianEvent(l2, sigma2, touched)
        planned = PlannedMeasurement(LABEL, event, facts.cells, sd, sums=True)
        spread = self._deviations(facts, sd)
        lines = (
            f"One table of {facts.places} places x {slots} slots, each number with discrete "
            f"Gaussian noise of standard deviation {sd:.3g} {facts.counting}.",
            f"It costs epsilon {rounding.rounded_up(found.guarantee.epsilon, 4)} at delta "
            f"{facts.delta:g} "
            f"(rho {rounding.rounded_up(found.guarantee.rho or 0, 4)}, by "
            f"{found.guarantee.method}).",
            f"A released number is within {_WIDTH * float(np.median(spread)):.3g} of the "
            "bounded count 90 times in 100.",
        )
        return Plan(self.name, (planned,), float(np.sqrt(np.mean(spread**2))), lines)

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        (planned,) = self.plan(facts).measurements
        event = planned.event
        assert isinstance(event, GaussianEvent)
        measured = wall.gaussian(
            self._counts(source, wall, facts),
            sigma2=event.sigma2,
            touched=event.touched,
            label=LABEL,
        )
        return _density(facts, measured)

    def _counts(self, source: Source, wall: Wall, facts: PublicFacts) -> Private[Counts]:
        return bounded_counts(source, wall, facts, LABEL)

    @staticmethod
    def _deviations(facts: PublicFacts, sd: float) -> NDArray[np.float64]:
        """Standard deviation of the noise on each released place's numbers."""
        if facts.overlay is not None:
            squares = facts.overlay.shares.power(2)
            return np.asarray(sd * np.sqrt(squares.T @ np.ones(facts.places)), dtype=np.float64)
        _, rows = np.unique(facts.place_ids, return_counts=True)
        return np.asarray(sd * np.sqrt(rows), dtype=np.float64)


class Laplace:
    """One noisy table. Parameter `clip` (default true) turns negative numbers into zero."""

    declares = Declaration(
        WORDS,
        margins={LABEL: Margin.BOTH},
        other_values={"clip": {"clip": False}},
        no_posterior=NO_SUMS,
    )

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
            f"It costs epsilon {rounding.rounded_up(facts.epsilon, 4)} outright; delta is not "
            f"used.",
        )
        return Plan(self.name, (planned,), float(np.sqrt(variance.mean())), lines)

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        event = self.plan(facts).events[LABEL]
        assert isinstance(event, LaplaceEvent)
        counts = bounded_counts(source, wall, facts, LABEL)
        measured = wall.laplace(counts, scale=event.scale, label=LABEL)
        return _density(facts, measured)

    @staticmethod
    def _event(facts: PublicFacts) -> LaplaceEvent:
        l1 = rounded_up(facts.bound.l1(facts.grid.slots))
        return LaplaceEvent(l1, laplace_scale(l1, facts.epsilon))


def _sd(scale: Fraction) -> float:
    return math.sqrt(laplace_variance(scale))


def _density(facts: PublicFacts, measured: Measurement) -> Density:
    """The released table. Post-processing."""
    ids, values = released(facts, measured.estimate())
    if facts.parameters.get("clip", True):
        values = np.maximum(values, 0.0)
    (values,) = rounded(values)
    return Density(ids, values, None, None, None, (measured,), (NO_INTERVALS,))
