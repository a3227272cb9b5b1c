"""The filter: does a planned release keep every cap, and if not, what would?

The caps of linked data sets all bind, so the smallest does. The comparison has no slack: a
composition that is larger than a cap by any amount is refused.

One release alone is a plan fixed beforehand and is held against a cap by its own statement.
If that statement is the exact curve and passes the limit of rho, nothing fits beside it; if it
does not, every later choice is bound by rho and pure sums alone. Which case it is hangs on the
first release's plan, made before anything was seen, so both together are one valid filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sfumato.model.errors import BudgetRefused
from sfumato.privacy.accounting import total_rho
from sfumato.privacy.events import MetricEvent, PrivacyEvent
from sfumato.privacy.exact import exact
from sfumato.privacy.ledger.caps import Cap
from sfumato.privacy.ledger.records import Book, Claim
from sfumato.privacy.ledger.spending import compose, events_of, view_delta

Replan = Callable[[float], Sequence[PrivacyEvent]]
"""The measurements that the same release would take at another epsilon."""

_LEAST_EPSILON = 1e-4
_MOST_EPSILON = 64.0
MOST_RELEASES = 1000
"""Further ahead than this nobody plans, and counting would take long."""


def within(events: Sequence[PrivacyEvent], caps: Sequence[Cap], releases: int = 2) -> bool:
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


def largest_fit(
    spent: Sequence[PrivacyEvent], caps: Sequence[Cap], replan: Replan, releases: int = 1
) -> float:
    """The largest epsilon, to three figures and rounded down, at which the plan fits.

    `releases` is how many releases `replan` plans.
    """

    def fits(epsilon: float) -> bool:
        return within([*spent, *replan(epsilon)], caps, releases + bool(spent))

    low, high = _LEAST_EPSILON, _MOST_EPSILON
    if not fits(low):
        return 0.0
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    digits = 2 - math.floor(math.log10(low))
    return math.floor(low * 10.0**digits) / 10.0**digits


def how_many_more(
    spent: Sequence[PrivacyEvent],
    caps: Sequence[Cap],
    planned: Sequence[PrivacyEvent],
    most: int = MOST_RELEASES,
) -> int:
    """How often the planned release could still be made; counting stops at `most`."""

    def fits(times: int) -> bool:
        return within([*spent, *(list(planned) * times)], caps, times + bool(spent))

    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def check(book: Book, claim: Claim, replan: Replan | None) -> None:
    """Refuse a claim that would pass a cap, saying what is left and what would fit."""
    caps = book.caps_of(claim.dataset, claim.unit)
    charges = book.about(claim.dataset, claim.unit)
    spent = events_of(charges)
    planned = [event for _, event in claim.events]
    if within([*spent, *planned], caps, 1 + bool(spent)):
        return
    delta = view_delta(caps, claim.delta)
    so_far = compose(spent, delta, len(charges))
    asked = compose(planned, claim.delta)
    limits = [cap.rho for cap in caps if cap.rho is not None]
    left = max(min(limits) - (so_far.rho or 0.0), 0.0) if limits else None
    fit = largest_fit(spent, caps, replan) if replan is not None else None
    if fit is None:
        remedy = "Ask for less, or publish less often."
    elif fit > 0:
        remedy = f"At delta {claim.delta:g}, --epsilon {fit:.3g} would still fit."
    else:
        remedy = "Nothing worth having is left: no epsilon fits any more."
    raise BudgetRefused(
        f"The budget does not allow this release. The people of {claim.dataset!r} have borne "
        f"epsilon {so_far.epsilon:.4g} at delta {delta:g} so far; the cap for the unit "
        f"{claim.unit} is {'; '.join(map(str, caps))}; this release asks for epsilon "
        f"{asked.epsilon:.4g} at delta {claim.delta:g}.",
        remaining_rho=left,
        would_fit_epsilon=fit,
        remedy=f"{remedy} Nothing was charged.",
    )
