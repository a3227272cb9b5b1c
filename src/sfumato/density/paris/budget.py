"""One budget for the whole Paris release: variances of all measurements from public facts.

Claim: (epsilon, delta)-DP for adding or removing one user's whole record. The measurements
compose adaptively (clusters depend on noisy totals), their noise and sensitivities are fixed
here, before the first answer, which is what the exact Gaussian curve asks for. With the
exponential choice of k the composition is by rho, since that choice is no Gaussian. With
Laplace noise the claim is pure and epsilons add up; `spectrum` has its sensitivities.

Sensitivities. Series: the users' mass per slot is bounded by the contribution bound, every
map here (shares, cover, clusters) has columns that sum to at most one, so L2 stays C or
sqrt(l) for *all* clusters together. Totals: C_S, or 1 for one visit a user. Grand total: its cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.density.common import touched_cells
from sfumato.density.paris.settings import Cut, Histogram, Keep, Noise, Settings, Space
from sfumato.density.paris.spectrum import (
    LATTICE,
    coefficient_sensitivity,
    cost_range,
    row_range,
    units_of,
)
from sfumato.density.scheme import Plan, PublicFacts
from sfumato.model.counts import WEIGHT_UNITS, Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import Guarantee, guarantee, zcdp_rho
from sfumato.privacy.calibration import (
    GaussianPart,
    calibrate_gaussians,
    gaussian_sigma2,
    laplace_scale,
    selection_softness,
)
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    Measurement,
    PrivacyEvent,
)
from sfumato.privacy.exact import decimal_up, exact, rounded_up
from sfumato.privacy.mechanisms.additive import laplace_variance
from sfumato.privacy.mechanisms.selection import MECHANISM, choices_rho
from sfumato.privacy.noise import representable_softness
from sfumato.privacy.wall import Wall

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
    cut: Cut = Cut.COMMON

    @property
    def event(self) -> BoundedRangeEvent | ConcentratedEvent:
        if self.cut is Cut.EACH:
            return ConcentratedEvent(choices_rho(self.softness, self.range_units), MECHANISM)
        return BoundedRangeEvent(decimal_up(self.range_units / self.softness))


def series_units(facts: PublicFacts, settings: Settings) -> int:
    """Lattice units of one count of the series."""
    finer = 1 if settings.space is Space.TOWERS else MAP_UNITS
    return facts.bound.units_per_count * finer


def histogram_units(settings: Settings) -> int:
    return WEIGHT_UNITS if settings.histogram is Histogram.CLIPPED else ONE_VISIT_UNITS


def divide(facts: PublicFacts, settings: Settings) -> tuple[dict[str, PrivacyEvent], Guarantee]:
    """All events of the release, in the order in which they happen, and what they amount to."""
    if settings.noise is Noise.LAPLACE:
        return _divide_pure(facts, settings)
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


def _divide_pure(
    facts: PublicFacts, settings: Settings
) -> tuple[dict[str, PrivacyEvent], Guarantee]:
    """Shares of epsilon, in the order in which things happen."""
    most = settings.k if settings.keep is Keep.FIRST else facts.grid.slots
    units_of(facts.bound, facts.grid.slots, most, settings.transform)  # says if there is no room

    def laplace(l1: float, share: float) -> LaplaceEvent:
        return LaplaceEvent(l1, laplace_scale(l1, exact(facts.epsilon) * exact(share)))

    events: dict[str, PrivacyEvent] = {
        HISTOGRAM: laplace(float(ONE_VISIT_UNITS), settings.histogram_share)
    }
    if settings.total_share:
        events[TOTAL] = laplace(float(settings.total_cap), settings.total_share)
    if settings.keep is Keep.EXPONENTIAL:
        events[CHOICE] = choice(facts, settings).event
    lattice = float(LATTICE * series_units(facts, settings))
    events[SERIES] = laplace(lattice, settings.series_share)
    return events, guarantee(events.values(), facts.delta)


def take(wall: Wall, box: Private[Counts], plan: Plan, label: str) -> Measurement:
    """The planned measurement of that label."""
    event = plan.events[label]
    if isinstance(event, LaplaceEvent):
        return wall.laplace(box, scale=event.scale, label=label)
    assert isinstance(event, GaussianEvent)
    return wall.gaussian(box, sigma2=event.sigma2, touched=event.touched, label=label)


def coefficient_sd(
    event: PrivacyEvent, facts: PublicFacts, settings: Settings
) -> NDArray[np.float64]:
    """Standard deviation of one coefficient, in counts, if k = 1 … slots are kept."""
    slots = facts.grid.slots
    if isinstance(event, GaussianEvent):
        return np.full(slots, math.sqrt(event.sigma2) / series_units(facts, settings))
    assert isinstance(event, LaplaceEvent)
    lattice = LATTICE * series_units(facts, settings)
    sensitivity = coefficient_sensitivity(facts.bound, slots, settings.transform)
    return sensitivity * (math.sqrt(laplace_variance(event.scale)) / lattice)


def series_sd(event: PrivacyEvent, facts: PublicFacts, settings: Settings) -> float:
    """Standard deviation of one slot of a series: all coefficients kept, or with Laplace k."""
    sd = coefficient_sd(event, facts, settings)
    k = settings.k if settings.noise is Noise.LAPLACE else sd.size
    return float(sd[k - 1]) * math.sqrt(k / sd.size)


def choice(facts: PublicFacts, settings: Settings) -> Choice:
    """The softness that its share pays for; the range is sqrt(2) L2 and the rounding.

    In rho, eta^2 / 8 is the share; in the pure form eta itself is.
    """
    eta = facts.epsilon * settings.choice_share * (1 - 1e-12)
    if settings.noise is Noise.GAUSSIAN:
        rho = zcdp_rho(facts.epsilon, facts.delta) * settings.choice_share
        eta = math.sqrt(8 * rho) * (1 - 1e-12)
    spread = math.sqrt(2) * facts.bound.l2(facts.grid.slots) / facts.bound.units_per_count
    if settings.cut is Cut.EACH:
        range_units = row_range(spread, _clusters_touched(facts, settings))
    else:
        range_units = cost_range(spread)
    softness = representable_softness(selection_softness(range_units, eta))
    return Choice(softness, range_units, settings.cut)


def _clusters_touched(facts: PublicFacts, settings: Settings) -> int:
    """The most clusters that one user can be in: no more than cells, nor than what is moved."""
    if settings.space is Space.TOWERS:
        return min(touched_cells(facts), facts.places)
    assert facts.overlay is not None  # a cover has no more cells than there are zones
    return min(touched_cells(facts) * _widest(facts), facts.overlay.zone_ids.size)


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
    # Rounded up once, in `_event`, as the wall rounds what it is given: a second time would
    # plan another event than is charged.
    series = GaussianPart(facts.bound.l2(facts.grid.slots) * finer, touched, settings.series_share)
    if settings.total_share == 0:
        return {HISTOGRAM: histogram, SERIES: series}
    total = GaussianPart(float(settings.total_cap), 1, settings.total_share)
    return {HISTOGRAM: histogram, TOTAL: total, SERIES: series}


def _widest(facts: PublicFacts) -> int:
    """The most cells that one visit is spread over: the zones it meets and its own tower."""
    assert facts.overlay is not None
    entries = facts.overlay.shares.tocsr()
    return int((entries.indptr[1:] - entries.indptr[:-1]).max()) + 1
