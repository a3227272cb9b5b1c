"""What has been spent, and whether a planned release keeps every cap.

*The spend* is epsilon as a view of the events in the ledger. Charges for `user-period` add up
over a person's whole life, releases of disjoint weeks too: a person may be in all of them. The
most that any one period bears, the largest epsilon over releases that cover one instant, is shown
beside it and binds nothing. Accounts of smaller units are the largest over their days or windows,
and every charge counts in all of them (`accounts`). Reservations count as soon as they are made,
and abandoned ones for ever: their noise may have been seen.

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

*The filter* says whether a planned release keeps every cap, and if not, what would. A release
counts in the accounts of all units that have a cap, as often as `nesting` says, and the caps of
linked data sets all bind. The comparison has no slack: a composition that is larger than a cap by
any amount is refused. Where an account is above its cap already (a ledger of the first version,
counted by the rule of today), nothing new is admitted.

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
from functools import lru_cache
from itertools import pairwise

from sfumato.errors import BudgetRefused, UsageError
from sfumato.privacy.accounting import (
    Method,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_epsilon,
)
from sfumato.privacy.events import (
    USER_PERIOD,
    GaussianEvent,
    MetricEvent,
    PrivacyEvent,
    Unit,
    UnitKind,
)
from sfumato.privacy.exact import decimal_up, exact
from sfumato.privacy.ledger.accounts import Account, Item, accounts_of, columns, unbounded
from sfumato.privacy.ledger.records import Book, Cap, Charge, Claim

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
class Loss:
    """What one step of a unit loses by everything released, at the worst place for it."""

    unit: Unit
    spend: Spend
    where: tuple[int, int] | None
    """The day, window or stretch of time that bears most; None for a person's whole record."""
    unbounded: int = 0
    """How many charges protect something smaller and say nothing about this unit."""
    whole: Spend | None = None
    """For `user-period`: with the charges for days and windows, for someone who is always there."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the people of a data set stand, for one unit, and for every other."""

    lifetime: Spend
    """The account of the unit, against which its caps are held."""
    worst: Spend
    worst_period: tuple[int, int] | None
    caps: tuple[Cap, ...]
    datasets: tuple[str, ...]
    losses: tuple[Loss, ...] = ()
    releases: int = 0
    """All charges about these people, for whatever unit and period."""


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
    epsilon, method = zcdp_epsilon(rho, delta), Method.ZCDP
    if pure is not None and decimal_up(pure) <= epsilon:
        epsilon, method = decimal_up(pure), Method.PURE
    return Spend(releases, rho, epsilon, delta, method.value)


def events_of(charges: Sequence[Charge]) -> list[PrivacyEvent]:
    """Every event of the releases, in the order of the ledger."""
    return [event for charge in charges for _, event in charge.claim.events]


def worst_period(
    periods: Sequence[tuple[int, int]], events: Sequence[Sequence[PrivacyEvent]], delta: float
) -> tuple[tuple[int, int] | None, Spend]:
    """The stretch of time about which most was released, by epsilon, and what it bears."""
    marks = sorted({instant for period in periods for instant in period})
    where, worst = None, compose([], delta, 0)
    seen: set[tuple[int, ...]] = set()
    for start, end in pairwise(marks):
        over = tuple(k for k, (a, b) in enumerate(periods) if a <= start and end <= b)
        if over in seen:
            continue
        seen.add(over)
        borne = compose([event for k in over for event in events[k]], delta, len(over))
        if over and (where is None or borne.epsilon > worst.epsilon):
            where, worst = (start, end), borne
    return where, worst


def view_delta(caps: Sequence[Cap], fallback: float) -> float:
    """The delta at which spends are shown: the smallest of the caps, else the release's own."""
    return min((cap.delta for cap in caps if cap.delta is not None), default=fallback)


def loss_of(unit: Unit, items: Sequence[Item], delta: float) -> Loss:
    """The account of a unit: the worst of all its days, windows or instants, by epsilon."""
    found: Loss | None = None
    for account in accounts_of(unit, items):
        missed = unbounded(account, items)
        for column in columns(account, items):
            spend = compose(column.events(account, items), delta, column.charges)
            if found is None or spend.epsilon > found.spend.epsilon:
                where = None if unit.kind is UnitKind.USER_PERIOD else column.where
                found = Loss(account.unit, spend, where, missed, _whole(account, items, delta))
    return Loss(unit, compose([], delta, 0), None) if found is None else found


