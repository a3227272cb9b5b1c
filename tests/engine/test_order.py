"""The sampling order: one definition in three languages, uniform, and tests that can tell."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from tests.engine.dialect import DUCKDB, order_sql, seeds_sql

from sfumato.engine import sampling
from sfumato.engine.sampling import (
    HALF,
    PRIME,
    STRIDE,
    canonical_text,
    order_value,
    seeds,
    seeds_of_ids,
)
from sfumato.model.counts import SampleBound
from sfumato.model.events import UserEncoding

pytestmark = pytest.mark.privacy

KEYS = (bytes(32), b"\x01" * 32, bytes(range(32)))
USERS = 6000
SLOTS = 24
KEPT = 5
REFUSE = 1e-4
"""Below this p-value a sampler is rejected; ours is fixed by its keys and never near."""

Ints = NDArray[np.int64]
seed = st.integers(0, (1 << 60) - 1)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    seed=st.one_of(seed, st.sampled_from([0, (1 << 60) - 1, HALF - 1, HALF])),
    item=st.integers(0, PRIME - 2),
    slot=st.integers(0, (1 << 21) - 1),
)
def test_the_compiled_order_is_the_definition(seed: int, item: int, slot: int) -> None:
    for shift in (0, STRIDE * (slot + 1)):
        assert sampling.compiled_order_value(seed, item, shift) == order_value(seed, item, shift)


@pytest.mark.parametrize(
    ("users", "encoding", "kind"),
    [
        ([0, -1, 2**63 - 1, -(2**63), 7], UserEncoding.INTEGER, "BIGINT"),
        (["", "7", "07", "né", "a b"], UserEncoding.TEXT, "VARCHAR"),
        ([b"", b"7", bytes(32), b"\xff\x00"], UserEncoding.BINARY, "BLOB"),
    ],
)
def test_the_sql_order_is_the_definition(users: list[Any], encoding: Any, kind: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE p (u {kind})")
    connection.executemany("INSERT INTO p VALUES (?)", [[user] for user in users])
    seeded = seeds_sql(KEYS[2], encoding, "p", ("u",), DUCKDB)
    found = {row[0]: row[1:] for row in connection.execute(seeded).fetchall()}
    for user in users:
        first, second = seeds(KEYS[2], user)
        assert found[user] == (*divmod(first, HALF), *divmod(second, HALF))
    rows = f"(SELECT * FROM ({seeded}) AS s, (VALUES (0), (1302), (65535)) AS i(item)) AS r"
    sql = order_sql("item", f"{STRIDE} * (CAST(item AS BIGINT) + 1)", 1, rows, ("u", "item"))
    for user, item, turn in connection.execute(sql).fetchall():
        assert turn == order_value(seeds(KEYS[2], user)[0], item, STRIDE * (item + 1))


@pytest.mark.parametrize(
    ("users", "encoding", "kind"),
    [
        ([0, -1, 2**63 - 1, -(2**63), 7], UserEncoding.INTEGER, pa.int64()),
        (["né", *("x" * k for k in range(200)), "7" * 4000], UserEncoding.TEXT, pa.string()),
        ([bytes(range(k)) for k in range(140)], UserEncoding.BINARY, pa.large_binary()),
    ],
    ids=["integers", "texts", "bytes"],
)
def test_seeds_of_a_column_are_the_definition(users: list[Any], encoding: Any, kind: Any) -> None:
    """Of every length around a block's, under keys of several lengths."""
    for key in (*KEYS[:2], b"\x80" * 16, bytes(range(77))):
        found = seeds_of_ids(pa.array(users, kind)[1:], encoding, key)
        assert [tuple(row) for row in found.tolist()] == [seeds(key, user) for user in users[1:]]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.lists(st.integers(0, PRIME - 1) | st.integers(5 << 25, (5 << 25) + 3), min_size=2),
    st.integers(1, 5_000),
    st.integers(1, 40),
)
def test_the_first_turns_are_found_as_by_sorting(some: list[int], times: int, part: int) -> None:
    """Also where many turns agree in their highest bits, or in all: then the slot decides."""
    turns = np.resize(np.array(some, np.int64), 2 + times)
    ranked = turns << sampling.SLOT_BITS | np.arange(turns.size)
    limit = 1 + (turns.size - 2) * part // 40
    wanted = np.sort(ranked)[:limit]
    steps, close = np.empty(sampling.STEPS, np.int64), np.empty_like(ranked)
    sampling.first_of(ranked, turns.size, limit, steps, close)
    assert np.array_equal(np.sort(ranked[:limit]), wanted)


