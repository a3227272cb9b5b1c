"""What charges amount to together: as a list of events, or as sums that are kept ready.

`compose` takes the events themselves. `Totals` is the same statement for sums that were added up
one charge after another: rho and pure epsilon in *grains* of 1e-64, each loss rounded down to whole
grains, and the number of losses that were. A sum of decimals is then exact, and any other is known
to lie within `slack` grains above. Where a decision or the last digit of a figure hangs on what
lies between, the events are fetched and added up exactly: so a sum that is kept ready decides as
`compose` and `fits_caps` do, neither more nor less strictly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.privacy.accounting import (
    Method,
    event_epsilon,
    event_rho,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_epsilon,
    zcdp_rho,
)
from sfumato.privacy.events import GaussianEvent, MetricEvent, PrivacyEvent
from sfumato.privacy.exact import decimal_up, exact
from sfumato.privacy.ledger.claims import Cap

PER_METRE = "per metre"
"""Method of location noise: its epsilon is per metre, and there is no rho."""
GRAIN = 10**64
"""Grains in one: far below the last digit of any sum of doubles that is worth a cap."""


@dataclass(frozen=True, slots=True)
class Spend:
    """The composition of some releases: rho, and epsilon at a delta by the named method."""

    releases: int
    rho: float | None
    epsilon: float
    delta: float
    method: str


def compose(events: Sequence[PrivacyEvent], delta: float, releases: int = 1) -> Spend:
    """The smallest statement about all events together.

    Events of several releases may have been chosen in the light of each other's answers;
    those of one release are fixed beforehand.
    """
    return _composed(tuple(events), delta, releases)


@lru_cache(maxsize=4096)  # days of one account often bear the same charges
def _composed(events: tuple[PrivacyEvent, ...], delta: float, releases: int) -> Spend:
    if events and all(isinstance(event, MetricEvent) for event in events):
        return Spend(releases, None, decimal_up(total_per_metre(events)), delta, PER_METRE)
    if releases <= 1 and all(isinstance(event, GaussianEvent) for event in events):
        found = guarantee(events, delta)
        return Spend(releases, found.rho, found.epsilon, delta, found.method.value)
    rho, pure = decimal_up(total_rho(events)), total_epsilon(events)
    return _smaller(rho, None if pure is None else decimal_up(pure), delta, releases)


def _smaller(rho: float, pure: float | None, delta: float, releases: int) -> Spend:
    """The smaller of what rho and what the pure epsilon say."""
    epsilon, method = epsilon_of_rho(rho, delta), Method.ZCDP
    if pure is not None and pure <= epsilon:
        epsilon, method = pure, Method.PURE
    return Spend(releases, rho, epsilon, delta, method.value)


epsilon_of_rho = lru_cache(maxsize=4096)(zcdp_epsilon)
"""The conversion, remembered: most accounts are as they were at the last question."""


def fits_caps(events: Sequence[PrivacyEvent], caps: Sequence[Cap], releases: int = 2) -> bool:
    """Whether the composition of the events keeps every cap.

    `releases` is 1 where all events belong to one release, fixed before its first answer; any
    larger number stands for several.
    """
    for cap in caps:
        if cap.rho is not None and (
            any(isinstance(event, MetricEvent) for event in events)
            or total_rho(events) > exact(cap.rho)
        ):
            return False
        if (
            cap.epsilon is not None
            and cap.delta is not None
            and not compose(events, cap.delta, releases).epsilon <= cap.epsilon
        ):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Sum:
    """Losses in grains, rounded down, and how many of them were; what kinds of events they are."""

    rho: int = 0
    pure: int = 0
    rho_slack: int = 0
    pure_slack: int = 0
    impure: int = 0
    """Events without a pure epsilon."""
    other: int = 0
    """Events that are not Gaussian noise."""
    metric: int = 0
    """Events that are composed and not summed: location noise, which is counted per metre and added
    to nothing else."""

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.rho + other.rho,
            self.pure + other.pure,
            self.rho_slack + other.rho_slack,
            self.pure_slack + other.pure_slack,
            self.impure + other.impure,
            self.other + other.other,
            self.metric + other.metric,
        )


def sum_of(events: Sequence[PrivacyEvent]) -> Sum:
    """The sum of the events."""
    found = Sum()
    for event in events:
        found = found + _one(event)
    return found


@lru_cache(maxsize=16384)
def _one(event: PrivacyEvent) -> Sum:
    if isinstance(event, MetricEvent):
        return Sum(other=1, metric=1)
    rho, rho_slack = _grains(event_rho(event))
    epsilon = event_epsilon(event)
    pure, pure_slack = (0, 0) if epsilon is None else _grains(epsilon)
    gaussian = isinstance(event, GaussianEvent)
    return Sum(rho, pure, rho_slack, pure_slack, int(epsilon is None), int(not gaussian))


def _grains(loss: Fraction) -> tuple[int, int]:
    """Whole grains, rounded down, and whether anything was lost by that."""
    whole, rest = divmod(loss.numerator * GRAIN, loss.denominator)
    return whole, int(rest > 0)


@dataclass(frozen=True, slots=True)
class Totals:
    """Some releases, added up; `events` fetches all they hold."""

    sum: Sum
    releases: int
    events: Callable[[], Sequence[PrivacyEvent]]

    @classmethod
    def of(cls, events: Sequence[PrivacyEvent], releases: int) -> Totals:
        return cls(sum_of(events), releases, lambda: events)

    def plus(self, planned: Sequence[PrivacyEvent], releases: int) -> Totals:
        """With more releases that hold these events."""
        together = self.sum + sum_of(planned)
        return Totals(together, self.releases + releases, lambda: [*self.events(), *planned])

    def spend(self, delta: float) -> Spend:
        """What `compose` says of the events."""
        if not self._one_plan and not self.sum.metric:
            rho = _up(self.sum.rho, self.sum.rho_slack)
            pure = _up(self.sum.pure, self.sum.pure_slack)
            if rho is not None and pure is not None:
                return _smaller(rho, None if self.sum.impure else pure, delta, self.releases)
        return compose(self.events(), delta, self.releases)

    def fits(self, cap: Cap) -> bool:
        """What `fits_caps` says of the events."""
        if self.sum.metric or self._one_plan:
            return fits_caps(self.events(), [cap], self.releases)
        if cap.rho is not None:
            most = exact(cap.rho) * GRAIN
            if self.sum.rho > most:
                return False
            if self.sum.rho + self.sum.rho_slack > most:
                return fits_caps(self.events(), [cap], self.releases)
        if cap.epsilon is None or cap.delta is None:
            return True
        if self.sum.rho + self.sum.rho_slack <= _well_within(cap.epsilon, cap.delta):
            return True
        return self.spend(cap.delta).epsilon <= cap.epsilon

    @property
    def _one_plan(self) -> bool:
        """Whether the exact curve may be claimed: Gaussian noise, all of it in one release."""
        return self.releases <= 1 and self.sum.other == 0


@lru_cache(maxsize=1024)
def _well_within(epsilon: float, delta: float) -> int:
    """Grains of rho that convert to less than this, whatever the last digits of the conversion.

    A millionth below the largest such rho: its minimiser is exact to better than a billionth.
    """
    rho = zcdp_rho(epsilon, delta)
    return int(min(rho, 1e9) * (1 - 1e-6) * 2**40) * GRAIN >> 40


@lru_cache(maxsize=4096)
def _up(grains: int, slack: int) -> float | None:
    """The sum as `decimal_up` rounds it; None where that hangs on what was rounded off."""
    low = decimal_up(Fraction(grains, GRAIN))
    return None if slack and low != decimal_up(Fraction(grains + slack, GRAIN)) else low