def _whole(account: Account, items: Sequence[Item], delta: float) -> Spend | None:
    """A person's whole record, days and windows included, where there are any."""
    if account.unit.kind is not UnitKind.USER_PERIOD:
        return None
    if not any(i.unit.kind in (UnitKind.USER_DAY, UnitKind.W_EVENT) for i in items):
        return None
    (column,) = columns(account, items, whole=True)
    return compose(column.events(account, items), delta, column.charges)


def losses(book: Book, dataset: str, delta: float) -> tuple[Loss, ...]:
    """The loss per unit that results from everything charged about these people.

    For every unit with a cap or a charge, and always for a day and a single record: what is
    charged for a whole record is lost by its parts as well.
    """
    items = book.items(dataset)
    units = book.units_of(dataset)
    for kind in (UnitKind.USER_PERIOD, UnitKind.USER_DAY, UnitKind.EVENT):
        if not any(unit.kind is kind for unit in units):
            units.append(Unit(kind))
    return tuple(loss_of(unit, items, delta) for unit in units)


def standing(book: Book, dataset: str, unit: Unit, delta: float, accounting: int = 2) -> Standing:
    """The spend of the people of a data set as the book has it.

    Under accounting 1, by which reservations of the first version were admitted and are
    finished, the account of a unit is the sum of the charges that bear its name.
    """
    named = book.caps_of(dataset, unit)
    caps = [cap for _, cap in named]
    everything = book.about(dataset)
    # Location noise asks for no delta, but what it adds to may have one.
    known = min((c.claim.delta for c in everything if c.claim.delta > 0), default=0.0)
    shown = view_delta(caps, delta or known)
    charges = [c for c in everything if c.claim.unit.kind is unit.kind]
    group, per_unit = tuple(sorted(book.linked[dataset])), losses(book, dataset, shown)
    if accounting == 1:
        own = [c for c in charges if c.claim.unit == unit]
        caps = [cap for name, cap in named if name == unit]
        lifetime = compose(events_of(own), shown, len(own))
        periods = [charge.claim.period for charge in own]
        where, worst = worst_period(periods, [events_of([c]) for c in own], shown)
        return Standing(lifetime, worst, where, tuple(caps), group, per_unit, len(everything))
    if unit.kind is UnitKind.USER_PERIOD:
        lifetime = compose(events_of(charges), shown, len(charges))
        periods = [charge.claim.period for charge in charges]
        where, worst = worst_period(periods, [events_of([c]) for c in charges], shown)
        return Standing(lifetime, worst, where, tuple(caps), group, per_unit, len(everything))
    items = book.items(dataset)
    found = max(
        (loss_of(of, items, shown) for of in [name for name, _ in named] or [unit]),
        key=lambda loss: loss.spend.epsilon,
    )
    return Standing(
        found.spend, found.spend, found.where, tuple(caps), group, per_unit, len(everything)
    )


Replan = Callable[[float], Sequence[PrivacyEvent]]
"""The measurements that the same release would take at another epsilon."""

_LEAST_EPSILON = 1e-4
_MOST_EPSILON = 64.0
"""Between these the largest epsilon that still fits is looked for: a hint, which binds nothing."""
MOST_RELEASES = 1000
"""Further ahead than this nobody plans, and counting would take long."""


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
        return fits_caps(self.spent, [self.cap], self.releases)


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
            if not fits_caps([*limit.spent, *planned], [limit.cap], together):
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
    # The least epsilons ask for wider noise than there is on a fine lattice: begin above them.
    while (least := _planned(replan, low)) is None and low < high:
        low *= 2
    if least is None or not room.fits(least, releases):
        return 0.0
    # Limits that the release does not meet were looked at just now and do not change.
    room = replace(room, limits=tuple(limit for limit in room.limits if limit.n > 0))
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if room.fits(replan(middle), releases) else (low, middle)
    digits = 2 - math.floor(math.log10(low))
    return math.floor(low * 10.0**digits) / 10.0**digits


def _planned(replan: Replan, epsilon: float) -> Sequence[PrivacyEvent] | None:
    """The plan at this epsilon; none where its noise cannot be drawn."""
    try:
        return replan(epsilon)
    except UsageError:
        return None


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
            "be raised, on the record, with sfumato ledger init or `Ledger.set_cap`."
        )
    elif fit is None:
        remedy = "Ask for less, or publish less often."
    elif fit > 0:
        remedy = f"At delta {claim.delta:g}, `epsilon={fit:.3g}` would still fit."
    elif not math.isfinite(asked.epsilon) and delta == 0:
        remedy = (
            "The cap has delta 0, and this noise (Gaussian) has no finite epsilon at delta 0: no "
            f"such release ever fits. Give the cap for {limit.unit} a delta, on the record, with "
            "sfumato ledger init or `Ledger.set_cap`, or take a scheme without a delta."
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