def test_canonical_texts() -> None:
    assert canonical_text(-12) == "-12"
    assert canonical_text("Ab ") == "Ab "
    assert canonical_text(b"\xab\x01") == "ab01"


def turns(seed: Ints, item: Ints | int, shift: int = 0) -> Ints:
    """Orders of items under many seeds at once (users x items)."""
    a, b = (seed >> 30)[:, None], (seed & (HALF - 1))[:, None]

    def fifth(x: Ints) -> Ints:
        square = x * x % PRIME
        return square * square % PRIME * x % PRIME

    y = fifth(((a + 1) * (np.atleast_1d(item) + 1) + b) % PRIME)
    z = fifth(((b + 1) * y + a + shift) % PRIME)
    result: Ints = ((a + 1) * z + b) % PRIME
    return result


@pytest.fixture(scope="module", params=KEYS, ids=["zeros", "ones", "range"])
def user_seeds(request: Any) -> Ints:
    return np.array([seeds(request.param, user) for user in range(USERS)], np.int64)


def kept_slots(order: NDArray[Any], kept: int = KEPT) -> NDArray[np.bool_]:
    """Users x slots, true where the slot is among the first of its user's order."""
    chosen = np.zeros(order.shape, np.bool_)
    np.put_along_axis(chosen, np.argpartition(order, kept - 1, axis=1)[:, :kept], True, axis=1)
    return chosen


def p_single(chosen: NDArray[np.bool_]) -> float:
    """Chi-square of the slots' inclusions; without replacement they lose one freedom."""
    users, slots = chosen.shape
    share = chosen.mean()
    spread = users * share * (1 - share) * slots / (slots - 1)
    statistic = ((chosen.sum(axis=0) - users * share) ** 2).sum() / spread
    return float(stats.chi2.sf(statistic, slots - 1))


def unevenness(chosen: NDArray[np.bool_]) -> float:
    """How much the numbers of users who keep both of two slots differ between the pairs."""
    kept = chosen.astype(np.float32)
    pairs = (kept.T @ kept)[np.triu_indices(chosen.shape[1], 1)]
    return float(((pairs - pairs.mean()) ** 2).sum())


@lru_cache
def ideal_unevenness(kept: int) -> tuple[float, float]:
    """Mean and spread of `unevenness` over 40 samplers that are uniform by construction."""
    rng = np.random.default_rng(5)
    values = [unevenness(kept_slots(rng.random((USERS, SLOTS)), kept)) for _ in range(40)]
    return float(np.mean(values)), float(np.std(values))


def p_pairs(chosen: NDArray[np.bool_]) -> float:
    """Pairs of slots kept together, against ideal samplers."""
    mean, spread = ideal_unevenness(int(chosen[0].sum()))
    return float(stats.norm.sf((unevenness(chosen) - mean) / spread))


def test_every_slot_is_kept_equally_often(user_seeds: Ints) -> None:
    assert p_single(kept_slots(turns(user_seeds[:, 1], np.arange(SLOTS)))) > REFUSE


def test_every_pair_of_slots_is_kept_equally_often(user_seeds: Ints) -> None:
    assert p_pairs(kept_slots(turns(user_seeds[:, 1], np.arange(SLOTS)))) > REFUSE


def test_slots_far_apart_and_a_week_of_them(user_seeds: Ints) -> None:
    week = turns(user_seeds[:, 1], np.arange(168))
    assert p_single(kept_slots(week, 30)) > REFUSE
    far = turns(user_seeds[:, 1], np.arange(SLOTS) * 40_000)
    assert p_single(kept_slots(far)) > REFUSE
    assert p_pairs(kept_slots(far)) > REFUSE


def test_a_sampler_that_prefers_early_hours_is_rejected(user_seeds: Ints) -> None:
    order = turns(user_seeds[:, 1], np.arange(SLOTS)) * (1 + 0.01 * np.arange(SLOTS))
    assert p_single(kept_slots(order)) < REFUSE


def test_a_sampler_that_keeps_neighbouring_hours_is_rejected(user_seeds: Ints) -> None:
    start = turns(user_seeds[:, 1], 0) % SLOTS
    order = (np.arange(SLOTS) - start) % SLOTS
    assert p_single(kept_slots(order)) > REFUSE  # each slot equally often, and still
    assert p_pairs(kept_slots(order)) < REFUSE


