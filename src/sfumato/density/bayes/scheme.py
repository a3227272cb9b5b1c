"""`bayes`: margins, one weighted matrix, and an empirical-Bayes reading of both.

Claim: (epsilon, delta)-DP for adding or removing one user's whole record in the period, as
one joint Gaussian budget over four measurements; the exact Gaussian curve where the fine
lattice allows it (see `privacy.accounting.gaussian`), zCDP otherwise.

Measurements and their sensitivity, all of them exact integers:

1. *Place totals*: each user's vector of totals scaled to L2 at most C1.
2. *Slot totals*: each user's mass per slot scaled to L2 at most C2.
3. *Grand total*: sum of min(visits, cap), sensitivity the cap.
4. *The matrix*: b o (A x), with weights b made from the noisy margins. One visit at place T
   in slot t has norm q_Tt after the map; user u counts w_u = min(1, C / norm_u), norm_u over
   slots of the sum of q, so the matrix moves by at most C (see `privacy.mechanisms.linear`). The
   limits are fixed in the plan, so measuring 4 after 1 to 3 were seen is adaptive composition
   of fixed events.

Everything after them is post-processing (`inference`). Cost: four passes over the packed
events, and a few eigenbases of the places.

How the budget is divided and users are bounded is a public function of public facts
(`settings_for`): x = expected users times mu (the sharpness of the whole budget) sets the regime. A
strong signal carries heavier contributions, a weak one is better served by tight bounds. The
constants were found on synthetic weeks of 168 hourly slots with 13.55 visits a user; other
periods and slot lengths scale them by the visits a user can be expected to make. Call records
are assumed; who publishes signalling or satellite fixes, where a person is seen in most hours,
says so with the parameter `visits`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from sfumato.density.bayes.clipping import Weighting, expected_weighting, margin_leak, too_active
from sfumato.density.bayes.inference import Ground, Margins, infer, matrix_weights, prepare
from sfumato.density.common import no_others, number, rounded, user_period
from sfumato.density.scheme import Declaration, Density, Plan, PlannedMeasurement, PublicFacts
from sfumato.errors import UsageError
from sfumato.geography.overlay import Layout
from sfumato.model.counts import WEIGHT_UNITS, WeightBound
from sfumato.model.source import Source
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.calibration import Calibration, GaussianPart, calibrate_gaussians
from sfumato.privacy.events import GaussianEvent, Measurement
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.mechanisms.linear import apply_weighted_map, event_norms
from sfumato.privacy.wall import Wall

WEEKLY_VISITS = 13.55
"""Visits of an average user in a week of hourly slots (Acs & Castelluccia 2014)."""
SLOT_SHARE = 0.04
"""Of the budget, to slot totals. With .02 or .08 the error changed by less than 1 % at epsilon 1
and 0.3, and by 2 to 8 % for the worse at 0.1 (docs/decisions/bayes.md, "Shares and limits")."""
TOTAL_SHARE = 0.01
"""Of the budget, to the grand total, which is one number."""
WEEKLY_CAP = 250
"""The grand total counts at most this many visits of a user in a week."""
_ENOUGH = 5.0
"""The grand total is measured only where it is expected to stand this far above its noise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Shares of the budget and limits of one user's contribution to each measurement."""

    signal: float
    """x: expected users times mu."""
    place_share: float
    place_limit: float
    slot_limit: float
    matrix_limit: float
    cap: int
    with_total: bool

    @property
    def matrix_share(self) -> float:
        rest = 1.0 - self.place_share - SLOT_SHARE - (TOTAL_SHARE if self.with_total else 0.0)
        return round(rest, 12)

    @property
    def clipping_error(self) -> float:
        """Relative error that bounding contributions leaves in a cell, as seen on synthetic
        cities: the tighter the bound, the larger."""
        return 0.01 if self.signal >= 2e4 else 0.06

    @property
    def caution(self) -> float:
        """Error over posterior deviation, as seen on synthetic cities. The variances of the
        layers are added up, which says too much where noise is strong."""
        return (
            1.0 if self.signal >= 3e5 or self.signal < 2e4 else 0.95 if self.signal >= 1e5 else 0.9
        )

    @property
    def pooled(self) -> bool:
        """Whether the small hours are too thin for maps of their own: below this signal pooling
        them took 2 % off the error and 7 % off the earth mover's distance, above it nothing
        (docs/decisions/bayes.md, "Weak signals")."""
        return self.signal < 1e5

    @property
    def rich(self) -> bool:
        """Whether the signal carries more than margins and a few common patterns."""
        return self.signal >= 3e3


def expected_visits(facts: PublicFacts) -> float:
    """Visits of an average user in the period, as the holder states them; else as in call
    records: in proportion to its length, less for long slots, in which several hours at one
    place count once."""
    hours = float(facts.grid.edges[-1] - facts.grid.edges[0]) / 3.6e9
    slot = hours / facts.grid.slots
    assumed = WEEKLY_VISITS * hours / 168.0 * math.pow(slot, -0.4)
    if "visits" not in facts.parameters:
        return assumed
    return number(facts, "visits", assumed, 0.1, 10.0 * facts.grid.slots)


