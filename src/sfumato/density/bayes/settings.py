"""How `bayes` divides its budget and bounds people: public functions of public facts.

x = expected users times mu (the sharpness of the whole budget) sets the regime. A strong signal
carries heavier contributions, a weak one is better served by tight bounds, and spends more on the
ladder, on which the level of everything hangs.

Limits are stated for people who make 13.55 visits in a week of hours, as in call records. How
active people are is read from the noisy ladder, and the limits are then fitted to it
(`Settings.fitted`): everybody's weight is multiplied by a factor before it is cut at the planned
limit (`WeightBound.most`), so that what is charged stays as it was planned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.density.common import number
from sfumato.density.scheme import PublicFacts
from sfumato.errors import UsageError
from sfumato.model.counts import WeightBound
from sfumato.privacy.accounting import gaussian_mu

WEEKLY_VISITS = 13.55
"""Visits of an average user in a week of hourly slots (Acs & Castelluccia 2014)."""
SLOT_SHARE, MOST_SLOT_SHARE, _WEAK_SLOTS = 0.04, 0.16, 2e4
"""Of the budget, to slot totals: in large cities, at most, and the signal from which on it falls to
the former. There with .02 or .08 the error changed by less than 1 % at epsilon 1
and 0.3, and by 2 to 8 % for the worse at 0.1 (docs/decisions/bayes.md, "Shares and limits")."""
LADDER_SHARE, MOST_LADDER_SHARE, _WEAK = 0.01, 0.30, 800.0
"""Of the budget, to the ladder: in large cities, at most, and the signal from which on it falls."""
_GRID = 4
"""Fitted limits lie on 2^(k / 4): numbers that differ in their last bit give the same limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one user's contribution, for people as active as the ladder says."""

    places: WeightBound
    slots: WeightBound
    matrix: WeightBound


@dataclass(frozen=True, slots=True)
class Settings:
    """Shares of the budget and planned limits of one user's contribution to each measurement."""

    signal: float
    """x: expected users times mu."""
    ladder_share: float
    place_share: float
    slot_share: float
    place_limit: float
    slot_limit: float
    matrix_limit: float

    @property
    def matrix_share(self) -> float:
        return round(1.0 - self.ladder_share - self.place_share - self.slot_share, 12)

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

    def fitted(self, visits: float) -> Limits:
        """The limits for people who make that many visits on average, as the ladder found."""
        ratio = visits / WEEKLY_VISITS
        return Limits(
            _bound(self.place_limit, max(1.0, self.place_limit * ratio**0.75)),
            _bound(self.slot_limit, max(1.0, self.slot_limit * math.sqrt(ratio))),
            _bound(self.matrix_limit, max(1.0, self.matrix_limit * math.sqrt(ratio))),
        )


def _bound(planned: float, wanted: float) -> WeightBound:
    """The planned limit, with weights up to the factor that makes it the wanted one."""
    step = round(_GRID * math.log2(planned / wanted))
    return WeightBound(planned, min(max(2.0 ** (step / _GRID), 2.0**-10), 2.0**10))


def effective(bound: WeightBound) -> float:
    """The limit where a light user counts one."""
    return bound.limit / bound.most


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
    signal = (facts.town or facts.expected_users) * gaussian_mu(facts.epsilon, facts.delta)
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
        share, places, slots, matrix = 0.30, 4.0, 4.0, 1.5
    ladder = MOST_LADDER_SHARE * min(1.0, (_WEAK / signal) ** 0.75)
    in_slots = SLOT_SHARE * max(1.0, (_WEAK_SLOTS / signal) ** 0.5)
    return Settings(
        signal=signal,
        ladder_share=round(max(ladder, LADDER_SHARE), 6),
        place_share=share,
        slot_share=round(min(in_slots, MOST_SLOT_SHARE), 6),
        place_limit=places,
        slot_limit=slots,
        matrix_limit=matrix,
    )
