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
linked data sets all bind. What is charged for an analyst must also keep the allowance of that one,
reckoned alike over the charges of that one alone. Allowances come first, so that a refusal which
one's own spending explains says nothing of what others spent. The comparison has no slack: a
composition that is larger than a cap by any amount is refused. Where an account is above its cap
already (it was lowered since), nothing new is admitted.

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

import numpy as np

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.rounding import rounded_up
from sfumato.privacy.events import (
    USER_PERIOD,
    PrivacyEvent,
    Unit,
    UnitKind,
)
from sfumato.privacy.ledger.accounts import Account, Item, View, accounts_of
from sfumato.privacy.ledger.claims import Cap, Claim
from sfumato.privacy.ledger.nesting import Ints
from sfumato.privacy.ledger.records import Book, Charge
from sfumato.privacy.ledger.tally import CHARGES, Columns, Tally, tally_of
from sfumato.privacy.ledger.totals import Spend, Totals, compose
from sfumato.privacy.ledger.worst import Choice


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
    by_rules: int = 0
    """Publications by rules about them, which no account counts."""


def events_of(charges: Sequence[Charge]) -> list[PrivacyEvent]:
    """Every event of the releases, in the order of the ledger."""
    return [event for charge in charges for _, event in charge.claim.events]


def worst_period(tally: Tally, delta: float) -> tuple[tuple[int, int] | None, Spend]:
    """The stretch of time about which most was released, by epsilon, and what it bears."""
    columns = tally.columns(_PERIODS)
    covered = np.flatnonzero(columns.small[:, CHARGES])
    borne = columns.taken(covered, columns.begin[covered], columns.end[covered])
    found = Choice(tally, _PERIODS, borne).worst(delta, earliest=True)
    if found is None:
        return None, compose([], delta, 0)
    k, spend = found
    return (int(borne.begin[k]), int(borne.end[k])), spend


_PERIODS = Account(USER_PERIOD, view=View.PERIOD)
_WHOLE = Account(USER_PERIOD, view=View.WHOLE)


def view_delta(caps: Sequence[Cap], fallback: float) -> float:
    """The delta at which spends are shown: the smallest of the caps, else the release's own."""
    return min((cap.delta for cap in caps if cap.delta is not None), default=fallback)


def loss_of(unit: Unit, tally: Tally, delta: float) -> Loss:
    """The account of a unit: the worst of all its days, windows or instants, by epsilon."""
    found: Loss | None = None
    for account in accounts_of(unit, tally.kinds.values()):
        columns = tally.columns(account)
        worst = Choice(tally, account, columns).worst(delta)
        if worst is None:
            continue
        k, spend = worst
        if found is None or spend.epsilon > found.spend.epsilon:
            where = (int(columns.begin[k]), int(columns.end[k]))
            whole = unit.kind is UnitKind.USER_PERIOD
            found = Loss(
                account.unit,
                spend,
                None if whole or unit.kind is UnitKind.TRAJECTORY else where,
                tally.unbounded(account),
                _whole(tally, delta) if whole else None,
            )
    return Loss(unit, compose([], delta, 0), None) if found is None else found


def _whole(tally: Tally, delta: float) -> Spend | None:
    """A person's whole record, days and windows included, where there are any."""
    if not any(u.kind in (UnitKind.USER_DAY, UnitKind.W_EVENT) for u in tally.periods):
        return None
    return tally.totals(_WHOLE, tally.columns(_WHOLE), 0).spend(delta)


def losses(book: Book, dataset: str, delta: float) -> tuple[Loss, ...]:
    """The loss per unit that results from everything charged about these people.

    For every unit with a cap or a charge, and always for a day and a single record: what is
    charged for a whole record is lost by its parts as well.
    """
    tally = tally_of(book, dataset)
    units = units_of(book, dataset)
    for kind in (UnitKind.USER_PERIOD, UnitKind.USER_DAY, UnitKind.EVENT):
        if not any(unit.kind is kind for unit in units):
            units.append(Unit(kind))
    return tuple(loss_of(unit, tally, delta) for unit in units)


def units_of(book: Book, dataset: str) -> list[Unit]:
    """Units with a cap or a charge, in a fixed order."""
    found = {str(unit): unit for unit, _ in book.caps_of(dataset)}
    for unit in tally_of(book, dataset).periods:
        # Where a cap names the kind, its accounts hold the charge; a name of its own is not
        # needed then.
        if not any(known.kind is unit.kind for known in found.values()):
            found[str(unit)] = unit
    return [found[name] for name in sorted(found)]


