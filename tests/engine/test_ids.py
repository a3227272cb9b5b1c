"""Two users are never merged, whatever their ids look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engine import user_ids
from sfumato.engine.local import LocalSource
from sfumato.engine.user_ids import ByteIds, IntegerIds, ids_for
from sfumato.io.values import validity
from sfumato.model.counts import Counting
from sfumato.model.events import UserEncoding

pytestmark = pytest.mark.privacy

STEADY = settings(derandomize=True, deadline=None)


def codes_of(ids: Any, column: pa.Array) -> list[int]:
    cells = np.zeros(len(column), np.int64)
    return [int(c) for c in ids.encode(column, cells, np.empty(len(column), np.int32))]


@settings(STEADY, max_examples=60)
@given(st.lists(st.binary(max_size=20) | st.text(max_size=9).map(str.encode), max_size=60))
def test_codes_are_equal_exactly_where_bytes_are(values: list[bytes]) -> None:
    ids = ByteIds(UserEncoding.BINARY)
    codes = codes_of(ids, pa.array(values, pa.binary()))
    assert len(set(codes)) == len(set(values)) == ids.count
    assert ids.of(np.array(codes, np.int64)).to_pylist() == values
    again = ids.lookup(pa.array(values, pa.large_binary()), np.empty(0, np.bool_))
    assert again.tolist() == codes


@settings(STEADY, max_examples=40)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), max_size=60))
def test_codes_are_equal_exactly_where_integers_are(values: list[int]) -> None:
    ids = IntegerIds()
    codes = codes_of(ids, pa.array(values, pa.int64()))
    assert len(set(codes)) == len(set(values)) == ids.count
    assert ids.of(np.array(codes, np.int64)).to_pylist() == values


@pytest.mark.parametrize("encoding", list(UserEncoding))
def test_tables_grow_and_forget_nothing(encoding: UserEncoding) -> None:
    numbers = np.arange(60_000) * 977
    columns = {
        UserEncoding.INTEGER: pa.array(numbers),
        UserEncoding.TEXT: pa.array([f"{n:032x}" for n in numbers]),
        UserEncoding.BINARY: pa.array([int(n).to_bytes(7, "big") for n in numbers], pa.binary()),
    }
    ids = ids_for(encoding)
    column = columns[encoding]
    for start in range(0, 60_000, 7_000):
        part = column.slice(start, 7_000)
        assert codes_of(ids, part) == list(range(start, min(start + 7_000, 60_000)))
    assert codes_of(ids, column) == list(range(60_000))


def test_a_table_where_every_hash_meets_in_one_place_still_tells_ids_apart() -> None:
    """The hash only says where to look: in a table with eight entries nearly all meet."""
    values = np.array([5, -5, 2**63 - 1, -(2**63), 0, 1], np.int64)
    table = np.zeros(2 * 8, np.int64)
    user_ids.enter_integers(values, 0, values.size, table, np.uint64(0))
    assert [user_ids.find_integer(table, v, np.uint64(0)) for v in values] == list(range(6))
    assert user_ids.find_integer(table, np.int64(6), np.uint64(0)) < 0


def test_ids_crafted_to_share_the_whole_hash_stay_two() -> None:
    """Knowing the table's key one can write ids with equal 64-bit hashes. They stay two users."""
    word, mask = 1 << 64, (1 << 64) - 1

    def after(first: int) -> int:
        """State of the hash after the first eight of sixteen bytes, for key zero."""
        state = ((16 * 0x9E3779B97F4A7C15 % word) ^ first) * 0x9FB21C651E98DF25 & mask
        return state ^ (state >> 32)

    firsts = [7, 8, 1 << 63]
    seconds = [after(first) ^ 0x1234567890ABCDEF for first in firsts]
    users = [
        a.to_bytes(8, "little") + b.to_bytes(8, "little")
        for a, b in zip(firsts, seconds, strict=True)
    ]
    ids = ByteIds(UserEncoding.BINARY)
    ids._seed = np.uint64(0)
    assert codes_of(ids, pa.array(users * 2, pa.binary())) == [0, 1, 2] * 2
    assert np.unique(ids._table[ids._table > 0] >> 32).size == 1


def test_ids_that_differ_in_one_byte_of_any_place_stay_two() -> None:
    """Of every length from none to beyond two words, and the same with other lengths in between."""
    users = [bytes(length) for length in range(20)]
    users += [
        bytes(at) + b"\x01" + bytes(length - at - 1) for length in range(20) for at in range(length)
    ]
    ids = ByteIds(UserEncoding.BINARY)
    assert codes_of(ids, pa.array(users * 2, pa.binary())) == 2 * list(range(len(users)))
    unknown = pa.array([b"\x02", None, users[-1]], pa.binary())
    assert ids.lookup(unknown, validity(unknown)).tolist() == [-1, -2, len(users) - 1]


@pytest.mark.parametrize(
    ("users", "arrow", "encoding"),
    [
        ([-(2**63), 2**63 - 1, 0, -1, 2**32, 2**32 + 1], pa.int64(), UserEncoding.INTEGER),
        ([2**64 - 1, 2**63, 2**63 - 1, 0], pa.uint64(), UserEncoding.TEXT),
        (["1", "01", "1 ", " 1", "1.0", "", "\u0000", "1\u0000"], pa.string(), UserEncoding.TEXT),
        (["e\u0301", "\u00e9", "E", "e"], pa.string(), UserEncoding.TEXT),
        ([b"", b"\x00", b"\x00\x00", b"0", b"\x30\x00"], pa.binary(), UserEncoding.BINARY),
    ],
)
def test_each_id_is_a_person(town: Any, users: Any, arrow: Any, encoding: Any) -> None:
    """Everyone at one tower in one hour, twice: the count is the number of ids."""
    table = town.table([(user, 0.5, "t0") for user in users] * 2, arrow)
    source = LocalSource(town.described(table, encoding), town.towers(1), town.grid())
    assert town.opened(source.exact(Counting.VISITS)).values[0, 0] == len(users)
    assert town.opened(source.capped_total(1, Counting.PEOPLE)).values[0] == len(users)
