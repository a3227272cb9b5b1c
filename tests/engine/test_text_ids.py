"""Ids that are bytes, partition by partition: grouped as a dictionary would, and never merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engine import grouping, text_ids
from sfumato.engine.grouping import Grouping
from sfumato.engine.partition import PARTITION_BITS
from sfumato.engine.text_ids import DistinctIds, TextArena
from sfumato.model.events import UserEncoding

pytestmark = pytest.mark.privacy

STEADY = settings(derandomize=True, deadline=None)
LONG = text_ids.MOST_WORDS * 8
KINDS = {UserEncoding.TEXT: pa.string(), UserEncoding.BINARY: pa.binary()}
Rows = Sequence[tuple[bytes, int]]


def batches(rows: Rows, encoding: UserEncoding, size: int) -> list[tuple[pa.Array, np.ndarray]]:
    found = []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        column = pa.array([user for user, _ in some], pa.binary()).view(KINDS[encoding])
        found.append((column, np.array([cell for _, cell in some], np.int32)))
    return found


def by_dictionary(rows: Sequence[tuple[Any, int]]) -> dict[Any, list[int]]:
    users: dict[Any, set[int]] = {}
    for user, cell in rows:
        if cell >= 0:
            users.setdefault(user, set()).add(cell)
    return {user: sorted(cells) for user, cells in users.items()}


def by_grouping(
    rows: Rows, encoding: UserEncoding, memory: int = 1 << 30, size: int = 7
) -> tuple[dict[bytes, list[int]], bool]:
    made = Grouping(encoding, 20, memory, 2)
    for column, cells in batches(rows, encoding, size):
        made.add(column, cells)
    made.finish()
    users: dict[bytes, list[int]] = {}
    for block in made.blocks():
        ids = block.ids(np.arange(block.users)).cast(pa.large_binary()).to_pylist()
        assert not users.keys() & set(ids)
        assert len(ids) == len(set(ids))
        for k, user in enumerate(ids):
            users[user] = block.cells[block.offsets[k] : block.offsets[k + 1]].tolist()
    spilled = made.spilled
    made.close()
    return users, spilled


@pytest.fixture(autouse=True)
def no_rows_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "FEW", 0)


@settings(STEADY, max_examples=60)
@given(
    st.lists(
        st.tuples(st.binary(max_size=20) | st.sampled_from([b"a", b"b" * 32]), st.integers(-1, 5)),
        max_size=80,
    ),
    st.sampled_from([0, 30, 1 << 16]),
)
def test_rows_are_grouped_as_by_a_dictionary(rows: list[tuple[bytes, int]], few: int) -> None:
    """In many partitions, in one that becomes many, and in one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "FEW", few)
        assert by_grouping(rows, UserEncoding.BINARY)[0] == by_dictionary(rows)


@pytest.mark.parametrize("memory", [1 << 30, 1 << 16], ids=["in memory", "in files"])
def test_many_integers(memory: int) -> None:
    """Signs, neighbours and both ends; a user's rows are whole in one part."""
    random = np.random.default_rng(8)
    users = np.concatenate([[-(1 << 63), (1 << 63) - 1], np.arange(-9_000, 21_000)])
    who = users[random.integers(0, users.size, 60_000)]
    cells = random.integers(-1, 1 << 20, 60_000).astype(np.int32)
    rows = [(int(user), int(cell)) for user, cell in zip(who, cells, strict=True)]
    together = Grouping(UserEncoding.INTEGER, 20, memory, 2)
    for start in range(0, who.size, 5_000):
        some = slice(start, start + 5_000)
        together.add(pa.array(who[some]), cells[some])
    together.finish()
    assert together.spilled == (memory < 1 << 20)
    grouped: dict[int, list[int]] = {}
    for block in together.blocks():
        for k, user in enumerate(block.ids(np.arange(block.users)).to_pylist()):
            assert user not in grouped
            grouped[user] = block.cells[block.offsets[k] : block.offsets[k + 1]].tolist()
    together.close()
    assert grouped == by_dictionary(rows)


@pytest.mark.parametrize("encoding", list(KINDS))
def test_few_rows_above_the_limit_go_to_files(encoding: UserEncoding) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "FEW", 1 << 16)
        rows = [(str(k % 700).encode(), k % 9) for k in range(3_000)]
        found, spilled = by_grouping(rows, encoding, 1 << 10, 500)
    assert spilled
    assert found == by_dictionary(rows)


