"""Composition: the least epsilon that a list of privacy events supports, and by which method.

Several statements hold at the same time and the least epsilon is reported with its method:

* `pure`: the sum of pure epsilons, where every event has one (delta 0);
* `zcdp`: rho adds up, then the tight conversion;
* `gaussian`: the exact curve, where every event is Gaussian and the lattice is fine
  enough (see `accounting.gaussian`);
* `numerical`: one Gaussian and the pure events' dominating pairs, convolved.

An event's pure epsilon: Laplace l1/scale, bounded range its range, pure what it says,
Gaussian and concentrated none. Its rho: Gaussian l2^2/(2 sigma2); bounded range eta^2/8
(Dong, Durfee & Rogers 2020; Cesar & Rogers 2021); concentrated what it says; every other pure
epsilon^2/2 (Bun & Steinke 2016). A concentrated event leaves `zcdp` as the only statement.
Location noise is counted per metre and never together with the rest.

*Numerical composition.* All Gaussian events together are one continuous Gaussian pair of ratio mu
(`accounting.gaussian` says why, and what its variation tau costs). An epsilon-DP event is
dominated by randomised response at epsilon, whatever the mechanism (Kairouz, Oh & Viswanath
2015). Dominating pairs compose, adaptively too (Zhu, Dong & Wang 2022), and dp-accounting
convolves their privacy losses with every rounding upwards.

Each pure epsilon is first moved up to a multiple of the grid, which makes its randomised
response exact on the grid. The transforms behind the convolution work in double precision;
`ROUND_OFF` is set aside for them and no delta below `LEAST_DELTA` is answered.

*From zCDP to (epsilon, delta)*, by the tight conversion of Canonne, Kamath & Steinke (2020): a
rho-zCDP mechanism is (epsilon, delta)-DP for every alpha > 1 with

    delta = exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.

Solved for each of the three numbers, the formula holds for *every* alpha, so a minimiser that
stops early costs tightness and never soundness. With h(alpha) = (-log delta - log(alpha - 1) +
alpha log(1 - 1/alpha)) / (alpha - 1):

    epsilon = min over alpha of  alpha rho + h(alpha)
    rho     = max over alpha of  (epsilon - h(alpha)) / alpha.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sfumato.errors import UsageError
from sfumato.privacy.accounting.gaussian import discrete_epsilon, variation
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

LEAST_DELTA = 1e-9
"""Far above what the transforms' round-off could reach; smaller deltas get the other methods."""
ROUND_OFF = 1e-12
"""Taken off delta for the double-precision transforms."""
_GRID = 8000
"""Grid points up to the epsilon that is to be beaten."""
_MOST_GROUPS = 64
"""More distinct epsilons than this are not worth the transforms."""


@lru_cache(maxsize=256)
def numerical_epsilon(
    mu: float, tau: float, pure: tuple[float, ...], delta: float, beat: float
) -> float:
    """Epsilon at this delta of one Gaussian and sorted pure events, if less than `beat`.

    `beat` is what the other methods reached: it sets the grid. Infinite where there is
    nothing to gain.
    """
    groups = Counter(pure)
    if delta < LEAST_DELTA or not 0 < beat < 50 or len(groups) > _MOST_GROUPS:
        return math.inf
    left = delta - (1 + math.exp(beat)) * tau - ROUND_OFF
    if left <= 0:
        return math.inf
    # Loaded here because it takes a second and most questions never come this far.
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = beat / _GRID
    composed = pld.identity(value_discretization_interval=step)
    for epsilon, count in groups.items():
        steps = math.ceil(epsilon / step)
        moved = steps * step
        pair = pld.PrivacyLossDistribution.create_from_rounded_probability(
            {steps: 1 / (1 + math.exp(-moved)), -steps: 1 / (1 + math.exp(moved))}, 0.0, step
        )
        composed = composed.compose(pair.self_compose(count) if count > 1 else pair)
    if mu > 0:
        noise = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
        composed = composed.compose(noise)
    found = float(composed.get_epsilon_for_delta(left))
    return found * (1 + 1e-9) if found < beat else math.inf


_Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_SEARCH = np.linspace(-25.0, 45.0, 281)
"""Values of log(alpha - 1) that are tried before the best one is refined."""


def _least(curve: _Curve) -> float:
    """Smallest value of the curve over log(alpha - 1)."""
    tried = curve(_SEARCH)
    best = int(np.argmin(tried))
    low = _SEARCH[max(best - 1, 0)]
    high = _SEARCH[min(best + 1, _SEARCH.size - 1)]
    found = minimize_scalar(
        lambda x: float(curve(np.array([x]))[0]),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return min(float(found.fun), float(tried[best]))


def _spread(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log of (1 - 1/alpha)^alpha / (alpha - 1), where x = log(alpha - 1)."""
    excess = np.exp(x)
    return -(1.0 + excess) * np.log1p(1.0 / excess) - x


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The smallest delta that rho-zCDP implies at this epsilon."""
    _check(rho=rho, epsilon=epsilon)
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return 1.0

    def curve(x: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = np.exp(x)
        return np.minimum(excess * ((1.0 + excess) * rho - epsilon) + _spread(x), 1e300)

    return min(1.0, math.exp(min(0.0, _least(curve))))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The smallest epsilon that rho-zCDP implies at this delta."""
    _check(rho=rho, delta=delta)
    if rho == 0 or delta >= 1:
        return 0.0
    if math.isinf(rho) or delta == 0:
        return math.inf
    tail = -math.log(delta)
    found = _least(lambda x: (1.0 + np.exp(x)) * rho + (tail + _spread(x)) * np.exp(-x))
    return max(0.0, found)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose conversion stays within (epsilon, delta)."""
    _check(epsilon=epsilon, delta=delta)
    if math.isinf(epsilon) or delta >= 1:
        return math.inf
    if delta == 0:
        return 0.0
    tail = -math.log(delta)
    found = -_least(lambda x: ((tail + _spread(x)) * np.exp(-x) - epsilon) / (1.0 + np.exp(x)))
    rho = max(0.0, found)
    step = 2.0**-50
    while rho > 0 and zcdp_epsilon(rho, delta) > epsilon:
        rho, step = rho * (1 - step), min(2 * step, 0.5)
    return rho


def _check(rho: float = 0.0, epsilon: float = 0.0, delta: float = 0.0) -> None:
    if not (rho >= 0 and epsilon >= 0 and 0 <= delta <= 1):
        raise UsageError("rho and epsilon are not negative, and delta lies between 0 and 1.")


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
        raise UsageError("delta lies between 0 and 1.", remedy="Give for example `delta=1e-6`.")
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