def standing(book: Book, dataset: str, unit: Unit, delta: float) -> Standing:
    """The spend of the people of a data set as the book has it."""
    named, tally = book.caps_of(dataset, unit), tally_of(book, dataset)
    caps = [cap for _, cap in named]
    # Location noise asks for no delta, but what it adds to may have one.
    shown = view_delta(caps, delta or tally.least_delta)
    group, per_unit = tuple(sorted(book.linked[dataset])), losses(book, dataset, shown)
    if unit.kind is UnitKind.USER_PERIOD:
        (lifetime, worst, where) = _records(tally, shown)
    else:
        found = max(
            (loss_of(of, tally, shown) for of in [name for name, _ in named] or [unit]),
            key=lambda loss: loss.spend.epsilon,
        )
        lifetime, worst, where = found.spend, found.spend, found.where
    known = (tuple(caps), group, per_unit, len(tally), len(book.rules_about(dataset)))
    return Standing(lifetime, worst, where, *known)


def _records(tally: Tally, delta: float) -> tuple[Spend, Spend, tuple[int, int] | None]:
    """Charges for whole records: over a life, and in the worst period."""
    account = Account(USER_PERIOD)
    lifetime = tally.totals(account, tally.columns(account), 0).spend(delta)
    where, worst = worst_period(tally, delta)
    return lifetime, worst, where


Replan = Callable[[float], Sequence[PrivacyEvent]]
"""The measurements that the same release would take at another epsilon."""

_LEAST_EPSILON = 1e-4
_MOST_EPSILON = 64.0
"""Between these the largest epsilon that still fits is looked for: a hint, which binds nothing."""
MOST_RELEASES = 1000
"""Further ahead than this nobody plans, and counting would take long."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One cap at one day, window, instant or whole record: what is spent, and what comes."""

    cap: Cap
    unit: Unit
    spent: Totals
    n: int
    """How often the new release counts here."""
    where: tuple[int, int] | None = None
    analyst: str | None = None
    """Whose allowance it is; None for a cap over everybody."""

    @property
    def kept(self) -> bool:
        """Whether the cap holds without the new release."""
        return self.spent.fits(self.cap)


@dataclass(frozen=True, slots=True)
class Room:
    """What is left for one more release, under every cap of the people it is about."""

    item: Item
    limits: tuple[Limit, ...]

    @classmethod
    def under(cls, book: Book, claim: Claim) -> Room:
        """The room for a claim: first under the allowance of its analyst, then under the caps."""
        item, limits = claim.item(), []
        of: list[tuple[str | None, list[tuple[Unit, Cap]]]] = [(None, book.caps_of(claim.dataset))]
        if claim.analyst is not None:
            own = book.allowances_of(claim.dataset, claim.analyst)
            of.insert(0, (claim.analyst, own))
        for analyst, caps in of:
            if not caps:
                continue
            tally = tally_of(book, claim.dataset, analyst)
            kinds = [*tally.kinds.values(), item]
            for unit, cap in caps:
                for account in accounts_of(unit, kinds):
                    columns, row = tally.ahead(account, item)
                    limits += _binding(tally, account, cap, columns, row, analyst)
        return cls(item, tuple(limits))

    @classmethod
    def at_once(cls, book: Book, dataset: str, unit: Unit) -> Room:
        """The room for releases of a unit that all meet the worst of its days or windows."""
        tally, limits = tally_of(book, dataset), []
        for name, cap in book.caps_of(dataset, unit):
            for account in accounts_of(name, tally.kinds.values()):
                columns = tally.columns(account)
                once = np.ones(columns.begin.size, np.int64)
                limits += _binding(tally, account, cap, columns, once) or [
                    Limit(cap, account.unit, Totals.of((), 0), 1)
                ]
        return cls(Item(unit, (0, 1), ()), tuple(limits))

    @classmethod
    def flat(cls, spent: Sequence[PrivacyEvent], caps: Sequence[Cap]) -> Room:
        """One account in which everything counts once."""
        totals = Totals.of(tuple(spent), int(bool(spent)))
        limits = (Limit(cap, USER_PERIOD, totals, 1) for cap in caps)
        return cls(Item(USER_PERIOD, (0, 1), ()), tuple(limits))

    def passed(self, events: Sequence[PrivacyEvent], releases: int = 1) -> Limit | None:
        """The first limit that releases with these events would pass."""
        sums = self.item.sums if len(self.item.sums) == len(events) else ()
        item = replace(self.item, events=tuple(events), sums=sums)
        for limit in self.limits:
            planned = item.counted(limit.unit, limit.n)
            together = limit.spent.plus(planned, releases if limit.n > 0 else 0)
            if not together.fits(limit.cap):
                return limit
        return None

    def fits(self, events: Sequence[PrivacyEvent], releases: int = 1) -> bool:
        """Whether releases with these events keep every cap."""
        return self.passed(events, releases) is None