def settings_for(facts: PublicFacts) -> Settings:
    """The regime for these facts."""
    if facts.expected_users is None:
        raise UsageError(
            "The scheme bayes divides its budget by the rough number of people in the data.",
            remedy="Give it from public knowledge, rounded, never counted: "
            "`expected_users=2000000`.",
        )
    mu = gaussian_mu(facts.epsilon, facts.delta)
    signal = facts.expected_users * mu
    # Shares and limits were worked out on one synthetic week (2 million users, 1,303 towers, 989
    # zones, seed 1). Limits of the place totals went up from 16, 16 and 8 after a city where
    # activity depends on where people live: up to 4 % worse on the plain one, 10 to 25 % better
    # there. The largest share is for weak signals: 35 % instead of 20 % took 200,000 people at
    # epsilon 0.1 from .333 to .307. All in docs/decisions/bayes.md.
    if signal >= 3e5:
        share, places, slots, matrix = 0.13, 32.0, 8.0, 3.0
    elif signal >= 1e5:
        share, places, slots, matrix = 0.18, 24.0, 8.0, 3.5
    elif signal >= 2e4:
        share, places, slots, matrix = 0.20, 12.0, 5.0, 2.5
    else:
        share, places, slots, matrix = 0.35, 4.0, 4.0, 1.5
    visits = expected_visits(facts)
    ratio = visits / WEEKLY_VISITS
    cap = max(10, math.ceil(WEEKLY_CAP * ratio))
    noise = cap / (mu * math.sqrt(TOTAL_SHARE))
    return Settings(
        signal=signal,
        place_share=share,
        place_limit=round(max(1.0, places * ratio**0.75), 3),
        slot_limit=round(max(1.0, slots * math.sqrt(ratio)), 3),
        matrix_limit=round(max(1.0, matrix * math.sqrt(ratio)), 3),
        cap=cap,
        with_total=facts.expected_users * visits > _ENOUGH * noise,
    )


PLACES, SLOTS, TOTAL, MATRIX = "place totals", "slot totals", "grand total", "matrix"
MAP_UNITS = 1 << 10
"""Lattice of the quantised map; the matrix lies on 2^26 units a visit."""
COVERAGE = 0.90
PARAMETERS = {"visits": "of an average user in the period, if they are not as in call records"}

Table = NDArray[np.float64]


class Bayes:
    """The default scheme. It needs `expected_users`, and takes its bounds from it."""

    declares = Declaration(
        PARAMETERS,
        own_bounds=True,
        learns_from_earlier=True,
        refines_zones=True,
        other_values={"visits": {"visits": 20.0}},
    )

    @property
    def name(self) -> str:
        return "bayes"

    def plan(self, facts: PublicFacts) -> Plan:
        user_period(self.name, facts)
        no_others(self.name, facts, PARAMETERS)
        settings = settings_for(facts)
        events = _events(facts, settings)
        users, visits = facts.expected_users or 1, expected_visits(facts)
        each = users * visits / max(facts.released_ids.size * facts.grid.slots, 1)
        planned = tuple(
            # Margins, and a map with entries >= 0 of counts >= 0: sums without negative parts.
            PlannedMeasurement(label, event, cells, math.sqrt(event.sigma2) / units, sums=True)
            for label, (event, cells, units) in events.items()
        )
        sd = math.sqrt(events[MATRIX][0].sigma2) / events[MATRIX][2]
        lines = (
            f"Totals of {facts.places} places and of {facts.grid.slots} slots"
            + (", the grand total" if settings.with_total else "")
            + " and one matrix of all places and slots, as one Gaussian budget.",
            f"With about {users:,} people a place and slot holds about {each:.3g} "
            f"{facts.counting}; the matrix has noise of {sd:.3g} before shrinkage.",
            f"One person weighs at most {settings.matrix_limit:g} in the matrix.",
            f"It expects {visits:.3g} {facts.counting} of an average person in the period"
            + (
                "."
                if "visits" in facts.parameters
                else ", as in call records: if people are seen more often (GPS, signalling), all "
                "counts come out too low unless you say so with the parameter visits."
            ),
            *(
                ()
                if settings.with_total
                else (
                    "With so few people the grand total is not measured: the level of all counts "
                    "may come out too low by half or more. Longer slots (1d) help most.",
                )
            ),
        )
        return Plan(self.name, planned, sd, lines, _bound_in_words(settings))

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        settings = settings_for(facts)
        events = _events(facts, settings)
        taken: list[Measurement] = []

        def measure(label: str, box: object) -> Measurement:
            event = events[label][0]
            found = wall.gaussian(box, sigma2=event.sigma2, touched=event.touched, label=label)  # type: ignore[arg-type]
            taken.append(found)
            return found

        counting = facts.counting
        places = measure(PLACES, source.place_totals(WeightBound(settings.place_limit), counting))
        slots = measure(SLOTS, source.slot_totals(WeightBound(settings.slot_limit), counting))
        total = (
            measure(TOTAL, source.capped_total(settings.cap, counting))
            if settings.with_total
            else None
        )
        area = _area(facts)
        ground = prepare(
            Margins(
                places.estimate(),
                places.sd,
                slots.estimate(),
                slots.sd,
                None if total is None else float(total.estimate()[0]),
            ),
            area,
            _centres(facts),
            facts.grid.starts(),
            facts.grid.ends(),
            facts.expected,
        )
        weights = matrix_weights(ground, area)
        norms = event_norms(area, weights, MAP_UNITS)
        counts = source.weighted(WeightBound(settings.matrix_limit), counting, norms)
        box = apply_weighted_map(counts, area, weights, norms, MAP_UNITS, "weighted matrix")
        matrix = measure(MATRIX, box)
        found = infer(
            ground,
            matrix.estimate(),
            weights,
            _weighting(ground, area, weights, settings, expected_visits(facts)),
            matrix.sd,
            rich=settings.rich,
            pooled=settings.pooled,
            clipping_error=settings.clipping_error,
            caution=settings.caution,
        )
        ids = facts.released_ids
        values, lower, upper = rounded(found.mean, *found.interval(COVERAGE))
        remarks = (
            (() if settings.with_total else (_NO_TOTAL,))
            + too_active(
                slots.estimate(), slots.sd, facts.expected_users or 1, expected_visits(facts)
            )
            + found.distortion.remarks(ids, facts.grid.starts())
        )
        return Density(ids, values, lower, upper, COVERAGE, tuple(taken), remarks)


