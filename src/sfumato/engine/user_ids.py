"""Hash tables from user ids to dense codes, exact, for integers and for bytes. Compiled.

Codes follow the order of arrival and mean nothing: no count and no sample depends on them.

Open addressing with linear probing, ids compared whole. Two 64-bit words an entry. Integers: the id
and its code plus one. Bytes: 31 bits of hash above the code plus one, then where the id's bytes are
and how long. A hash only says where to look, so two ids are never merged. It is keyed per table,
against ids crafted to meet in one place.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.values import bytes_of, numbers
from sfumato.model.compiled import compiled, inlined
from sfumato.model.events import UserEncoding

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

LENGTH_BITS = 20
"""Longest id in bytes is 2^20 - 1."""
MISSING = -2
"""Found for a row without a value; -1 is a value that is not in the table."""
RUN = 128


@compiled
def _scramble(x: Int) -> Int:
    x ^= x >> np.uint64(32)
    x *= np.uint64(0x9FB21C651E98DF25)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(32))


@compiled
def place_integer(table: Array, key: Int, code: Int, seed: Int) -> None:
    """Enter `key` with `code` into a table that has room and does not hold it."""
    mask = np.int64(table.size // 2 - 1)
    at = np.int64(_scramble(np.uint64(key) ^ seed)) & mask
    while table[2 * at + 1] != 0:
        at = (at + 1) & mask
    table[2 * at] = key
    table[2 * at + 1] = code + 1


@compiled
def find_integer(table: Array, key: Int, seed: Int) -> Int:
    """Code of `key` or -1 minus the free entry where it belongs."""
    mask = np.int64(table.size // 2 - 1)
    at = np.int64(_scramble(np.uint64(key) ^ seed)) & mask
    while table[2 * at + 1] != 0:
        if table[2 * at] == key:
            return table[2 * at + 1] - 1
        at = (at + 1) & mask
    return -1 - at


@compiled
def enter_integers(ids: Array, start: Int, stop: Int, table: Array, seed: Int) -> None:
    """Enter ids[start:stop], all different, under their index."""
    for code in range(start, stop):
        place_integer(table, ids[code], code, seed)


@compiled
def find_integers(keys: Array, valid: Array, table: Array, seed: Int, out: Array) -> None:
    """Codes of a column of integers, -1 for unknown ones, MISSING where not valid."""
    for i in range(keys.size):
        if valid.size and not valid[i]:
            out[i] = MISSING
            continue
        found = find_integer(table, keys[i], seed)
        out[i] = found if found >= 0 else -1


@inlined
def _word(data: Array, at: Int) -> Int:
    """Eight bytes as one number. An unsigned index keeps this a single load."""
    at = np.uintp(at)
    word = np.uint64(data[at])
    word |= np.uint64(data[at + np.uintp(1)]) << np.uint64(8)
    word |= np.uint64(data[at + np.uintp(2)]) << np.uint64(16)
    word |= np.uint64(data[at + np.uintp(3)]) << np.uint64(24)
    word |= np.uint64(data[at + np.uintp(4)]) << np.uint64(32)
    word |= np.uint64(data[at + np.uintp(5)]) << np.uint64(40)
    word |= np.uint64(data[at + np.uintp(6)]) << np.uint64(48)
    word |= np.uint64(data[at + np.uintp(7)]) << np.uint64(56)
    return word


@inlined
def _tail(data: Array, at: Int, length: Int) -> Int:
    """Fewer than eight bytes as one number, zeros above; one load where the array goes on."""
    if at + 8 <= data.size:
        return _word(data, at) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
    word = np.uint64(0)
    for j in range(length):
        word |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return word


@compiled
def _hash_bytes(data: Array, start: Int, stop: Int, seed: Int) -> Int:
    h = seed ^ (np.uint64(stop - start) * np.uint64(0x9E3779B97F4A7C15))
    at = start
    while at + 8 <= stop:
        h = (h ^ _word(data, at)) * np.uint64(0x9FB21C651E98DF25)
        h ^= h >> np.uint64(32)
        at += 8
    return _scramble(h ^ _tail(data, at, stop - at))


@compiled
def _same(arena: Array, begin: Int, data: Array, start: Int, length: Int) -> bool:
    done = 0
    while done + 8 <= length:
        if _word(arena, begin + done) != _word(data, start + done):
            return False
        done += 8
    rest = length - done
    return bool(_tail(arena, begin + done, rest) == _tail(data, start + done, rest))


@compiled
def find_bytes(table: Array, arena: Array, data: Array, start: Int, stop: Int, hashed: Int) -> Int:
    """Code of the id data[start:stop] or -1 minus the free entry where it belongs."""
    mask = np.int64(table.size // 2 - 1)
    length = stop - start
    tag = np.int64(hashed >> np.uint64(33))
    at = np.int64(hashed & np.uint64(mask))
    while True:
        entry = table[2 * at]
        if entry == 0:
            return -1 - at
        where = table[2 * at + 1]
        length_there = where & ((1 << LENGTH_BITS) - 1)
        if (
            (entry >> 32) == tag
            and length_there == length
            and _same(arena, where >> LENGTH_BITS, data, start, length)
        ):
            return (entry & 0xFFFFFFFF) - 1
        at = (at + 1) & mask


@compiled
def enter_bytes(starts: Array, count: Int, arena: Array, table: Array, seed: Int) -> None:
    """Enter the ids arena[starts[c]:starts[c + 1]], all different, under their index."""
    mask = np.int64(table.size // 2 - 1)
    for code in range(count):
        begin, end = starts[code], starts[code + 1]
        hashed = _hash_bytes(arena, begin, end, seed)
        at = np.int64(hashed & np.uint64(mask))
        while table[2 * at] != 0:
            at = (at + 1) & mask
        table[2 * at] = (np.int64(hashed >> np.uint64(33)) << 32) | (code + 1)
        table[2 * at + 1] = (begin << LENGTH_BITS) | (end - begin)


@compiled
def find_texts(
    offsets: Array, data: Array, valid: Array, table: Array, arena: Array, seed: Int, out: Array
) -> None:
    """Codes of a column of texts, -1 for unknown ones, MISSING where not valid."""
    for i in range(offsets.size - 1):
        if valid.size and not valid[i]:
            out[i] = MISSING
            continue
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        hashed = _hash_bytes(data, start, stop, seed)
        found = find_bytes(table, arena, data, start, stop, hashed)
        out[i] = found if found >= 0 else -1


@compiled
def code_integers(
    keys: Array,
    cells: Array,
    table: Array,
    ids: Array,
    count: Int,
    seed: Int,
    codes: Array,
    packed: Array,
) -> tuple[int, int]:
    """Codes of the users of all kept rows, new ids entered. Returns (rows, users)."""
    rows = 0
    for i in range(keys.size):
        if cells[i] < 0:
            continue
        found = find_integer(table, keys[i], seed)
        if found < 0:
            at = -1 - found
            table[2 * at] = keys[i]
            table[2 * at + 1] = count + 1
            ids[count] = keys[i]
            found = count
            count += 1
        codes[rows] = found
        packed[rows] = cells[i]
        rows += 1
    return rows, count


@compiled
def code_texts(
    offsets: Array,
    data: Array,
    cells: Array,
    table: Array,
    arena: Array,
    starts: Array,
    count: Int,
    seed: Int,
    codes: Array,
    packed: Array,
) -> tuple[int, int]:
    """As `code_integers` for ids that are bytes; `arena` has room for the whole batch.

    Rows go through in short runs, each step for the whole run: hash, first entry, compare.
    The reads of a step do not wait for each other, which is most of the time saved.
    """
    mask = np.uint64(table.size // 2 - 1)
    row = np.empty(RUN, np.int64)
    hashes = np.empty(RUN, np.uint64)
    entries = np.empty(RUN, np.int64)
    wheres = np.empty(RUN, np.int64)
    rows = 0
    i = 0
    while i < offsets.size - 1:
        size = 0
        while i < offsets.size - 1 and size < RUN:
            if cells[i] >= 0:
                row[size] = i
                hashes[size] = _hash_bytes(
                    data, np.int64(offsets[i]), np.int64(offsets[i + 1]), seed
                )
                size += 1
            i += 1
        for n in range(size):
            at = np.int64(hashes[n] & mask)
            entries[n] = table[2 * at]
            wheres[n] = table[2 * at + 1]
        for n in range(size):
            start, stop = np.int64(offsets[row[n]]), np.int64(offsets[row[n] + 1])
            found = (entries[n] & 0xFFFFFFFF) - 1
            if (
                entries[n] >> 32 != np.int64(hashes[n] >> np.uint64(33))
                or wheres[n] & ((1 << LENGTH_BITS) - 1) != stop - start
                or not _same(arena, wheres[n] >> LENGTH_BITS, data, start, stop - start)
            ):
                found = -1
            codes[rows + n] = found
            packed[rows + n] = cells[row[n]]
        for n in range(size):
            if codes[rows + n] >= 0:
                continue
            start, stop = np.int64(offsets[row[n]]), np.int64(offsets[row[n] + 1])
            found = find_bytes(table, arena, data, start, stop, hashes[n])
            if found < 0:
                at = -1 - found
                begin = starts[count]
                for j in range(stop - start):
                    arena[begin + j] = data[start + j]
                table[2 * at] = (np.int64(hashes[n] >> np.uint64(33)) << 32) | (count + 1)
                table[2 * at + 1] = (begin << LENGTH_BITS) | (stop - start)
                starts[count + 1] = begin + stop - start
                found = count
                count += 1
            codes[rows + n] = found
        rows += size
    return rows, count


_LOAD = 0.7
_FIRST = 1 << 12


def _capacity(entries: int) -> int:
    size = _FIRST
    while entries > _LOAD * size:
        size *= 2
    return size


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    if needed <= array.size:
        return array
    larger = np.zeros(max(needed, array.size + array.size // 2), array.dtype)
    larger[: array.size] = array
    return larger


class IntegerIds:
    """64-bit integers."""

    encoding = UserEncoding.INTEGER

    def __init__(self) -> None:
        self._seed = np.uint64(secrets.randbits(64))
        self._table = np.zeros(2 * _FIRST, np.int64)
        self._ids = np.zeros(_FIRST, np.int64)
        self.count = 0

    def _make_room(self, more: int) -> None:
        self._ids = _grown(self._ids, self.count + more)
        size = _capacity(self.count + more)
        if 2 * size > self._table.size:
            self._table = np.zeros(2 * size, np.int64)
            enter_integers(self._ids, 0, self.count, self._table, self._seed)

    def encode(self, column: Any, cells: NDArray[np.int64], packed: NDArray[Any]) -> NDArray[Any]:
        """Codes of the rows whose cell is not negative; their cells go to `packed`."""
        codes = np.empty(cells.size, np.int32)
        self._make_room(cells.size)
        rows, self.count = code_integers(
            numbers(column, np.int64),
            cells,
            self._table,
            self._ids,
            self.count,
            self._seed,
            codes,
            packed,
        )
        return codes[:rows]

    def lookup(self, column: Any, valid: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of a column, -1 where unknown; nothing is entered."""
        found = np.empty(len(column), np.int32)
        find_integers(numbers(column, np.int64), valid, self._table, self._seed, found)
        return found

    def of(self, codes: NDArray[np.int64]) -> Any:
        """The ids of codes, as an Arrow array."""
        return pa.array(self._ids[codes])


