"""The filter: does a planned release keep every cap, and if not, what would?

A release counts in the accounts of all units that have a cap, as often as `nesting` says, and the
caps of linked data sets all bind. The comparison has no slack: a composition that is larger than
a cap by any amount is refused. Where an account is above its cap already (a ledger of the first
version, counted by the rule of today), nothing new is admitted.

One release alone is a plan fixed beforehand and is held against a cap by its own statement.
If that statement is the exact curve and passes the limit of rho, nothing fits beside it; if it
does not, every later choice is bound by rho and pure sums alone. Which case it is hangs on the
first release's plan, made before anything was seen, so both together are one valid filter. It is
one for every single day or window, hence for the account, which is the largest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sfumato.model.errors import BudgetRefused
from sfumato.privacy.accounting import total_rho
from sfumato.privacy.events import MetricEvent, PrivacyEvent
from sfumato.privacy.exact import exact
from sfumato.privacy.ledger.accounts import Item, accounts_of, columns
from sfumato.privacy.ledger.caps import Cap
from sfumato.privacy.ledger.records import Book, Claim
from sfumato.privacy.ledger.spending import compose, view_delta
from sfumato.privacy.units import USER_PERIOD, Unit

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


@dataclass(frozen=True, slots=True)
class Limit:
    """One cap at one day, window, instant or whole record: what is spent, and what comes."""

    cap: Cap
    unit: Unit
    spent: tuple[PrivacyEvent, ...]
    releases: int
    n: int
    """How often the new release counts here."""
    where: tuple[int, int] | None = None

    @property
    def kept(self) -> bool:
        """Whether the cap holds without the new release."""
        return within(self.spent, [self.cap], self.releases)


@dataclass(frozen=True, slots=True)
class Room:
    """What is left for one more release, under every cap of the people it is about."""

    item: Item
    limits: tuple[Limit, ...]

    @classmethod
    def under(cls, book: Book, claim: Claim) -> Room:
        """The room for a claim."""
        known, item = book.items(claim.dataset), claim.item()
        items, limits = [*known, item], []
        for unit, cap in book.caps_of(claim.dataset):
            for account in accounts_of(unit, items):
                for column in columns(account, items):
                    spent = [
                        event
                        for one, n in zip(known, column.counts, strict=False)
                        for event in one.counted(account.unit, n)
                    ]
                    n = column.counts[-1]
                    releases = column.charges - (n > 0)
                    limits.append(Limit(cap, account.unit, tuple(spent), releases, n, column.where))
        return cls(item, tuple(limits))

    @classmethod
    def at_once(cls, book: Book, dataset: str, unit: Unit) -> Room:
        """The room for releases of a unit that all meet the worst of its days or windows."""
        items, limits = book.items(dataset), []
        for name, cap in book.caps_of(dataset, unit):
            for account in accounts_of(name, items):
                found = columns(account, items)
                limits += [
                    Limit(cap, account.unit, tuple(c.events(account, items)), c.charges, 1)
                    for c in found
                ] or [Limit(cap, account.unit, (), 0, 1)]
        return cls(Item(unit, (0, 1), ()), tuple(limits))

    @classmethod
    def flat(cls, spent: Sequence[PrivacyEvent], caps: Sequence[Cap]) -> Room:
        """One account in which everything counts once."""
        limits = (Limit(cap, USER_PERIOD, tuple(spent), int(bool(spent)), 1) for cap in caps)
        return cls(Item(USER_PERIOD, (0, 1), ()), tuple(limits))

    def passed(self, events: Sequence[PrivacyEvent], releases: int = 1) -> Limit | None:
        """The first limit that releases with these events would pass."""
        sums = self.item.sums if len(self.item.sums) == len(events) else ()
        item = replace(self.item, events=tuple(events), sums=sums)
        for limit in self.limits:
            planned = item.counted(limit.unit, limit.n)
            together = limit.releases + (releases if limit.n > 0 else 0)
            if not within([*limit.spent, *planned], [limit.cap], together):
                return limit
        return None

    def fits(self, events: Sequence[PrivacyEvent], releases: int = 1) -> bool:
        """Whether releases with these events keep every cap."""
        return self.passed(events, releases) is None


def largest_fit(room: Room, replan: Replan, releases: int = 1) -> float:
    """The largest epsilon, to three figures and rounded down, at which the plan fits.

    `releases` is how many releases `replan` plans.
    """
    low, high = _LEAST_EPSILON, _MOST_EPSILON
    if not room.fits(replan(low), releases):
        return 0.0
    # Limits that the release does not meet were looked at just now and do not change.
    room = replace(room, limits=tuple(limit for limit in room.limits if limit.n > 0))
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if room.fits(replan(middle), releases) else (low, middle)
    digits = 2 - math.floor(math.log10(low))
    return math.floor(low * 10.0**digits) / 10.0**digits


def how_many_more(room: Room, planned: Sequence[PrivacyEvent], most: int = MOST_RELEASES) -> int:
    """How often the planned release could still be made; counting stops at `most`."""
    low, high = 0, 1
    while high <= most and room.fits(list(planned) * high, high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        fits = room.fits(list(planned) * middle, middle)
        low, high = (middle, high) if fits else (low, middle)
    return low


def check(book: Book, claim: Claim, replan: Replan | None) -> None:
    """Refuse a claim that would pass a cap, saying what is left and what would fit."""
    room = Room.under(book, claim)
    planned = [event for _, event in claim.events]
    limit = room.passed(planned)
    if limit is None:
        return
    delta = view_delta([limit.cap], claim.delta)
    so_far = compose(limit.spent, delta, limit.releases)
    counted = replace(room.item, events=tuple(planned)).counted(limit.unit, limit.n)
    asked = compose(counted, delta)
    left = None
    if limit.cap.rho is not None:
        left = max(limit.cap.rho - (so_far.rho or 0.0), 0.0)
    fit = largest_fit(room, replan) if replan is not None else None
    if not limit.kept:
        remedy = (
            "What was charged before passes this cap by the way charges are counted now: see "
            "sfumato ledger show. What is reserved can be finished; for anything new the cap must "
            "be raised, on the record, with sfumato ledger init --replace-cap."
        )
    elif fit is None:
        remedy = "Ask for less, or publish less often."
    elif fit > 0:
        remedy = f"At delta {claim.delta:g}, --epsilon {fit:.3g} would still fit."
    elif not math.isfinite(asked.epsilon) and delta == 0:
        remedy = (
            "The cap has delta 0, and this noise (Gaussian) has no finite epsilon at delta 0: no "
            "such release ever fits. Give the cap a delta, on the record, with sfumato ledger init "
            f"--unit {limit.unit} --replace-cap --cap-delta, or take a scheme without a delta."
        )
    else:
        remedy = "Nothing worth having is left: no epsilon fits any more."
    times = "" if limit.n == 1 else f" (it is charged for {claim.unit} and counts {limit.n} times)"
    raise BudgetRefused(
        f"The budget does not allow this release. The people of {claim.dataset!r} have borne "
        f"epsilon {so_far.epsilon:.4g} at delta {delta:g} so far; the cap for the unit "
        f"{limit.unit} is {limit.cap}; this release asks for epsilon {asked.epsilon:.4g} at delta "
        f"{delta:g}{times}.",
        remaining_rho=left,
        would_fit_epsilon=fit,
        remedy=f"{remedy} Nothing was charged.",
    )
