"""Compiled tables from ids to dense codes: open addressing, linear probing, ids compared whole.

Two 64-bit words an entry. Integers: the id and its code plus one. Bytes: 31 bits of hash above
the code plus one, then where the id's bytes are and how long. A hash only says where to look,
so two ids are never merged. It is keyed per table, against ids crafted to meet in one place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

LENGTH_BITS = 20
"""Longest id in bytes is 2^20 - 1."""
MISSING = -2
"""Found for a row without a value; -1 is a value that is not in the table."""
RUN = 128


@njit(cache=True, nogil=True)
def _scramble(x: Int) -> Int:
    x ^= x >> np.uint64(32)
    x *= np.uint64(0x9FB21C651E98DF25)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(32))


@njit(cache=True, nogil=True)
def place_integer(table: Array, key: Int, code: Int, seed: Int) -> None:
    """Enter `key` with `code` into a table that has room and does not hold it."""
    mask = np.int64(table.size // 2 - 1)
    at = np.int64(_scramble(np.uint64(key) ^ seed)) & mask
    while table[2 * at + 1] != 0:
        at = (at + 1) & mask
    table[2 * at] = key
    table[2 * at + 1] = code + 1


@njit(cache=True, nogil=True)
def find_integer(table: Array, key: Int, seed: Int) -> Int:
    """Code of `key` or -1 minus the free entry where it belongs."""
    mask = np.int64(table.size // 2 - 1)
    at = np.int64(_scramble(np.uint64(key) ^ seed)) & mask
    while table[2 * at + 1] != 0:
        if table[2 * at] == key:
            return table[2 * at + 1] - 1
        at = (at + 1) & mask
    return -1 - at


@njit(cache=True, nogil=True)
def enter_integers(ids: Array, start: Int, stop: Int, table: Array, seed: Int) -> None:
    """Enter ids[start:stop], all different, under their index."""
    for code in range(start, stop):
        place_integer(table, ids[code], code, seed)


@njit(cache=True, nogil=True)
def find_integers(keys: Array, valid: Array, table: Array, seed: Int, out: Array) -> None:
    """Codes of a column of integers, -1 for unknown ones, MISSING where not valid."""
    for i in range(keys.size):
        if valid.size and not valid[i]:
            out[i] = MISSING
            continue
        found = find_integer(table, keys[i], seed)
        out[i] = found if found >= 0 else -1


@njit(cache=True, nogil=True, inline="always")
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


@njit(cache=True, nogil=True, inline="always")
def _tail(data: Array, at: Int, length: Int) -> Int:
    """Fewer than eight bytes as one number, zeros above; one load where the array goes on."""
    if at + 8 <= data.size:
        return _word(data, at) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
    word = np.uint64(0)
    for j in range(length):
        word |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return word


@njit(cache=True, nogil=True)
def _hash_bytes(data: Array, start: Int, stop: Int, seed: Int) -> Int:
    h = seed ^ (np.uint64(stop - start) * np.uint64(0x9E3779B97F4A7C15))
    at = start
    while at + 8 <= stop:
        h = (h ^ _word(data, at)) * np.uint64(0x9FB21C651E98DF25)
        h ^= h >> np.uint64(32)
        at += 8
    return _scramble(h ^ _tail(data, at, stop - at))


@njit(cache=True, nogil=True)
def _same(arena: Array, begin: Int, data: Array, start: Int, length: Int) -> bool:
    done = 0
    while done + 8 <= length:
        if _word(arena, begin + done) != _word(data, start + done):
            return False
        done += 8
    rest = length - done
    return bool(_tail(arena, begin + done, rest) == _tail(data, start + done, rest))


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
