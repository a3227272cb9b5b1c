"""Sums that are kept say what composing every charge anew says: figures, places and verdicts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.ledger import plain

from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.events import (
    USER_PERIOD,
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
    Unit,
    UnitKind,
)
from sfumato.privacy.ledger import Cap, Claim
from sfumato.privacy.ledger.accounts import Item, accounts_of
from sfumato.privacy.ledger.chain import Head, canonical
from sfumato.privacy.ledger.limits import Room, loss_of, worst_period
from sfumato.privacy.ledger.records import Book, Charge
from sfumato.privacy.ledger.tally import Tally, tally_of_items
from sfumato.privacy.ledger.totals import Totals, compose, fits_caps, sum_of

pytestmark = pytest.mark.privacy

HOUR = 3_600_000_000
DELTA = 1e-6
UNITS = (
    *("user-period", "user-period", "user-day@UTC", "user-day@Asia/Tokyo", "user-day"),
    *("w-event:24h/12h", "w-event:30h/6h", "w-event:48h/24h", "event", "point"),
)
ACCOUNTS = (
    *("user-period", "user-day", "user-day@Europe/Paris", "event", "point:200m"),
    *("w-event:36h", "w-event:36h/6h", "w-event:30h/6h"),
)
EVENTS: tuple[PrivacyEvent, ...] = (
    GaussianEvent(1.0, Fraction(512), 1),
    GaussianEvent(3.0, Fraction(10**7, 3), 7),
    GaussianEvent(1.0, Fraction(3, 2), 1),
    LaplaceEvent(1.0, Fraction(10)),
    LaplaceEvent(1.0, Fraction(7, 3)),
    BoundedRangeEvent(0.3),
    PureEvent(0.1, "test"),
    PureEvent(0.2, "test"),
    ConcentratedEvent(0.003, "test"),
)


@st.composite
def charges(draw: st.DrawFn) -> Item:
    unit = Unit.parse(draw(st.sampled_from(UNITS)))
    first = draw(st.integers(0, 20)) * 6
    hours = draw(st.sampled_from((6, 12, 24, 24, 72, 168)))
    period = ((first - 9) * HOUR, (first - 9 + hours) * HOUR)
    if unit.kind is UnitKind.POINT:
        return Item(unit, period, (MetricEvent(draw(st.sampled_from((0.001, 0.004))), "planar"),))
    events = tuple(draw(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=2)))
    sums = tuple(isinstance(e, GaussianEvent) and draw(st.booleans()) for e in events)
    return Item(unit, period, events, sums)


def one_by_one(items: list[Item], accounts: tuple[str, ...]) -> Tally:
    """Every account asked for before the first charge, then charge after charge."""
    tally = Tally()
    for item in items:
        for name in accounts:
            unit = Unit.parse(name)
            loss_of(unit, tally, DELTA)
        tally = tally.plus(item, DELTA)
    return tally


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.lists(charges(), min_size=1, max_size=7), st.sampled_from(ACCOUNTS))
def test_kept_sums_say_what_composing_every_column_says(items: list[Item], account: str) -> None:
    unit = Unit.parse(account)
    expected = plain.loss_of(unit, items, DELTA)
    for tally in (tally_of_items(items), one_by_one(items, (account,))):
        found = loss_of(unit, tally, DELTA)
        assert (found.unit, found.spend, found.where, found.whole) == expected


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.lists(charges(), min_size=1, max_size=9), st.sampled_from((DELTA, 0.0)))
def test_the_worst_period_is_that_of_trying_every_stretch(items: list[Item], delta: float) -> None:
    items = [item for item in items if item.unit == USER_PERIOD]
    expected = plain.worst_period([i.period for i in items], [i.events for i in items], delta)
    tally = Tally()
    for item in items:
        worst_period(tally, delta)
        tally = tally.plus(item, delta)
    assert worst_period(tally, delta) == expected
    assert worst_period(tally_of_items(items), delta) == expected


def book_of(items: list[Item], caps: dict[str, Cap]) -> Book:
    """A book in which these charges are reserved."""
    book = Book(caps={"city": caps}, linked={"city": frozenset({"city"})})
    for number, item in enumerate(items):
        claim = claim_of(item, f"release-{number}")
        book.charges[claim.name] = Charge(
            claim.name, canonical(claim.to_json()), "", Head(number + 1, "")
        )
    return book


def claim_of(item: Item, name: str) -> Claim:
    events = tuple((f"part-{k}", event) for k, event in enumerate(item.events))
    sums = tuple(f"part-{k}" for k, flag in enumerate(item.sums) if flag)
    return Claim("city", name, item.unit, DELTA, item.period, events, {}, "f", "/out", sums=sums)


CAPS = (
    *(Cap(epsilon=e, delta=DELTA) for e in (0.2, 0.4, 0.5, 1.0)),
    *(Cap(epsilon=e, delta=0.0) for e in (0.2, 0.6)),
    *(Cap(rho=r) for r in (1 / 512, 1 / 256, 0.02, 1 / 3)),
    Cap(epsilon=0.7, delta=1e-3, rho=0.01),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(charges(), max_size=5),
    charges(),
    st.dictionaries(st.sampled_from(ACCOUNTS), st.sampled_from(CAPS), min_size=1, max_size=2),
)
def test_a_release_is_admitted_just_where_composing_everything_keeps_every_cap(
    items: list[Item], new: Item, caps: dict[str, Cap]
) -> None:
    bound = [(Unit.parse(name), cap) for name, cap in caps.items()]
    expected = plain.fits([*items, new], bound)
    book = book_of(items, caps)
    room = Room.under(book, claim_of(new, "new"))
    assert room.fits(new.events) == expected
    growing = book_of([], caps)
    for row in book.charges.values():  # charge after charge, each weighed before it is added
        Room.under(growing, row.claim)
        growing.charges[row.id] = row
    assert Room.under(growing, claim_of(new, "new")).fits(new.events) == expected


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=12), st.integers(1, 3))
def test_sums_compose_and_compare_as_the_events_do(
    events: list[PrivacyEvent], releases: int
) -> None:
    found = Totals(sum_of(events), releases, lambda: events)
    for delta in (DELTA, 0.0):
        assert found.spend(delta) == compose(events, delta, releases)
    for cap in (*CAPS, Cap(rho=compose(events, DELTA, 2).rho)):
        assert found.fits(cap) == fits_caps(events, [cap], releases)


def test_a_sum_that_is_the_cap_exactly_fits_although_its_parts_are_rounded() -> None:
    """A third, three times: each is rounded down to whole grains, the sum is one."""
    third = GaussianEvent(1.0, Fraction(3, 2), 1)
    item = Item(USER_PERIOD, (0, HOUR), (third,))
    for cap, fits in ((Cap(rho=1.0), True), (Cap(rho=0.9999999999999999), False)):
        book = book_of([item, item], {"user-period": cap})
        assert Room.under(book, claim_of(item, "third")).fits([third]) == fits
    nothing = Totals(sum_of([third] * 3), 3, lambda: [third] * 3)
    assert nothing.spend(DELTA).rho == 1.0


def test_a_refused_charge_leaves_no_trace_in_the_sums() -> None:
    item = Item(USER_PERIOD, (0, 24 * HOUR), (EVENTS[0],))
    book = book_of([item], {"user-period": Cap(rho=1.0), "event": Cap(rho=1.0)})
    Room.under(book, claim_of(item, "first"))
    (before,) = book.tallies.values()
    (account,) = accounts_of(Unit(UnitKind.EVENT), [item])
    columns = before.columns(account)
    sums = columns.rho.tolist(), columns.small.tolist()
    Room.under(book, claim_of(replace(item, period=(HOUR, 30 * HOUR)), "other"))
    assert (columns.rho.tolist(), columns.small.tolist()) == sums
    assert before.columns(account) is columns


def test_a_cap_that_one_release_used_up_by_its_own_curve_is_kept_by_it() -> None:
    """Its rho would convert to more than the cap: it is judged by the curve, the second is not."""
    fine = GaussianEvent(3 * 65536.0, Fraction((13 * 3 * 65536) ** 2), 1000)
    cap = Cap(epsilon=compose([fine], DELTA).epsilon, delta=DELTA)
    item = Item(USER_PERIOD, (0, 24 * HOUR), (fine,))
    assert zcdp_rho(cap.epsilon or 0.0, DELTA) < (compose([fine], DELTA).rho or 0.0)
    book = book_of([item], {"event": cap})
    elsewhere = replace(item, period=(48 * HOUR, 72 * HOUR), unit=Unit(UnitKind.EVENT))
    counted_twice = Cap(
        epsilon=compose(item.counted(Unit(UnitKind.EVENT), 2), DELTA).epsilon, delta=DELTA
    )
    assert not Room.under(book, claim_of(elsewhere, "new")).fits([fine])
    book = book_of([item], {"event": counted_twice})
    assert Room.under(book, claim_of(elsewhere, "new")).fits([fine])
    assert not Room.under(book, claim_of(item, "same days")).fits([EVENTS[6]])


def test_a_cap_is_passed_by_the_smallest_excess() -> None:
    """Sums that are kept ready are compared as they are, not as they are printed."""
    each, cap = LaplaceEvent(l1=1.0, scale=Fraction(1000)), Cap(epsilon=1.0, delta=0.0)
    full = Totals.of([each] * 1000, 2)
    assert full.fits(cap)
    for little in (each, LaplaceEvent(l1=1.0, scale=Fraction(10**9))):
        more = full.plus([little], 1)
        assert not more.fits(cap)
        assert not fits_caps(more.events(), [cap])
