"""Ids that are texts or bytes, told apart partition by partition. Compiled, exact.

A table of all ids, with the ids beside it, is larger than a processor's cache, and every row waits
for memory three times. Here a row first goes to the buffer of its partition, id and cell together,
and a full buffer is worked off at once: the part of the table and the ids that it needs are then
read for some thousand rows instead of for one.

**Exact.** A hash says the partition and where to look; ids are compared whole, so two are never
merged. It is NH of UMAC (Black, Halevi, Krawczyk, Krovetz & Rogaway 1999) on 32-bit halves, keyed
per object: two different ids of one length of at most 64 words meet with probability 2^-32 over the
key, whoever wrote them. Longer ones are folded every 64 words.

DuckDB and Arrow tell ids apart too: to group the same rows by them and nothing else took DuckDB as
long as a whole bounded count (docs/benchmarks/counting.md).

Ids with few rows are one partition, and many are told apart in 512 (`sfumato.engine.grouping`).

An id is kept as 64-bit words, filled up with zeros, behind its length and its code. Codes count the
ids of a partition in order of arrival and mean nothing: no count and no sample depends on them.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.partition import PARTITION_BITS, RUN, Arena
from sfumato.io.values import bytes_of, longest, put_word, word_at
from sfumato.model.compiled import compiled
from sfumato.model.events import UserEncoding

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

LENGTH_BITS = 20
"""Longest id in bytes is 2^20 - 1."""
MOST_WORDS = 1 << 14
"""Words of a partition's buffer, 128 KiB: 3,300 rows of 32-character ids, 64 MiB in all. Half as
much took 34 to 37 ns a row instead of 29 to 38, on a busy machine."""
LEAST_WORDS = 1 << 6
_KEY_WORDS = 64
_SHORT_BITS = 6
_SHORT = (1 << _SHORT_BITS) - 1
"""Shorter ids have their length, tag and cell of 31 bits in one word, others in three: it is the
bytes moved that take the time."""
_TAG_BITS = 27
_WHERE_BITS = 64 - _TAG_BITS
_LOAD_TENTHS = 6
_FIRST_TABLE, _FIRST_IDS = 1 << 6, 1 << 12
_LONGEST = (1 << LENGTH_BITS >> 3) + 3


@compiled
def work_off(
    partition: Int,
    room: Array,
    begin: Int,
    end: Int,
    table: Array,
    counts: Array,
    ids: Array,
    used: Array,
    ends: Array,
    keys: Array,
    cells: Array,
    owners: Array,
) -> Int:
    """Code the rows that stand in room[begin:end], new ids entered, and add them to the runs.

    `used` are the words of `ids` and the runs that are taken. Returns `end`, or where it stopped
    because the table, `ids` or the runs are full.
    """
    one = np.uintp(1)
    partition = np.uintp(partition)
    mask = np.uint64(table.shape[1] - 1)
    most = table.shape[1] * _LOAD_TENTHS // 10
    free = np.uintp(used[0])
    out = np.uintp(ends[partition])
    at = np.uintp(begin)
    while at < np.uintp(end):
        head = room[at]
        first = at + one
        length = head & np.uint64(_SHORT)
        cell = head >> np.uint64(_SHORT_BITS + _TAG_BITS)
        if length == _SHORT:
            cell, length = room[first], room[at + np.uintp(2)]
            first = at + np.uintp(3)
        words = np.uintp((length + np.uint64(7)) >> np.uint64(3))
        tag = (head >> np.uint64(_SHORT_BITS)) & np.uint64((1 << _TAG_BITS) - 1)
        if out & np.uintp(RUN - 1) == 0 and used[1] == owners.size:
            break
        entry = tag & mask
        code = np.int64(-1)
        while table[partition, entry] != 0:
            found = table[partition, entry]
            if found >> np.uint64(_WHERE_BITS) == tag:
                known = np.uintp(found & np.uint64((1 << _WHERE_BITS) - 1))
                if ids[known] >> np.uint64(32) == length:
                    apart = np.uint64(0)
                    for k in range(words):
                        apart |= ids[known + one + k] ^ room[first + k]
                    if apart == 0:
                        code = np.int64(ids[known] & np.uint64(0xFFFFFFFF))
                        break
            entry = (entry + np.uint64(1)) & mask
        if code < 0:
            if counts[partition] >= most or free + one + words > np.uintp(ids.size):
                break
            code = np.int64(counts[partition])
            counts[partition] = code + 1
            table[partition, entry] = (tag << np.uint64(_WHERE_BITS)) | np.uint64(free)
            ids[free] = (length << np.uint64(32)) | np.uint64(code)
            for k in range(words):
                ids[free + one + k] = room[first + k]
            free += one + words
        if out & np.uintp(RUN - 1) == 0:
            out = np.uintp(used[1] * RUN)
            owners[used[1]] = partition
            used[1] += 1
        keys[out] = code
        cells[out] = np.int64(cell)
        out += one
        at = first + words
    used[0] = np.int64(free)
    ends[partition] = np.int64(out)
    return np.int64(at)


@compiled
def take_texts(
    row: Int,
    offsets: Array,
    data: Array,
    given: Array,
    key: Array,
    mask: Int,
    width: Int,
    room: Array,
    begins: Array,
    fill: Array,
    table: Array,
    counts: Array,
    ids: Array,
    used: Array,
    ends: Array,
    keys: Array,
    cells: Array,
    owners: Array,
) -> Int:
    """Rows from `row` on whose cell is not negative to their buffers, full ones worked off.

    Returns how many rows are done: all, or those before the one for which there was no room.
    """
    one = np.uintp(1)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for i in range(row, offsets.size - 1):
        if given[i] < 0:
            continue
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        whole = length >> 3
        words = whole
        last = np.uint64(0)
        h = key[np.uintp(_KEY_WORDS)] + np.uint64(length) * np.uint64(0x9E3779B97F4A7C15)
        for k in range(whole if whole < _KEY_WORDS else _KEY_WORDS):
            word, own = word_at(data, start + 8 * k), key[np.uintp(k)]
            h += ((word + own) & low) * (((word >> half) + (own >> half)) & low)
        for k in range(_KEY_WORDS, whole):
            word, own = word_at(data, start + 8 * k), key[np.uintp(k & (_KEY_WORDS - 1))]
            if k & (_KEY_WORDS - 1) == 0:
                h = (h ^ (h >> half)) * np.uint64(0x9FB21C651E98DF25)
            h += ((word + own) & low) * (((word >> half) + (own >> half)) & low)
        if length & 7:
            words += 1
            for k in range(length & 7):
                last |= np.uint64(data[np.uintp(start + 8 * whole + k)]) << np.uint64(8 * k)
            own = key[np.uintp(whole & (_KEY_WORDS - 1))]
            h = h ^ (h >> half) if whole >= _KEY_WORDS else h
            h += ((last + own) & low) * (((last >> half) + (own >> half)) & low)
        h = (h ^ (h >> half)) * np.uint64(0x9FB21C651E98DF25)
        h = (h ^ (h >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> half
        partition = np.int64(h >> np.uint64(64 - PARTITION_BITS)) & mask
        at = np.int64(fill[partition])
        short = length < _SHORT and given.itemsize == 4
        size = words + (1 if short else 3)
        long = size > width
        if long:
            at = np.int64((mask + 1) * width)  # a place of its own, and worked off at once
        elif at + size > width:
            base = partition * width
            done = work_off(
                partition, room, base + begins[partition], base + at,
                table, counts, ids, used, ends, keys, cells, owners,
            )  # fmt: skip
            if done < base + at:
                begins[partition] = done - base
                return i
            begins[partition] = 0
            at = base
        else:
            at += partition * width
        to = np.uintp(at)
        cell = np.uint64(np.int64(given[i]))
        tag = (h & np.uint64((1 << _TAG_BITS) - 1)) << np.uint64(_SHORT_BITS)
        if short:
            room[to] = cell << np.uint64(_SHORT_BITS + _TAG_BITS) | tag | np.uint64(length)
        else:
            room[to] = tag | np.uint64(_SHORT)
            room[to + one] = cell
            room[to + np.uintp(2)] = np.uint64(length)
            to += np.uintp(2)
        to += one
        for k in range(whole):
            room[to + np.uintp(k)] = word_at(data, start + 8 * k)
        if words > whole:
            room[to + np.uintp(whole)] = last
        if not long:
            fill[partition] = at + size - partition * width
            continue
        done = work_off(
            partition, room, at, at + size,
            table, counts, ids, used, ends, keys, cells, owners,
        )  # fmt: skip
        if done == at:
            return i
    return offsets.size - 1


@compiled
def enter_again(before: Array, table: Array) -> None:
    """Put the entries of all partitions into larger tables, which are empty."""
    mask = np.uint64(table.shape[1] - 1)
    for partition in range(before.shape[0]):
        for k in range(before.shape[1]):
            found = before[partition, k]
            if found == 0:
                continue
            entry = (found >> np.uint64(_WHERE_BITS)) & mask
            while table[partition, entry] != 0:
                entry = (entry + np.uint64(1)) & mask
            table[partition, entry] = found


@compiled
def locate_ids(table: Array, firsts: Array, ids: Array, where: Array) -> None:
    """Where each id stands, by partition and code."""
    for partition in range(table.shape[0]):
        for k in range(table.shape[1]):
            if table[partition, k] != 0:
                known = np.int64(table[partition, k] & np.uint64((1 << _WHERE_BITS) - 1))
                code = np.int64(ids[known] & np.uint64(0xFFFFFFFF))
                where[firsts[partition] + code] = known


@compiled
def copy_bytes(ids: Array, where: Array, ends: Array, data: Array) -> None:
    """The bytes of ids one after another; `ends` says where each goes, and 7 more bytes are there.

    Whole words are written: what is too much of one is where the next id goes.
    """
    for i in range(where.size):
        known = np.uintp(where[i] + 1)
        for k in range(np.uintp(ends[i + 1] - ends[i] + 7) >> np.uintp(3)):
            put_word(data, np.uintp(ends[i]) + np.uintp(8) * k, ids[known + k])


class TextArena(Arena):
    """Rows of ids that are texts or bytes. `memory` bounds the buffers, which are most at first."""

    def __init__(
        self, cells: np.dtype[Any], encoding: UserEncoding, bits: int, rows: int, memory: int
    ) -> None:
        super().__init__(cells, None, bits, rows)
        partitions = 1 << bits
        self._encoding = encoding
        self._key = np.array([secrets.randbits(64) for _ in range(_KEY_WORDS + 1)], np.uint64)
        self._width = min(MOST_WORDS, max(LEAST_WORDS, memory // (64 * partitions)))
        self._room = np.empty(partitions * self._width + _LONGEST, np.uint64)
        self._begins = np.zeros(partitions, np.int64)
        self._fill = np.zeros(partitions, np.int64)
        self._table = np.zeros((partitions, _FIRST_TABLE), np.uint64)
        self._counts = np.zeros(partitions, np.int64)
        self._ids = np.empty(max(_FIRST_IDS, rows), np.uint64)
        self._words = 1  # an entry that is zero is none
        self._where = np.empty(0, np.int64)

    @property
    def users(self) -> NDArray[np.int64]:
        """How many ids each partition has, of the rows that are worked off."""
        return self._counts

    def put(self, users: Any, cells: NDArray[Any]) -> None:
        """Rows of an Arrow column of ids, where the cell is not negative."""
        offsets, data = bytes_of(users)
        if longest(offsets) >= 1 << LENGTH_BITS:
            # The reader has dropped longer ids (`sfumato.io.rows`): a fault of the program.
            assert not (cells[np.diff(offsets) >= 1 << LENGTH_BITS] >= 0).any()
        row = 0
        while True:
            used = np.array([self._words, self._used], np.int64)
            row = take_texts(
                row, offsets, data, cells, self._key, self._mask, self._width, self._room,
                self._begins, self._fill, self._table, self._counts, self._ids, used,
                self._ends, self._keys, self._cells, self._owners,
            )  # fmt: skip
            self._words, self._used = (int(n) for n in used)
            if row == offsets.size - 1:
                return
            self._make_more_room()

    def work_off_all(self) -> None:
        """Empty all buffers."""
        for partition in range(1 << self.bits):
            base = partition * self._width
            end = base + int(self._fill[partition])
            begin = base + int(self._begins[partition])
            while begin < end:
                used = np.array([self._words, self._used], np.int64)
                begin = work_off(
                    partition, self._room, begin, end, self._table, self._counts, self._ids, used,
                    self._ends, self._keys, self._cells, self._owners,
                )  # fmt: skip
                self._words, self._used = (int(n) for n in used)
                if begin < end:
                    self._make_more_room()
        self._begins[:] = self._fill[:] = 0

    def _make_more_room(self) -> None:
        """Where little is left of something, more of it."""
        if self._used + (1 << self.bits) > self._owners.size:
            self._make_room(RUN << self.bits)
        if self._words + _LONGEST > self._ids.size:
            self._ids.resize(max(self._words + 2 * _LONGEST, self._words * 9 // 8), refcheck=False)
        size = self._table.shape[1]
        if int(self._counts.max()) >= size * _LOAD_TENTHS // 10:
            before, self._table = self._table, np.zeros((1 << self.bits, 2 * size), np.uint64)
            enter_again(before, self._table)

    def finish(self) -> None:
        """No more rows come: what only they need is let go."""
        self.work_off_all()
        self._room = np.empty(0, np.uint64)
        firsts = np.cumsum(self._counts) - self._counts
        self._where = np.empty(int(self._counts.sum()), np.int64)
        locate_ids(self._table, firsts, self._ids, self._where)
        self._table = np.empty((0, 1), np.uint64)

    def of(self, users: NDArray[np.int64]) -> Any:
        """Ids of users who stand in order of their partitions, then of their codes."""
        where = self._where[users]
        ends = np.zeros(where.size + 1, np.int64)
        np.cumsum(self._ids[where] >> np.uint64(32), out=ends[1:], dtype=np.int64)
        data = np.empty(int(ends[-1]) + 7, np.uint8)
        copy_bytes(self._ids, where, ends, data)
        kind = pa.large_string() if self._encoding is UserEncoding.TEXT else pa.large_binary()
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, where.size, buffers)

    def _shape(self, partition: int, users: int) -> tuple[int, int]:  # noqa: ARG002
        return 0, int(self._counts[partition])


class DistinctIds:
    """How many different ids columns of texts have, and nothing else of them."""

    def __init__(self) -> None:
        self._arena = TextArena(np.dtype(np.int32), UserEncoding.TEXT, 0, 0, MOST_WORDS << 6)

    def add(self, ids: Any, cells: NDArray[np.int32]) -> None:
        """The next ids, where the cell is not negative."""
        self._arena.put(ids, cells)
        self._arena.forget_rows()

    def count(self) -> int:
        """Of all ids."""
        self._arena.work_off_all()
        return int(self._arena.users.sum())
