"""Hash tables from user ids to dense codes, exact, for integers and for bytes. Compiled.

Codes follow the order of arrival and mean nothing: no count and no sample depends on them.

Open addressing with linear probing, ids compared whole. An entry of integers is two 64-bit words,
the id and its code plus one; of bytes one, 31 bits of hash above the code plus one: `starts` says
where the bytes of a code are. A hash only says where to look, so two ids are never merged. It is
keyed per table, against ids crafted to meet in one place.

The loop over ids that are bytes calls no function that is given an array and has a branch: numba
counts references to the array around each such call, by a locked instruction, which took longer
than the work (docs/decisions/bounded-counting.md).
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.values import bytes_of, numbers, word_at
from sfumato.model.compiled import compiled
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


@compiled
def enter_again(before: Array, table: Array) -> None:
    """Put the entries of a table of bytes into a larger one, which is empty."""
    mask = np.int64(table.size - 1)
    for k in range(before.size):
        if before[k] == 0:
            continue
        at = (before[k] >> 32) & mask
        while table[at] != 0:
            at = (at + 1) & mask
        table[at] = before[k]


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
    enter: bool,
    codes: Array,
    packed: Array,
) -> tuple[int, int]:
    """As `code_integers` for ids that are bytes; `arena` has room for the whole batch.

    Unless `enter`, nothing is entered, and -1 is the code of ids that are not known.
    Rows go through in short runs, each step for the whole run: hash, first entry, where its bytes
    are, compare. The reads of a step do not wait for each other, which saves most of the time.
    """
    one = np.uintp(1)
    mask = np.uint64(table.size - 1)
    row = np.empty(RUN, np.int64)
    hashes = np.empty(RUN, np.uint64)
    likely = np.empty(RUN, np.int64)
    touched = np.uint8(0)
    rows = 0
    i = 0
    while i < offsets.size - 1:
        size = 0
        while i < offsets.size - 1 and size < RUN:
            if cells[i] >= 0:
                start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
                h = seed ^ (np.uint64(stop - start) * np.uint64(0x9E3779B97F4A7C15))
                at = start
                while at + 8 <= stop:
                    h = (h ^ word_at(data, at)) * np.uint64(0x9FB21C651E98DF25)
                    h ^= h >> np.uint64(32)
                    at += 8
                if at < stop and stop - start >= 8:
                    h ^= word_at(data, stop - 8)  # some of them for the second time
                elif at < stop:
                    word = np.uint64(0)
                    for j in range(at, stop):
                        word = (word << np.uint64(8)) | np.uint64(data[np.uintp(j)])
                    h ^= word
                hashes[size] = _scramble(h) & np.uint64(0x7FFFFFFF)
                row[size] = i
                packed[rows + size] = cells[i]
                size += 1
            i += 1
        for n in range(size):
            likely[n] = table[np.uintp(hashes[n] & mask)] & 0xFFFFFFFF
        for n in range(size):
            likely[n] = starts[np.uintp(max(likely[n] - 1, 0))]
        for n in range(size):
            touched ^= arena[np.uintp(likely[n])]
        for n in range(size):
            start = np.int64(offsets[row[n]])
            length = np.int64(offsets[row[n] + 1]) - start
            tag = np.int64(hashes[n])
            entry = np.uintp(hashes[n] & mask)
            found = np.int64(-1)
            while table[entry] != 0:
                code = np.uintp((table[entry] & 0xFFFFFFFF) - 1)
                if table[entry] >> 32 == tag and starts[code + one] - starts[code] == length:
                    begin = starts[code]
                    apart = np.uint64(0)
                    done = np.int64(0)
                    while done + 8 <= length:
                        apart |= word_at(arena, begin + done) ^ word_at(data, start + done)
                        done += 8
                    if done < length and length >= 8:
                        last = length - 8
                        apart |= word_at(arena, begin + last) ^ word_at(data, start + last)
                    elif done < length:
                        for j in range(length):
                            apart |= np.uint64(
                                arena[np.uintp(begin + j)] ^ data[np.uintp(start + j)]
                            )
                    if apart == 0:
                        found = np.int64(code)
                        break
                entry = np.uintp((np.uint64(entry) + np.uint64(1)) & mask)
            if found < 0 and enter:
                begin = starts[count]
                for j in range(length):
                    arena[np.uintp(begin + j)] = data[np.uintp(start + j)]
                table[entry] = (tag << 32) | (count + 1)
                starts[count + 1] = begin + length
                found = np.int64(count)
                count += 1
            codes[rows + n] = found
        rows += size
    packed[rows:] = touched  # else the compiler leaves out what was only touched
    return rows, count


_LOAD = 0.7
_FIRST = 1 << 12


def _capacity(entries: int) -> int:
    size = _FIRST
    while entries > _LOAD * size:
        size *= 2
    return size


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    """With room for so many. Moved, not copied, where the system can."""
    if needed > array.size:
        array.resize(max(needed, array.size * 5 // 4), refcheck=False)
    return array


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
        self._table = np.zeros(_FIRST, np.int64)
        self._starts = np.zeros(_FIRST + 1, np.int64)
        self._arena = np.zeros(1 << 16, np.uint8)
        self.count = 0

    def _make_room(self, more: int, more_bytes: int) -> None:
        self._starts = _grown(self._starts, self.count + more + 1)
        # One byte more than is needed: an empty id at the end is looked at, too.
        self._arena = _grown(self._arena, int(self._starts[self.count]) + more_bytes + 1)
        size = _capacity(self.count + more)
        if size > self._table.size:
            before, self._table = self._table, np.zeros(size, np.int64)
            enter_again(before, self._table)

    def encode(self, column: Any, cells: NDArray[np.int64], packed: NDArray[Any]) -> NDArray[Any]:
        """Codes of the rows whose cell is not negative; their cells go to `packed`."""
        offsets, _ = bytes_of(column)
        self._make_room(cells.size, int(offsets[-1] - offsets[0]))
        return self._code(column, cells, packed, True)

    def lookup(self, column: Any, valid: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of a column, -1 where unknown; nothing is entered."""
        found = np.full(len(column), MISSING, np.int32)
        there = valid if valid.size else np.ones(len(column), np.bool_)
        cells = np.where(there, np.int32(0), np.int32(-1))
        found[there] = self._code(column, cells, np.empty_like(cells), False)
        return found

    def _code(
        self, column: Any, cells: NDArray[Any], packed: NDArray[Any], enter: bool
    ) -> NDArray[Any]:
        offsets, data = bytes_of(column)
        kept = np.diff(offsets)[cells >= 0]
        # The reader has dropped longer ids (`sfumato.io.rows`), so this is a fault of the program.
        assert int(kept.max(initial=0)) < 1 << LENGTH_BITS
        codes = np.empty(cells.size, np.int32)
        rows, self.count = code_texts(
            offsets,
            data,
            cells,
            self._table,
            self._arena,
            self._starts,
            self.count,
            self._seed,
            enter,
            codes,
            packed,
        )
        return codes[:rows]

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