def test_how_many_ids_there_are_and_nothing_else_of_them() -> None:
    ids = DistinctIds()
    for start in range(0, 9_000, 700):
        some = pa.array([f"{k % 4_000:032x}" for k in range(start, start + 700)])
        ids.add(some, np.where(np.arange(700) % 350 == 0, -1, 0).astype(np.int32))
    assert ids.count() == 4_000


@pytest.mark.parametrize("memory", [1 << 30, 1 << 16], ids=["in memory", "in files"])
@pytest.mark.parametrize("encoding", list(KINDS))
def test_many_ids_of_every_length(encoding: UserEncoding, memory: int) -> None:
    """Tables, ids and runs grow, buffers fill up many times, and rows go to files."""
    random = np.random.default_rng(7)
    users = [(f"{k:x}" * (1 + k % 9)).encode() for k in range(30_000)] + [b"", b"\x00", b"0"]
    order = random.integers(0, len(users), 90_000)
    cells = random.integers(-1, 1 << 20, 90_000)
    rows = [(users[who], int(cell)) for who, cell in zip(order, cells, strict=True)]
    found, spilled = by_grouping(rows, encoding, memory, 5_000)
    assert spilled == (memory < 1 << 20)
    assert found == by_dictionary(rows)


def test_ids_longer_than_a_buffer_and_ids_that_differ_in_one_byte() -> None:
    users = [bytes(length) for length in range(20)]
    users += [
        bytes(at) + b"\x01" + bytes(length - at - 1) for length in range(20) for at in range(length)
    ]
    users += [b"x" * LONG, b"x" * (LONG + 1), b"x" * LONG + b"y", b"x" * ((1 << 20) - 1)]
    users += [b"a" * 512 + b"b" * 512, b"b" * 512 + b"a" * 512]
    rows = [(user, k % 50) for k, user in enumerate(users * 2)]
    assert by_grouping(rows, UserEncoding.BINARY)[0] == by_dictionary(rows)


@pytest.mark.parametrize("bits", [0, PARTITION_BITS])
def test_ids_whose_hashes_are_equal_stay_apart(bits: int) -> None:
    """With a key of zeros, NH of words with an empty half is zero: all of these meet."""
    users = [k.to_bytes(8, "little") for k in range(1, 40)]
    arena = TextArena(np.dtype(np.int32), UserEncoding.BINARY, bits, 100, 1 << 20)
    arena._key = np.zeros_like(arena._key)
    arena.put(pa.array(users * 3, pa.binary()), np.arange(117, dtype=np.int32))
    arena.finish()
    assert sorted(arena.users)[-2:] == ([0, 39] if bits else [39])  # one partition holds them all
    found = arena.grouped(0, 1)
    assert found.counts[found.counts > 0].tolist() == [3] * 39
    assert arena.of(np.arange(39)).to_pylist() == users


def test_an_id_too_long_for_its_length_is_a_fault_of_the_program() -> None:
    arena = TextArena(np.dtype(np.int32), UserEncoding.BINARY, 0, 1, 1 << 20)
    column = pa.array([b"x" * (1 << 20)], pa.binary())
    arena.put(column, np.array([-1], np.int32))
    with pytest.raises(AssertionError):
        arena.put(column, np.array([0], np.int32))


def test_an_id_that_many_rows_name_is_not_spelled_out_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One person's thousands of rows with an id of a megabyte would not fit into memory."""
    most, put, sizes = 1 << 20, TextArena.put, []

    def measured(arena: TextArena, users: pa.Array, cells: np.ndarray) -> None:
        sizes.append(users.nbytes)
        put(arena, users, cells)

    monkeypatch.setattr(grouping, "FEW", 3_000)
    monkeypatch.setattr(grouping, "SWOLLEN", most)
    monkeypatch.setattr(TextArena, "put", measured)
    rows = [(user, k) for k in range(2_000) for user in (b"x" * 10_000, b"", b"y")]
    assert by_grouping(rows, UserEncoding.BINARY, size=100)[0] == by_dictionary(rows)
    assert len(sizes) > 10
    assert max(sizes) <= 2 * most