def test_every_place_of_a_slot_is_kept_equally_often(user_seeds: Ints) -> None:
    for slot in (0, 1, 167):
        for places in (2, 3, 7):
            order = turns(user_seeds[:, 0], np.arange(places) * 13, STRIDE * (slot + 1))
            assert p_single(kept_slots(order, 1)) > REFUSE


def test_choices_in_different_slots_are_unrelated(user_seeds: Ints) -> None:
    """Three places in each of two slots: the 3 x 3 table of choices is flat."""
    for one, other in ((0, 1), (3, 100)):
        first, second = (
            turns(user_seeds[:, 0], np.arange(3), STRIDE * (slot + 1)).argmin(axis=1)
            for slot in (one, other)
        )
        table = np.histogram2d(first, second, bins=3)[0]
        assert stats.chisquare(table.ravel()).pvalue > REFUSE
    shared = turns(user_seeds[:, 0], np.arange(3)).argmin(axis=1)
    table = np.histogram2d(shared, shared, bins=3)[0]
    assert stats.chisquare(table.ravel()).pvalue < REFUSE


def crowded_orders(first: Ints, second: Ints, shared: bool) -> NDArray[np.bool_]:
    """Slots 0-11 have four places, 12-23 one. Which slots are kept?"""
    best = np.empty((first.size, SLOTS), np.int64)
    for slot in range(SLOTS):
        places = np.arange(4 if slot < SLOTS // 2 else 1)
        best[:, slot] = turns(first, places, STRIDE * (slot + 1)).min(axis=1)
    return kept_slots(best if shared else turns(second, np.arange(SLOTS)))


def test_crowded_slots_are_not_preferred_as_with_one_shared_order(user_seeds: Ints) -> None:
    first, second = user_seeds.T
    assert p_single(crowded_orders(first, second, shared=False)) > REFUSE
    assert p_single(crowded_orders(first, second, shared=True)) < REFUSE


def test_the_place_kept_tells_nothing_about_the_slots_kept(user_seeds: Ints) -> None:
    first, second = user_seeds.T
    place = turns(first, np.arange(3), STRIDE).argmin(axis=1)
    for seed_of_slots, related in ((second, False), (first, True)):
        kept = kept_slots(turns(seed_of_slots, np.arange(3)), 1).argmax(axis=1)
        # The same seed without the slot's shift would repeat the choice of place.
        choice = turns(first, np.arange(3)).argmin(axis=1) if related else place
        table = np.histogram2d(choice, kept, bins=3)[0]
        p = stats.chi2_contingency(table).pvalue
        assert (p < REFUSE) if related else (p > REFUSE)


def test_the_pass_itself_is_uniform(town: Any) -> None:
    """End to end: 2,000 users with three towers in every hour of a day, five hours kept."""
    rows = [(u, h + 0.1 * t, f"t{t}") for u in range(2000) for h in range(24) for t in range(3)]
    counts = town.opened(town.local(rows, 3).sampled(SampleBound(KEPT), town.key)).values
    assert counts.sum() == 2000 * KEPT
    share = KEPT / SLOTS
    spread = 2000 * share * (1 - share) * SLOTS / (SLOTS - 1)
    hours = ((counts.sum(axis=0) - 2000 * share) ** 2).sum() / spread
    assert stats.chi2.sf(hours, SLOTS - 1) > REFUSE
    assert stats.chisquare(counts.sum(axis=1)).pvalue > REFUSE
    assert stats.chisquare(counts.ravel()).pvalue > REFUSE


def test_the_pass_keeps_what_the_definition_orders_first(town: Any) -> None:
    rows = [(u, h + 0.1 * t, f"t{t}") for u in (3, -8) for h in range(10) for t in range(4)]
    expected = np.zeros((4, 24), np.int64)
    for user in (3, -8):
        first, second = seeds(town.key, user)
        for slot in sorted(range(10), key=lambda h: order_value(second, h))[:4]:
            shift = STRIDE * (slot + 1)
            place = min(range(4), key=lambda p: order_value(first, p, shift))
            expected[place, slot] += 1
    counts = town.opened(town.local(rows, 4).sampled(SampleBound(4), town.key)).values
    assert (counts == expected).all()