_NO_TOTAL = (
    "So few people were expected that the grand total was not measured, and everybody is limited "
    "tightly: the level of all counts may be much too low, more than the intervals say."
)
"""By public facts alone. On made-up towns of 300 and 3,000 people, a week of hours at epsilon 1,
the total came out 60 % too low."""


def _weighting(
    ground: Ground, area: csr_array, weights: Table, settings: Settings, visits: float
) -> Weighting:
    """What the limit of the matrix is expected to do in each released cell."""
    norms = np.sqrt(np.asarray(area.power(2).T @ np.square(weights)))
    rough = ground.counted[:, None] * (ground.slots / ground.slots.sum())[None, :]
    counted = expected_weighting(norms, rough, settings.matrix_limit, visits)
    gathered = np.maximum(np.asarray(area @ ground.counted), 1e-9)[:, None]

    def released(weight: Table) -> Table:
        found: Table = np.asarray(area @ (ground.counted[:, None] * weight)) / gathered
        return np.where(found > 0, found, float(weight.mean()))

    return Weighting(
        released(counted.of_visits),
        released(counted.of_people),
        margin_leak(settings.place_limit, visits, float(counted.of_visits.mean())),
    )


def _bound_in_words(settings: Settings) -> str:
    """What one person may contribute to each measurement."""
    total = (
        f"at most {settings.cap} visits of a person enter the grand total; "
        if settings.with_total
        else ""
    )
    return (
        "Each person was weighted down, in each measurement by itself, to a Euclidean norm: "
        f"their totals per place to at most {settings.place_limit:g}, their totals per time slot "
        f"to at most {settings.slot_limit:g}; {total}in the table of places and time slots a "
        f"person counts for at most {settings.matrix_limit:g}, where a visit to a busy place or "
        "in a busy hour counts for less than one elsewhere."
    )


def _area(facts: PublicFacts) -> csr_array:
    """Released x counted shares; the identity where what is counted is released."""
    if facts.overlay is None:
        return csr_array(eye_array(facts.places, format="csr"))
    area = csr_array(facts.overlay.shares.T)
    area.sum_duplicates()
    return area


def _centres(facts: PublicFacts) -> NDArray[np.float64]:
    layout = facts.layout if facts.overlay is None else facts.zone_layout
    return (layout or Layout.in_order(facts.released_ids.size)).centres


def _events(facts: PublicFacts, settings: Settings) -> Mapping[str, tuple[GaussianEvent, int, int]]:
    """Label to (event, cells, units per count), calibrated jointly."""
    slots = facts.grid.slots
    released = facts.released_ids.size * slots
    limits = {
        PLACES: (settings.place_limit * WEIGHT_UNITS, facts.places, settings.place_share),
        SLOTS: (settings.slot_limit * WEIGHT_UNITS, slots, SLOT_SHARE),
        MATRIX: (
            settings.matrix_limit * WEIGHT_UNITS * MAP_UNITS,
            released,
            settings.matrix_share,
        ),
    }
    units = {PLACES: WEIGHT_UNITS, SLOTS: WEIGHT_UNITS, MATRIX: WEIGHT_UNITS * MAP_UNITS}
    if settings.with_total:
        limits[TOTAL] = (float(settings.cap), 1, TOTAL_SHARE)
        units[TOTAL] = 1
    found: Calibration = calibrate_gaussians(
        facts.epsilon,
        facts.delta,
        [GaussianPart(rounded_up(l2), cells, share) for l2, cells, share in limits.values()],
    )
    return {
        label: (GaussianEvent(rounded_up(l2), sigma2, cells), cells, units[label])
        for (label, (l2, cells, _)), sigma2 in zip(limits.items(), found.sigma2, strict=True)
    }
