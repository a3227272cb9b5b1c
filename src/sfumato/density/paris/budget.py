"""One budget for the whole Paris release: variances of all measurements from public facts.

Claim: (epsilon, delta)-DP for adding or removing one user's whole record. The measurements
compose adaptively (clusters depend on noisy totals), their noise and sensitivities are fixed
here, before the first answer, which is what the exact Gaussian curve asks for. With the
exponential choice of k the composition is by rho, since that choice is no Gaussian.

Sensitivities. Series: the users' mass per slot is bounded by the contribution bound, every
map here (shares, cover, clusters) has columns that sum to at most one, so L2 stays C or
sqrt(l) for *all* clusters together. Totals: C_S, or 1 for one visit a user. Grand total: its cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.density.paris.cut import cost_range
from sfumato.density.paris.settings import Histogram, Keep, Settings, Space
from sfumato.density.scheme import Plan, PublicFacts
from sfumato.density.zoning import touched_cells
from sfumato.model.bound import WEIGHT_UNITS
from sfumato.privacy.accounting import Guarantee, guarantee, zcdp_rho
from sfumato.privacy.calibration import (
    GaussianPart,
    calibrate_gaussians,
    gaussian_sigma2,
    selection_softness,
)
from sfumato.privacy.events import BoundedRangeEvent, GaussianEvent, PrivacyEvent
from sfumato.privacy.exact import decimal_up, exact, rounded_up
from sfumato.privacy.noise import representable_softness

SERIES, HISTOGRAM, TOTAL, CHOICE = "series", "histogram", "total", "choice"
MAP_UNITS = 1 << 12
"""Lattice of the public maps to zones and cover cells."""
ONE_VISIT_UNITS = 1 << 16
"""One visit on a finer lattice, so that its noise is close to continuous."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The exponential choice of k: softness b and range r, both in cost units."""

    softness: Fraction
    range_units: int

    @property
    def event(self) -> BoundedRangeEvent:
        return BoundedRangeEvent(decimal_up(self.range_units / self.softness))


def series_units(facts: PublicFacts, settings: Settings) -> int:
    """Lattice units of one count of the series."""
    finer = 1 if settings.space is Space.TOWERS else MAP_UNITS
    return facts.bound.units_per_count * finer


def histogram_units(settings: Settings) -> int:
    return WEIGHT_UNITS if settings.histogram is Histogram.CLIPPED else ONE_VISIT_UNITS


def divide(facts: PublicFacts, settings: Settings) -> tuple[dict[str, PrivacyEvent], Guarantee]:
    """All events of the release, in the order in which they happen, and what they amount to."""
    parts = _parts(facts, settings)
    if settings.keep is not Keep.EXPONENTIAL:
        found = calibrate_gaussians(facts.epsilon, facts.delta, list(parts.values()))
        pairs = zip(parts.items(), found.sigma2, strict=True)
        return {label: _event(part, sigma2) for (label, part), sigma2 in pairs}, found.guarantee
    rho = exact(zcdp_rho(facts.epsilon, facts.delta))
    events: dict[str, PrivacyEvent] = {}
    for label, part in parts.items():
        if label == SERIES:
            events[CHOICE] = choice(facts, settings).event
        events[label] = _event(part, gaussian_sigma2(part.l2, rho * exact(part.share)))
    return events, guarantee(events.values(), facts.delta)


def gaussian_event(plan: Plan, label: str) -> GaussianEvent:
    """The planned Gaussian measurement of that label."""
    event = plan.events[label]
    assert isinstance(event, GaussianEvent)
    return event


def choice(facts: PublicFacts, settings: Settings) -> Choice:
    """eta from eta^2 / 8 = its share of rho; the range is sqrt(2) L2 and the rounding."""
    rho = zcdp_rho(facts.epsilon, facts.delta) * settings.choice_share
    eta = math.sqrt(8 * rho) * (1 - 1e-12)
    spread = math.sqrt(2) * facts.bound.l2(facts.grid.slots) / facts.bound.units_per_count
    range_units = cost_range(spread)
    return Choice(representable_softness(selection_softness(range_units, eta)), range_units)


def _event(part: GaussianPart, sigma2: Fraction) -> GaussianEvent:
    return GaussianEvent(rounded_up(part.l2), sigma2, part.touched)


def _parts(facts: PublicFacts, settings: Settings) -> dict[str, GaussianPart]:
    """The Gaussian measurements, in the order in which they are taken."""
    units = histogram_units(settings)
    if settings.histogram is Histogram.CLIPPED:
        histogram = GaussianPart(
            settings.histogram_limit * units, facts.places, settings.histogram_share
        )
    else:
        histogram = GaussianPart(float(units), 1, settings.histogram_share)
    finer = series_units(facts, settings) // facts.bound.units_per_count
    touched = touched_cells(facts) * (1 if finer == 1 else _widest(facts))
    series = GaussianPart(
        rounded_up(facts.bound.l2(facts.grid.slots) * finer), touched, settings.series_share
    )
    if settings.total_share == 0:
        return {HISTOGRAM: histogram, SERIES: series}
    total = GaussianPart(float(settings.total_cap), 1, settings.total_share)
    return {HISTOGRAM: histogram, TOTAL: total, SERIES: series}


def _widest(facts: PublicFacts) -> int:
    """The most cells that one visit is spread over: the zones it meets and its own tower."""
    assert facts.overlay is not None
    entries = facts.overlay.shares.tocsr()
    return int((entries.indptr[1:] - entries.indptr[:-1]).max()) + 1
