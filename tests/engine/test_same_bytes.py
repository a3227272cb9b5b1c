"""The compiled pass and the relational definition give the same bytes, however they are run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.reference import RelationalSource

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.events import UserEncoding

STEADY = settings(derandomize=True, deadline=None)
TOWERS = 6
names = st.sampled_from([f"t{k}" for k in range(TOWERS)] + ["T1", "", None])
hours = st.floats(-2, 50, allow_nan=False, width=32)


def table_of(user: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(st.none() | user, hours, names), max_size=80)


def same(town: Any, first: Any, second: Any) -> None:
    one, two = town.answers(first), town.answers(second)
    for name in one:
        assert one[name].values.tobytes() == two[name].values.tobytes(), name
        assert (one[name].l1, one[name].l2) == (two[name].l1, two[name].l2)
        assert one[name].units_per_count == two[name].units_per_count
    assert first.drops.dropped == second.drops.dropped
    assert first.drops.rows == second.drops.rows


def check(town: Any, rows: Any, arrow: pa.DataType, user: UserEncoding) -> None:
    events = town.described(town.table(rows, arrow), user)
    places, grid = town.towers(TOWERS), town.grid(2)
    same(town, LocalSource(events, places, grid), RelationalSource(events, places, grid))


@settings(STEADY, max_examples=20)
@given(rows=table_of(st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**32])))
def test_integer_ids(town: Any, rows: Any) -> None:
    check(town, rows, pa.int64(), UserEncoding.INTEGER)


@settings(STEADY, max_examples=12)
@given(rows=table_of(st.sampled_from(["1", "01", "", " ", "é", "1\u0000", "a" * 40, "b'"])))
def test_text_ids(town: Any, rows: Any) -> None:
    check(town, rows, pa.string(), UserEncoding.TEXT)


@settings(STEADY, max_examples=12)
@given(rows=table_of(st.binary(max_size=2) | st.just(bytes(32))))
def test_binary_ids(town: Any, rows: Any) -> None:
    check(town, rows, pa.binary(), UserEncoding.BINARY)


def test_unsigned_ids_beyond_the_signed_range(town: Any) -> None:
    rows = [(k, h, f"t{h % 3}") for k in (0, 2**63, 2**64 - 1) for h in range(20)]
    check(town, rows, pa.uint64(), UserEncoding.TEXT)


@pytest.fixture(scope="module")
def busy_rows() -> list[tuple[int, float, str]]:
    """3,000 rows of 40 users, some of them far busier than any bound."""
    rng = np.random.default_rng(7)
    users = (rng.pareto(0.8, 3000) * 3).astype(int) % 40
    return [
        (int(u) * 1_000_003, float(h), f"t{t}")
        for u, h, t in zip(users, rng.uniform(-1, 49, 3000), rng.integers(0, 7, 3000), strict=True)
    ]


def bytes_of(town: Any, source: Any) -> dict[str, bytes]:
    return {name: counts.values.tobytes() for name, counts in town.answers(source).items()}


def test_neither_row_order_nor_threads_nor_spilling_change_a_byte(
    town: Any, busy_rows: Any
) -> None:
    expected = bytes_of(town, town.local(busy_rows, TOWERS, 2, threads=1))
    shuffled = [busy_rows[k] for k in np.random.default_rng(1).permutation(len(busy_rows))]
    assert bytes_of(town, town.local(shuffled, TOWERS, 2)) == expected
    assert bytes_of(town, town.local(busy_rows + busy_rows, TOWERS, 2)) == expected
    assert bytes_of(town, town.local(busy_rows, TOWERS, 2, threads=2)) == expected
    spilled = town.local(shuffled, TOWERS, 2, memory_limit=1 << 10)
    assert bytes_of(town, spilled) == expected
    assert spilled._rows()[0].spilled
    assert bytes_of(town, town.relational(shuffled, TOWERS, 2)) == expected


def test_threads_share_many_users_without_changing_a_byte(town: Any) -> None:
    rng = np.random.default_rng(3)
    n = 40_000
    table = pa.table(
        {
            "user": rng.integers(0, 9_000, n),
            "time": pa.array(
                town.grid(2).edges[0] + rng.integers(0, 48 * 3_600_000_000, n),
                pa.timestamp("us", "UTC"),
            ),
            "tower": [f"t{k}" for k in rng.integers(0, TOWERS, n)],
        }
    )
    events, places, grid = town.described(table), town.towers(TOWERS), town.grid(2)
    one = bytes_of(town, LocalSource(events, places, grid, threads=1))
    assert bytes_of(town, LocalSource(events, places, grid, threads=3)) == one
    assert bytes_of(town, RelationalSource(events, places, grid)) == one


def test_files_may_be_split_anywhere(town: Any, busy_rows: Any, tmp_path: Path) -> None:
    table = town.table(busy_rows)
    expected = bytes_of(town, town.local(busy_rows, TOWERS, 2))
    for pieces in ([0, 3000], [0, 1, 700, 701, 3000]):
        paths = []
        for k, (low, high) in enumerate(pairwise(pieces)):
            path = tmp_path / f"{len(pieces)}-{k}.parquet"
            pq.write_table(table.slice(low, high - low), path, row_group_size=500)
            paths.append(path)
        events = read_events(paths)
        source = LocalSource(events, town.towers(TOWERS), town.grid(2))
        assert bytes_of(town, source) == expected


def test_a_sample_depends_on_nobody_else_and_on_the_key(town: Any, busy_rows: Any) -> None:
    bound = SampleBound(3)
    user = max({r[0] for r in busy_rows}, key=lambda u: sum(r[0] == u for r in busy_rows))
    alone = [r for r in busy_rows if r[0] == user]
    others = [r for r in busy_rows if r[0] != user]

    def counts(rows: Any, key: bytes) -> Any:
        return town.opened(town.local(rows, TOWERS, 2).sampled(bound, key)).values

    whole = counts(busy_rows, town.key)
    assert (whole - counts(others, town.key) == counts(alone, town.key)).all()
    assert (counts(alone, b"k" * 32) != counts(alone, town.key)).any()
    assert counts(alone, town.key).sum() == 3


def test_wide_grids_take_wide_cells(town: Any) -> None:
    """More than 2^31 cells: rows are packed in 64 bits, and nothing else changes."""
    places, grid = town.towers(5000), town.grid(60, "10s")
    rows = [(u, h * 7.3, f"t{(u * h) % 5000}") for u in range(5) for h in range(100)]
    source = LocalSource(town.events(rows), places, grid)
    assert source._rows()[0].dtype == np.int64
    oracle = RelationalSource(town.events(rows), places, grid)
    for ask in (
        lambda s: s.slot_totals(WeightBound(3.0), Counting.VISITS),
        lambda s: s.place_totals(WeightBound(3.0), Counting.PEOPLE),
        lambda s: s.capped_total(50, Counting.VISITS),
    ):
        assert (town.opened(ask(source)).values == town.opened(ask(oracle)).values).all()
