"""What one user can change, checked on what was counted, in exact integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engine import tally
from sfumato.engine.base import BoundBroken
from sfumato.engine.sampling import sampled
from sfumato.errors import UsageError
from sfumato.model.counts import WEIGHT_UNITS, Counting, SampleBound, WeightBound
from sfumato.model.ladder import LADDER_UNITS, ladder_gains
from sfumato.model.source import NORM_UNITS

pytestmark = pytest.mark.privacy

STEADY = settings(derandomize=True, deadline=None)
TOWERS = 5
HOURS = 24
row = st.tuples(
    st.integers(0, 3),
    st.floats(-1, 25, allow_nan=False, width=32),
    st.sampled_from([f"t{k}" for k in range(TOWERS)] + ["elsewhere", None]),
)
busy_row = st.tuples(
    st.integers(0, 1), st.floats(0, 8, width=32), st.sampled_from(["t0", "t1", "t2", "t3"])
)
records = st.one_of(st.lists(row, max_size=40), st.lists(busy_row, min_size=10, max_size=60))
weights = st.just(1.0) | st.floats(0.01, 20)
"""The largest weight of a user: that of a release, and others that a limit was fitted with."""
overlay = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).multinomial(64, [1 / 8] * 8, size=TOWERS)[:, :7].T
)
"""7 zones x towers, shares in 64ths: every column sums to at most 64."""


def squares(values: np.ndarray[Any, Any]) -> int:
    return sum(int(v) ** 2 for v in values.ravel())


def within(norm_squared: int, limit: float, units: int = 1) -> bool:
    """norm <= limit * units, as rational numbers."""
    return norm_squared <= (Fraction(limit) * units) ** 2


@settings(STEADY, max_examples=20)
@given(rows=records, slots=st.integers(1, 6), shares=overlay)
def test_a_sampled_user_adds_one_unit_a_slot_in_at_most_l_slots(
    town: Any, rows: Any, slots: int, shares: Any
) -> None:
    bound = SampleBound(slots)
    whole = town.opened(town.local(rows, TOWERS, threads=1).sampled(bound, town.key))
    for user in {r[0] for r in rows}:
        others = [r for r in rows if r[0] != user]
        rest = town.opened(town.local(others, TOWERS, threads=1).sampled(bound, town.key))
        change = whole.values - rest.values
        assert change.min(initial=0) >= 0
        assert change.sum(axis=0).max(initial=0) <= 1
        assert change.sum() <= min(slots, HOURS) == whole.l1
        assert squares(change) <= round(whole.l2**2) == slots
        assert within(squares(shares @ change), 64 * whole.l2 * (1 + 1e-15))


@settings(STEADY, max_examples=16)
@given(
    rows=records,
    limit=st.floats(0.05, 6),
    most=weights,
    counting=st.sampled_from(Counting),
    shares=overlay,
)
def test_a_weighted_user_has_a_norm_of_at_most_c(
    town: Any, rows: Any, limit: float, most: float, counting: Counting, shares: Any
) -> None:
    bound = WeightBound(limit, most)
    whole = town.opened(town.local(rows, TOWERS, threads=1).weighted(bound, counting))
    for user in {r[0] for r in rows}:
        others = [r for r in rows if r[0] != user]
        rest = town.opened(town.local(others, TOWERS, threads=1).weighted(bound, counting))
        change = whole.values - rest.values
        assert change.min(initial=0) >= 0
        assert within(squares(change.sum(axis=0)), limit, WEIGHT_UNITS)
        assert within(squares(shares @ change), limit, WEIGHT_UNITS * 64)
        assert change.sum() <= whole.l1
        assert whole.l2 == limit * WEIGHT_UNITS


@settings(STEADY, max_examples=14)
@given(
    rows=records,
    limit=st.floats(0.05, 6),
    most=weights,
    counting=st.sampled_from(Counting),
    seed=st.integers(0, 2**32 - 1),
)
def test_event_norms_bound_every_map_with_columns_that_long(
    town: Any, rows: Any, limit: float, most: float, counting: Counting, seed: int
) -> None:
    """A visit becomes a vector over zones; its norm, rounded up, is what the source is told."""
    rng = np.random.default_rng(seed)
    maps = rng.integers(0, 300, size=(6, TOWERS, HOURS)) * (rng.random((6, TOWERS, HOURS)) < 0.5)
    norms = np.vectorize(lambda n: math.isqrt(n - 1) + 1 if n else 0, otypes=[np.int64])(
        (maps**2).sum(axis=0)
    )
    bound = WeightBound(limit, most)
    whole = town.opened(town.local(rows, TOWERS, threads=1).weighted(bound, counting, norms))
    for user in {r[0] for r in rows}:
        others = [r for r in rows if r[0] != user]
        rest = town.opened(town.local(others, TOWERS, threads=1).weighted(bound, counting, norms))
        mapped = np.einsum("zpt,pt->zt", maps, whole.values - rest.values)
        assert within(squares(mapped), limit, WEIGHT_UNITS * NORM_UNITS)


@settings(STEADY, max_examples=14)
@given(rows=records, limit=st.floats(0.05, 6), most=weights, counting=st.sampled_from(Counting))
def test_totals_of_one_user_stay_within_their_limits(
    town: Any, rows: Any, limit: float, most: float, counting: Counting
) -> None:
    bound = WeightBound(limit, most)

    def totals(some: Any) -> list[Any]:
        source = town.local(some, TOWERS, threads=1)
        return [
            town.opened(source.place_totals(bound, counting)),
            town.opened(source.slot_totals(bound, counting)),
            town.opened(source.capped_total(5, counting)),
            town.opened(source.ladder((1, 3, 4, 7), counting)),
        ]

    whole = totals(rows)
    for user in {r[0] for r in rows}:
        rest = totals([r for r in rows if r[0] != user])
        for have, less in zip(whole, rest, strict=True):
            change = have.values - less.values
            assert change.min() >= 0
            assert change.sum() <= have.l1
            assert squares(change) <= Fraction(have.l2) ** 2


def test_the_unit_of_a_slot_is_split_over_its_places(town: Any) -> None:
    rows = [(1, 0.1, "t0"), (1, 0.2, "t1"), (1, 0.3, "t2"), (1, 5.0, "t2"), (2, 0.0, "t2")]
    counts = town.opened(town.local(rows, 3).exact(Counting.PEOPLE))
    third = WEIGHT_UNITS // 3
    assert counts.values[:, 0].tolist() == [third, third, third + WEIGHT_UNITS]
    assert counts.values[:, 5].tolist() == [0, 0, WEIGHT_UNITS]
    visits = town.opened(town.local(rows, 3).exact(Counting.VISITS))
    assert visits.values[:, 0].tolist() == [1, 1, 2]
    assert math.isinf(visits.l2)


def test_the_ladder_cuts_activity_into_steps(town: Any) -> None:
    """Five visits in three slots; one visit, seen twice; twelve in twelve slots, above the top."""
    rows = [(1, 0.1, "t0"), (1, 0.2, "t1"), (1, 0.3, "t1"), (1, 5.0, "t2"), (1, 5.1, "t0")]
    rows += [(1, 9.0, "t0"), (2, 4.0, "t2"), (2, 4.5, "t2")]
    rows += [(3, float(hour), "t1") for hour in range(12)]
    source, steps = town.local(rows, 3), (1, 2, 4, 8)
    for counting, sums in ((Counting.VISITS, [3, 2, 4, 5]), (Counting.PEOPLE, [3, 2, 3, 4])):
        found = town.opened(source.ladder(steps, counting))
        assert (found.values == np.array(sums) * ladder_gains(steps)).all()
        assert (found.l2, found.l1) == (LADDER_UNITS, 2 * LADDER_UNITS)
        assert found.units_per_count == LADDER_UNITS
    assert town.opened(town.local([], 3).ladder(steps, Counting.PEOPLE)).values.tolist() == [0] * 4


def test_gains_that_are_too_large_are_caught_on_what_was_counted() -> None:
    cells, offsets = np.arange(9, dtype=np.int32) << 1, np.array([0, 9], np.int64)
    steps, gains = np.array([1, 2, 4, 8], np.int64), ladder_gains((1, 2, 4, 8))
    for more, caught in ((gains, 0), (gains + np.array([0, 0, 0, 1]), 1), (2 * gains, 1)):
        arguments = (False, steps, more, float(LADDER_UNITS**2), np.zeros(4, np.int64))
        assert tally.ladder((cells, offsets, 1), 0, 1, *arguments) == caught


def test_a_fitted_limit_only_changes_the_scale(town: Any) -> None:
    """Limit 8 with weights up to 4 is limit 2 four times as large, in sensitivity too."""
    rows = [(u, float(h), f"t{(u * h) % 3}") for u in range(9) for h in range(u)]
    source, fitted, plain = town.local(rows, 3), WeightBound(8, 4), WeightBound(2)
    for counting in Counting:
        for ask in (source.weighted, source.place_totals, source.slot_totals):
            four, one = town.opened(ask(fitted, counting)), town.opened(ask(plain, counting))
            assert four.l2 == 4 * one.l2 == 8 * WEIGHT_UNITS
            assert np.abs(four.values - 4 * one.values).max() <= 4 * len(rows)  # rounding


def test_a_user_beyond_the_exact_range_weighs_nothing(town: Any) -> None:
    norms = np.full((2, 24), (1 << 27) - 1, np.int64)
    rows = [(1, 0.5, "t0"), (1, 1.5, "t0"), (2, 3.5, "t1"), (2, 3.6, "t0")]
    for source in (town.local(rows, 2), town.relational(rows, 2)):
        counts = town.opened(source.weighted(WeightBound(1e9), Counting.VISITS, norms))
        assert counts.values.sum() == 0


def test_norms_that_a_mean_would_hide_are_refused(town: Any) -> None:
    """Cut to 2^27, one norm of 2^30 among four places of a slot would count as 2^25, not 2^28."""
    norms = np.zeros((4, 24), np.int64)
    norms[0] = 1 << 30
    rows = [(1, 0.5, f"t{place}") for place in range(4)]
    for source in (town.local(rows, 4), town.relational(rows, 4)):
        with pytest.raises(UsageError, match="event norm"):
            source.weighted(WeightBound(1.0), Counting.PEOPLE, norms)


def test_cells_out_of_order_are_caught_before_they_count_twice() -> None:
    """The failure that once let users past their cap: rows that came back unsorted."""
    offsets = np.array([0, 3], np.int64)
    cells = np.array([1 << 1, 5 << 1, 1 << 1 | 1], np.int32)  # slots 1, 5, 1
    rows = (cells, offsets, 1)
    rule = (1, 65536, 65536.0, 65536.0)
    out = np.zeros((2, 24), np.int64)
    assert tally.weighted(rows, 0, 1, np.zeros((1, 1), np.int64), False, False, rule, out) > 0
    assert tally.slot_totals(rows, 0, 1, False, rule, np.zeros(24, np.int64)) > 0
    seed_at = np.zeros(1, np.int32)
    seeds = np.array([[12345, 67890]], np.int64)
    assert sampled(rows, 0, 1, 24, seed_at, seeds, 3, out) > 0
    unhashed = np.full(1, -1, np.int32)
    repeated = (np.array([2, 3], np.int32), np.array([0, 2], np.int64), 1)
    assert sampled(repeated, 0, 1, 24, unhashed, seeds, 3, out) > 0


def test_a_pass_above_its_bound_gives_nothing(town: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tally, "weighted", lambda *_: 1)
    with pytest.raises(BoundBroken):
        town.local([(1, 0.5, "t0")], 1).weighted(WeightBound(1), Counting.VISITS)
