"""Contacts and reachability against literal simulations on small cases."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.utility.contacts import Contacts, Slot, find_contacts, gossip

NOON = 1_225_540_800


def people(rows: list[tuple[int, float, float, float]], users: int) -> Traces:
    """Rows (user, seconds, metres east, metres north) near the equator."""
    data = np.array(rows, float).reshape(-1, 4)
    order = np.lexsort((data[:, 1], data[:, 0]))
    data = data[order]
    per_degree = np.radians(1.0) * 6_371_008.8
    return Traces(
        np.array([f"u{i}" for i in range(users)], dtype=object),
        data[:, 0].astype(np.int64),
        np.zeros(len(data), np.int64),
        ((NOON + data[:, 1]) * MICROSECONDS).astype(np.int64),
        data[:, 2] / per_degree,
        data[:, 3] / per_degree,
        np.arange(len(data)),
    )


def test_any_two_fixes_of_a_slot_within_range() -> None:
    found = find_contacts(
        people(
            [
                (0, 0, 0, 0), (0, 4, 500, 0), (1, 1, 545, 0),  # second fix of 0 is near 1
                (2, 6, 545, 0),  # next slot: nobody
                (3, 0, 0, 60),  # 60 m from 0
            ],
            4,
        )
    )  # fmt: skip
    assert list(zip(found.one.tolist(), found.other.tolist(), strict=True)) == [(0, 1)]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 19), st.integers(-150, 150), st.integers(-150, 150)
        ),
        max_size=60,
    )
)
def test_contacts_equal_all_pairs(rows: list[tuple[int, float, float, float]]) -> None:
    traces = people(rows, 6)
    found = find_contacts(traces)
    expected = set()
    for a in range(len(traces)):
        for b in range(a):
            same = traces.time[a] // (5 * MICROSECONDS) == traces.time[b] // (5 * MICROSECONDS)
            dx = np.radians(traces.lon[a] - traces.lon[b]) * 6_371_008.8
            dy = np.radians(traces.lat[a] - traces.lat[b]) * 6_371_008.8
            if same and traces.user[a] != traces.user[b] and np.hypot(dx, dy) <= 50.0 - 1e-6:
                pair = sorted((int(traces.user[a]), int(traces.user[b])))
                expected.add((int(traces.time[a] // (5 * MICROSECONDS)), *pair))
    got = set(zip(found.slot.tolist(), found.one.tolist(), found.other.tolist(), strict=True))
    assert expected <= got
    assert len(got) == len(found)
    # Pairs at exactly 50 m may go either way in the last digit.
    assert len(got - expected) <= 3


def literal(contacts: Contacts, source: int, chained: bool) -> dict[int, int]:
    """One message from one source, slot by slot."""
    heard = {source: 0}
    for slot in sorted(set(contacts.slot.tolist())):
        here = contacts.slot == slot
        pairs = list(zip(contacts.one[here].tolist(), contacts.other[here].tolist(), strict=True))
        before = set(heard)
        while True:
            known = set(heard) if chained else before
            new = {b for a, b in pairs if a in known} | {a for a, b in pairs if b in known}
            new -= set(heard)
            for user in new:
                heard[user] = slot
            if not chained or not new:
                break
    return heard


def random_contacts(seed: int, users: int, contacts: int, slots: int) -> Contacts:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, users, contacts), rng.integers(0, users, contacts)
    slot = np.sort(rng.integers(1, slots, contacts))
    keep = one != other
    return Contacts(slot[keep], np.minimum(one, other)[keep], np.maximum(one, other)[keep], users)


@pytest.mark.parametrize("meaning", list(Slot))
@pytest.mark.parametrize("seed", range(6))
def test_all_sources_at_once_equal_one_by_one(seed: int, meaning: Slot) -> None:
    contacts = random_contacts(seed, users=70, contacts=90, slots=30)
    found = gossip(contacts, meaning)
    for source in range(70):
        heard = literal(contacts, source, meaning is Slot.COMPONENT)
        row = found.first[:, source]
        assert {int(v): int(row[v]) for v in np.flatnonzero(row >= 0)} == heard


@pytest.mark.parametrize("meaning", list(Slot))
def test_order_within_a_slot_changes_nothing(meaning: Slot) -> None:
    contacts = random_contacts(9, users=40, contacts=120, slots=8)
    shuffled = np.lexsort((np.random.default_rng(1).random(len(contacts)), contacts.slot))
    again = Contacts(contacts.slot[shuffled], contacts.other[shuffled], contacts.one[shuffled], 40)
    assert np.array_equal(gossip(contacts, meaning).first, gossip(again, meaning).first)


def test_rates_and_latency() -> None:
    line = Contacts(np.array([3, 3]), np.array([0, 1]), np.array([1, 2]), 4)
    whole, single = gossip(line), gossip(line, Slot.ONE_HOP)
    assert whole.reached_from().tolist() == [3, 3, 3, 1]
    assert single.reached_from().tolist() == [2, 3, 2, 1]
    assert whole.infection_rate() == 10 / 16
    assert whole.infection_rate(count_source=False) == 6 / 12
    assert set(whole.latency_slots(1).tolist()) == {2.0}


def test_nobody_meets_nobody() -> None:
    nothing = find_contacts(people([], 3))
    assert len(nothing) == 0
    assert gossip(nothing).infection_rate() == pytest.approx(1 / 3)


def test_contacts_of_many_fixes_are_quick() -> None:
    """Two million fixes in fifteen CPU-seconds; here 200,000, with room for noise."""
    rng = np.random.default_rng(3)
    n = 200_000
    user = np.sort(rng.integers(0, 40, n))
    traces = Traces(
        np.array([str(i) for i in range(40)], dtype=object),
        user,
        np.zeros(n, np.int64),
        (NOON + rng.integers(0, 50_000, n)) * MICROSECONDS,
        116.3 + rng.normal(0, 0.02, n),
        39.9 + rng.normal(0, 0.02, n),
        np.arange(n),
    )
    find_contacts(traces.pick(np.arange(100)))
    before = time.process_time()
    contacts = find_contacts(traces)
    gossip(contacts)
    assert time.process_time() - before < 2.0
