"""What a release will cost, from public facts alone: nothing is read and nothing is spent.

The cost is that of the planned measurements, composed as a ledger composes them, so that
"how many releases does a cap allow" has the answer that the ledger will give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.density.scheme import Plan, PublicFacts, Scheme
from sfumato.model.errors import UsageError
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger.spending import Spend, compose

_MOST_RELEASES = 1 << 12
"""Beyond that many nobody counts."""
YEAR_DAYS = 365.25


@dataclass(frozen=True, slots=True)
class Cost:
    """One release: what it spends and the noise on each number it measures, in counts."""

    spend: Spend
    noise: dict[str, float]
    released_sd: float
    lines: tuple[str, ...]


def cost(scheme: Scheme, facts: PublicFacts) -> Cost:
    """What `scheme` will be charged for one release."""
    plan = scheme.plan(facts)
    spend = compose(list(plan.events.values()), facts.delta, 1)
    noise = {planned.label: planned.sd for planned in plan.measurements if planned.sd > 0}
    return Cost(spend, noise, plan.sd, plan.lines)


def releases_within(plan: Plan, cap_epsilon: float, delta: float) -> int:
    """How many releases like this one a cap of `cap_epsilon` at `delta` bears in all.

    `_MOST_RELEASES` stands for that many or more.
    """
    if not cap_epsilon > 0:
        raise UsageError("A cap is a positive epsilon.", remedy="Try --cap-epsilon 2.")
    events = list(plan.events.values())

    def fits(times: int) -> bool:
        return _repeated(events, times, delta).epsilon <= cap_epsilon

    low, high = 0, 1
    while high <= _MOST_RELEASES and fits(high):
        low, high = high, 2 * high
    if low == _MOST_RELEASES:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def period_days(facts: PublicFacts) -> float:
    """Length of the period in days."""
    edges = facts.grid.edges
    return float(edges[-1] - edges[0]) / 86_400e6


def _repeated(events: Sequence[PrivacyEvent], times: int, delta: float) -> Spend:
    return compose(list(events) * times, delta, times)