class ByteIds:
    """Texts or binary strings, compared byte by byte."""

    def __init__(self, encoding: UserEncoding) -> None:
        self.encoding = encoding
        self._seed = np.uint64(secrets.randbits(64))
        self._table = np.zeros(2 * _FIRST, np.int64)
        self._starts = np.zeros(_FIRST + 1, np.int64)
        self._arena = np.zeros(1 << 16, np.uint8)
        self.count = 0

    def _make_room(self, more: int, more_bytes: int) -> None:
        self._starts = _grown(self._starts, self.count + more + 1)
        self._arena = _grown(self._arena, int(self._starts[self.count]) + more_bytes)
        size = _capacity(self.count + more)
        if 2 * size > self._table.size:
            self._table = np.zeros(2 * size, np.int64)
            enter_bytes(self._starts, self.count, self._arena, self._table, self._seed)

    def encode(self, column: Any, cells: NDArray[np.int64], packed: NDArray[Any]) -> NDArray[Any]:
        """Codes of the rows whose cell is not negative; their cells go to `packed`."""
        offsets, data = bytes_of(column)
        kept = np.diff(offsets)[cells >= 0]
        # The reader has dropped longer ids (`sfumato.io.rows`), so this is a fault of the program.
        assert int(kept.max(initial=0)) < 1 << LENGTH_BITS
        codes = np.empty(cells.size, np.int32)
        self._make_room(cells.size, int(offsets[-1] - offsets[0]))
        rows, self.count = code_texts(
            offsets,
            data,
            cells,
            self._table,
            self._arena,
            self._starts,
            self.count,
            self._seed,
            codes,
            packed,
        )
        return codes[:rows]

    def lookup(self, column: Any, valid: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of a column, -1 where unknown; nothing is entered."""
        offsets, data = bytes_of(column)
        found = np.empty(len(column), np.int32)
        find_texts(offsets, data, valid, self._table, self._arena, self._seed, found)
        return found

    def of(self, codes: NDArray[np.int64]) -> Any:
        """The ids of codes, as an Arrow array."""
        ends = pa.py_buffer(self._starts[: self.count + 1])
        whole = pa.Array.from_buffers(
            pa.large_string() if self.encoding is UserEncoding.TEXT else pa.large_binary(),
            self.count,
            [None, ends, pa.py_buffer(self._arena)],
        )
        return whole.take(pa.array(codes))


Ids = IntegerIds | ByteIds


def ids_for(encoding: UserEncoding) -> Ids:
    """An empty table for ids held as `encoding`."""
    return IntegerIds() if encoding is UserEncoding.INTEGER else ByteIds(encoding)
