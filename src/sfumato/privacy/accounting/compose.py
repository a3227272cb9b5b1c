"""What a list of privacy events amounts to: always the smallest valid answer, and whose it is.

Several statements hold at the same time and the least epsilon is reported with its method:

* `pure`: the sum of pure epsilons, where every event has one (delta 0);
* `zcdp`: rho adds up, then the tight conversion;
* `gaussian`: the exact curve, where every event is Gaussian and the lattice is fine
  enough (see `discrete`);
* `numerical`: one Gaussian and the pure events' dominating pairs, convolved.

An event's pure epsilon: Laplace l1/scale, bounded range its range, pure what it says,
Gaussian and concentrated none. Its rho: Gaussian l2^2/(2 sigma2); bounded range eta^2/8
(Dong, Durfee & Rogers 2020; Cesar & Rogers 2021); concentrated what it says; every other pure
epsilon^2/2 (Bun & Steinke 2016). A concentrated event leaves `zcdp` as the only statement.
Location noise is counted per metre and never together with the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from sfumato.model.errors import UsageError
from sfumato.privacy.accounting.discrete import discrete_epsilon, variation
from sfumato.privacy.accounting.numerical import numerical_epsilon
from sfumato.privacy.accounting.zcdp import zcdp_epsilon
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
)
from sfumato.privacy.exact import decimal_up, exact, total


class Method(StrEnum):
    """Which theorem an epsilon rests on."""

    NOTHING = "nothing"
    """No event: no loss."""
    PURE = "pure"
    ZCDP = "zcdp"
    GAUSSIAN = "gaussian"
    NUMERICAL = "numerical"
    UNBOUNDED = "unbounded"
    """No finite epsilon exists, as for Gaussian noise at delta 0."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(epsilon, delta)-DP by `method`; `rho` is the zCDP statement that holds beside it."""

    epsilon: float
    delta: float
    rho: float | None
    method: Method


def event_epsilon(event: PrivacyEvent) -> Fraction | None:
    """The pure epsilon of one event, exactly, or None where it has none."""
    match event:
        case LaplaceEvent():
            return exact(event.l1) / event.scale
        case BoundedRangeEvent():
            return exact(event.range)
        case PureEvent():
            return exact(event.epsilon)
        case GaussianEvent() | ConcentratedEvent():
            return None
        case MetricEvent():
            raise _metric()


def event_rho(event: PrivacyEvent) -> Fraction:
    """The zCDP loss of one event, exactly."""
    match event:
        case GaussianEvent():
            return exact(event.l2) ** 2 / (2 * event.sigma2)
        case BoundedRangeEvent():
            return exact(event.range) ** 2 / 8
        case ConcentratedEvent():
            return exact(event.rho)
        case LaplaceEvent() | PureEvent():
            epsilon = event_epsilon(event)
            assert epsilon is not None
            return epsilon**2 / 2
        case MetricEvent():
            raise _metric()


def total_rho(events: Iterable[PrivacyEvent]) -> Fraction:
    """The zCDP loss of all events together, exactly."""
    return total(event_rho(event) for event in events)


def total_epsilon(events: Iterable[PrivacyEvent]) -> Fraction | None:
    """The pure epsilon of all events together, exactly, or None where one has none."""
    epsilons = [event_epsilon(event) for event in events]
    known = [epsilon for epsilon in epsilons if epsilon is not None]
    return total(known) if len(known) == len(epsilons) else None


def total_per_metre(events: Iterable[PrivacyEvent]) -> Fraction:
    """The loss per metre of location releases: every release of a place adds up."""
    losses = []
    for event in events:
        if not isinstance(event, MetricEvent):
            raise _metric()
        losses.append(exact(event.epsilon_per_metre))
    return total(losses)


def guarantee(events: Iterable[PrivacyEvent], delta: float) -> Guarantee:
    """The smallest epsilon that may be claimed for all events together at this delta.

    The events' parameters are taken to be fixed beforehand; their queries may depend on
    earlier answers. Where parameters depend on answers too, as over the life of a ledger,
    decide first which statement is kept: sums of pure epsilons and of rho are valid filters
    (Feldman & Zrnic 2021; Whitehouse et al. 2023), the exact curve is one for Gaussian noise
    alone (Smith & Thakurta 2022), and the numerical composition is none.
    """
    if not 0 <= delta < 1:
        raise UsageError("delta lies between 0 and 1.", remedy="Give for example --delta 1e-6.")
    listed = list(events)
    if not listed:
        return Guarantee(0.0, delta, 0.0, Method.NOTHING)
    rho = decimal_up(total_rho(listed))
    answers = {Method.UNBOUNDED: math.inf, Method.ZCDP: zcdp_epsilon(rho, delta)}
    pure_sum = total_epsilon(listed)
    if pure_sum is not None:
        answers[Method.PURE] = decimal_up(pure_sum)
    if delta > 0:
        _curves(listed, delta, answers)
    # Where two are equal the plainer theorem is named.
    best = min((method for method in Method if method in answers), key=lambda m: answers[m])
    if math.isinf(answers[best]):
        best = Method.UNBOUNDED
    return Guarantee(answers[best], delta, rho, best)


def _curves(listed: list[PrivacyEvent], delta: float, answers: dict[Method, float]) -> None:
    """Adds what the exact curve and the numerical composition say.

    Neither knows what to do with an event of which only rho is known.
    """
    if any(isinstance(event, ConcentratedEvent) for event in listed):
        return
    gaussians = [event for event in listed if isinstance(event, GaussianEvent)]
    mu = math.sqrt(2 * decimal_up(total_rho(gaussians))) * (1 + 1e-15)
    tau = math.fsum(variation(event.sigma2, event.touched) for event in gaussians)
    if len(gaussians) == len(listed):
        answers[Method.GAUSSIAN] = discrete_epsilon(mu, delta, tau)
        return
    if len(listed) > 1:
        pure = sorted(decimal_up(loss) for loss in map(event_epsilon, listed) if loss is not None)
        beat = min(answers.values())
        answers[Method.NUMERICAL] = numerical_epsilon(mu, tau, tuple(pure), delta, beat)


def _metric() -> UsageError:
    return UsageError(
        "Location noise is counted per metre and cannot be added to other losses.",
        remedy="Account for it under the unit 'point'.",
    )