def _binding(
    tally: Tally,
    account: Account,
    cap: Cap,
    columns: Columns,
    row: Ints,
    analyst: str | None = None,
) -> list[Limit]:
    """The cap at every day, window or instant at which it may be passed."""
    choice = Choice(tally, account, columns)
    return [
        Limit(
            cap,
            account.unit,
            choice.totals(k),
            int(row[k]),
            (int(columns.begin[k]), int(columns.end[k])),
            analyst,
        )
        for k in choice.binding(cap, row)
    ]


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


def _allowed(book: Book, claim: Claim) -> None:
    """Refuse an analyst who has no allowance where somebody has one: a fact of the ledger alone.

    The allowance must be for the claim's kind of unit, as a cap must: accounts of other units may
    leave the charge out.
    """
    who = claim.analyst
    if who is None or not book.has_allowances(claim.dataset):
        return
    if not book.allowances_of(claim.dataset, who, claim.unit):
        raise BudgetRefused(
            f"The analyst {who!r} has no allowance for the unit {claim.unit} about the people of "
            f"{claim.dataset!r}.",
            remedy="The holder gives one with sfumato ledger allow, or with "
            "`Ledger.set_allowance`. Nothing was charged.",
        )


def check(book: Book, claim: Claim, replan: Replan | None) -> None:
    """Refuse a claim that would pass an allowance or a cap: what is left, and what would fit."""
    _allowed(book, claim)
    room = Room.under(book, claim)
    planned = [event for _, event in claim.events]
    limit = room.passed(planned)
    if limit is None:
        return
    delta = view_delta([limit.cap], claim.delta)
    so_far = limit.spent.spend(delta)
    counted = replace(room.item, events=tuple(planned)).counted(limit.unit, limit.n)
    asked, both = compose(counted, delta), limit.spent.plus(counted, 1).spend(delta)
    left = None
    if limit.cap.rho is not None:
        left = max(limit.cap.rho - (so_far.rho or 0.0), 0.0)
    fit = largest_fit(room, replan) if replan is not None else None
    if not limit.kept and limit.analyst is not None:
        remedy = "More than that was charged before; the holder may raise the allowance."
    elif not limit.kept:
        remedy = (
            "What was charged before passes this cap by the way charges are counted now: see "
            "sfumato ledger show. What is reserved can be finished; for anything new the cap must "
            "be raised, on the record, with sfumato ledger init or `Ledger.set_cap`."
        )
    elif fit is None:
        remedy = "Ask for less, or less often."
    elif fit > 0 and claim.config.get("kind") == "question":
        want = f'{{"epsilon": {fit:.3g}}}'
        remedy = f"With {want} in its `want` it would still fit, at delta {claim.delta:g}."
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
    more = ""
    if math.isfinite(both.epsilon) and both.epsilon > 1.001 * (so_far.epsilon + asked.epsilon):
        more = ", more than the sum of both, since they are added up in rho"
    kind = claim.config.get("kind", "release")  # or question, batch, session
    whose, what = f"Releases about {claim.dataset!r} come to", "cap"
    if limit.analyst is not None:
        whose, what = f"For {limit.analyst!r} the people of {claim.dataset!r} have", "allowance"
        whose += " borne"
    raise BudgetRefused(
        f"The budget does not allow this {kind}. {whose} "
        f"epsilon {rounded_up(so_far.epsilon, 4)} at delta {delta:g} so far; the {what} for "
        f"the unit "
        f"{limit.unit} is {limit.cap}; it asks for epsilon {rounded_up(asked.epsilon, 4)} at delta "
        f"{delta:g}{times}. Together that is epsilon {rounded_up(both.epsilon, 4)}{more}.",
        remaining_rho=left,
        would_fit_epsilon=fit,
        remedy=f"{remedy} Nothing was charged.",
    )
