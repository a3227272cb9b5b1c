"""What has been spent: epsilon as a view of the events in the ledger.

Everything ever charged about the same people adds up over a person's whole life, releases
of disjoint weeks too: a person may be in all of them. The most that any one period bears,
the largest sum over releases that cover one instant, is shown beside it and binds nothing.
Reservations count as soon as they are made, and abandoned ones for ever: their noise may
have been seen.

Whoever plans a release may have seen the earlier ones. From the second release on, the
statements are therefore the sum of rho and the sum of pure epsilons (Feldman & Zrnic 2021;
Whitehouse et al. 2023), and the smaller may be taken. *Proof.* Let A be the outcomes on which
rho stays within the largest rho that converts to (epsilon, delta), and C the others, on which
the pure epsilons sum to at most epsilon. With L the loss of all outputs, the delta needed is
E[(1 - e^(epsilon - L))+]. On C it is L <= epsilon: nothing is added. On A the outputs are those
of a run that is stopped where rho would pass its limit, so that A adds at most what the
stopped run needs: delta. QED

The exact Gaussian curve is a filter by itself (Smith & Thakurta 2022) but not beside rho: a
person who may still choose, after a first answer, between the rest of the curve and the rest
of rho gets more than delta (docs/decisions/ledger.md has the figures). It is used for one
release alone, whose events are fixed before its first answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sfumato.privacy.accounting import (
    Method,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_epsilon,
)
from sfumato.privacy.events import GaussianEvent, MetricEvent, PrivacyEvent
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.ledger.caps import Cap
from sfumato.privacy.ledger.records import Book, Charge
from sfumato.privacy.units import Unit

PER_METRE = "per metre"
"""Method of location noise: its epsilon is per metre, and there is no rho."""


@dataclass(frozen=True, slots=True)
class Spend:
    """The composition of some releases: rho, and epsilon at a delta by the named method."""

    releases: int
    rho: float | None
    epsilon: float
    delta: float
    method: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the people of a data set stand, for one unit."""

    lifetime: Spend
    worst: Spend
    worst_period: tuple[int, int] | None
    caps: tuple[Cap, ...]
    datasets: tuple[str, ...]


def compose(events: Sequence[PrivacyEvent], delta: float, releases: int = 1) -> Spend:
    """The smallest statement about all events together.

    Events of several releases may have been chosen in the light of each other's answers;
    those of one release are fixed beforehand.
    """
    if events and all(isinstance(event, MetricEvent) for event in events):
        return Spend(releases, None, decimal_up(total_per_metre(events)), delta, PER_METRE)
    if releases <= 1 and all(isinstance(event, GaussianEvent) for event in events):
        found = guarantee(events, delta)
        return Spend(releases, found.rho, found.epsilon, delta, found.method.value)
    rho, pure = decimal_up(total_rho(events)), total_epsilon(events)
    epsilon, method = zcdp_epsilon(rho, delta), Method.ZCDP
    if pure is not None and decimal_up(pure) <= epsilon:
        epsilon, method = decimal_up(pure), Method.PURE
    return Spend(releases, rho, epsilon, delta, method.value)


def events_of(charges: Sequence[Charge]) -> list[PrivacyEvent]:
    """Every event of the releases, in the order of the ledger."""
    return [event for charge in charges for _, event in charge.claim.events]


def _weight(charge: Charge) -> float:
    events = events_of([charge])
    if all(isinstance(event, MetricEvent) for event in events):
        return decimal_up(total_per_metre(events))
    return decimal_up(total_rho(events))


def worst_period(charges: Sequence[Charge], delta: float) -> tuple[tuple[int, int] | None, Spend]:
    """The stretch of time about which most was released, by rho, and what it bears."""
    marks = sorted({instant for charge in charges for instant in charge.claim.period})
    weights = {charge.id: _weight(charge) for charge in charges}
    best: list[Charge] = []
    where: tuple[int, int] | None = None
    most = 0.0
    for start, end in pairwise(marks):
        covering = [c for c in charges if c.claim.period[0] <= start and end <= c.claim.period[1]]
        borne = sum(weights[charge.id] for charge in covering)
        if borne > most:
            most, best, where = borne, covering, (start, end)
    return where, compose(events_of(best), delta, len(best))


def view_delta(caps: Sequence[Cap], fallback: float) -> float:
    """The delta at which spends are shown: the smallest of the caps, else the release's own."""
    return min((cap.delta for cap in caps if cap.delta is not None), default=fallback)


def standing(book: Book, dataset: str, unit: Unit, delta: float) -> Standing:
    """The spend of the people of a data set as the book has it."""
    charges = book.about(dataset, unit)
    caps = book.caps_of(dataset, unit)
    shown = view_delta(caps, delta)
    where, worst = worst_period(charges, shown)
    lifetime = compose(events_of(charges), shown, len(charges))
    return Standing(lifetime, worst, where, tuple(caps), tuple(sorted(book.linked[dataset])))
