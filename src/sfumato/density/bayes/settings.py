"""How `bayes` divides its budget and bounds users: public functions of public facts.

x = expected users times mu (the sharpness of the whole budget) sets the regime: a strong
signal carries heavier contributions, a weak one is better served by tight bounds. The
constants were found on synthetic weeks of 168 hourly slots with 13.55 visits a user; other
periods and slot lengths scale them by the visits a user can be expected to make. Call records
are assumed; who publishes signalling or satellite fixes, where a person is seen in most hours,
says so with the parameter `visits`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.density.parameters import number
from sfumato.density.scheme import PublicFacts
from sfumato.model.errors import UsageError
from sfumato.privacy.accounting import gaussian_mu

WEEKLY_VISITS = 13.55
"""Visits of an average user in a week of hourly slots (Acs & Castelluccia 2014)."""
SLOT_SHARE = 0.04
TOTAL_SHARE = 0.01
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
        """Whether the small hours are too thin for maps of their own."""
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
            "--expected-users 2000000.",
        )
    mu = gaussian_mu(facts.epsilon, facts.delta)
    signal = facts.expected_users * mu
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
