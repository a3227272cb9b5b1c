"""Rows in partitions of users: sequential writes while rows arrive, then grouping in the cache.

While rows arrive, each goes to one of 512 partitions by its user, into short runs of one arena.
Afterwards each partition is grouped alone; its table of users and its cells fit into a processor's
cache, so that no step waits for memory. A user's cells are sorted and repeats dropped, so nothing
of a row's order survives, and no count can depend on it.

**Exact.** Two users are never merged. An integer id is scrambled by a bijection of 64 bits, keyed
per object against ids crafted to meet in one place: its top bits say the partition, and all of it
is the key that is compared. Where users have dense codes, the codes' low bits say the partition.
Order and partitions of users mean nothing: counts are sums of integers over users.

DuckDB and Arrow group rows by user too, but to sums: neither gives each user's cells together,
sorted and distinct, which is what a pass over users needs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled, inlined

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

PARTITION_BITS = 9
"""With 512, a partition of ten million users has 20,000: their table is half a megabyte."""
RUN = 512
"""Rows of a partition that stand together: four kilobytes of keys, so that reading them goes on for
a while. (128 took a third longer to number users; what stays unused is 2 MB in all.)"""
FEW = 1 << 16
"""Up to so many rows are one partition."""
_LOAD_TENTHS = 4
"""A table of users is at most so many tenths full: every probe that fails is a branch mispredicted,
which costs more than the room. (7 took a quarter longer.)"""
_MANY = 64
"""Rows of a user above which sorting beats putting each in its place."""

_FIRST, _SECOND = 0x9FB21C651E98DF25, 0xD6E8FEB86659FD93
_FIRST_BACK, _SECOND_BACK = pow(_FIRST, -1, 1 << 64), pow(_SECOND, -1, 1 << 64)


@inlined
def _mixed(x: Int) -> Int:
    """A bijection of 64 bits in which every bit of the result depends on every bit given."""
    x ^= x >> np.uint64(32)
    x *= np.uint64(_FIRST)
    x ^= x >> np.uint64(29)
    x *= np.uint64(_SECOND)
    return x ^ (x >> np.uint64(32))


@compiled
def unmixed(keys: Array, seed: Int, ids: Array) -> None:
    """The ids that `_mixed` made keys of."""
    for i in range(keys.size):
        x = np.uint64(keys[i])
        x = (x ^ (x >> np.uint64(32))) * np.uint64(_SECOND_BACK)
        x ^= (x >> np.uint64(29)) ^ (x >> np.uint64(58))
        x *= np.uint64(_FIRST_BACK)
        ids[i] = np.int64(x ^ (x >> np.uint64(32)) ^ seed)


@compiled
def put_ids(
    ids: Array,
    given: Array,
    seed: Int,
    mask: Int,
    ends: Array,
    used: Int,
    keys: Array,
    cells: Array,
    owners: Array,
) -> Int:
    """Rows whose cell is not negative to their partitions; how many runs are used then."""
    for i in range(ids.size):
        if given[i] < 0:
            continue
        key = _mixed(np.uint64(ids[i]) ^ seed)
        partition = np.uintp(key >> np.uint64(64 - PARTITION_BITS)) & np.uintp(mask)
        at = np.uintp(ends[partition])
        if at & np.uintp(RUN - 1) == 0:
            at = np.uintp(used * RUN)
            owners[used] = partition
            used += 1
        keys[at] = np.int64(key)
        cells[at] = given[i]
        ends[partition] = at + np.uintp(1)
    return used


@compiled
def put_codes(
    codes: Array,
    given: Array,
    mask: Int,
    ends: Array,
    used: Int,
    keys: Array,
    cells: Array,
    owners: Array,
) -> Int:
    """The same of rows that have a code, all of them."""
    for i in range(codes.size):
        partition = np.uintp(codes[i]) & np.uintp(mask)
        at = np.uintp(ends[partition])
        if at & np.uintp(RUN - 1) == 0:
            at = np.uintp(used * RUN)
            owners[used] = partition
            used += 1
        keys[at] = codes[i]
        cells[at] = given[i]
        ends[partition] = at + np.uintp(1)
    return used


@compiled
def code_keys(
    begins: Array,
    stops: Array,
    keys: Array,
    table: Array,
    codes: Array,
    found: Array,
    counts: Array,
) -> Int:
    """Number each key of a partition in order of arrival, and count its rows.

    `table` is empty. Returns how many users there are, or -1 where it is too small for them.
    """
    mask = np.uintp(table.size // 2 - 1)
    room = np.uintp(table.size // 2 * _LOAD_TENTHS // 10)
    users = np.uintp(0)
    row = np.uintp(0)
    for run in range(begins.size):
        for i in range(np.uintp(begins[run]), np.uintp(stops[run])):
            key = keys[i]
            at = np.uintp(2) * (np.uintp(key) & mask)
            code = table[at + np.uintp(1)]
            while code != 0 and table[at] != key:
                at = np.uintp(2) * ((at // np.uintp(2) + np.uintp(1)) & mask)
                code = table[at + np.uintp(1)]
            if code == 0:
                if users == room:
                    return np.int64(-1)
                found[users] = key
                counts[users] = 0
                users += np.uintp(1)
                code = np.int64(users)
                table[at] = key
                table[at + np.uintp(1)] = code
            code -= 1
            codes[row] = code
            counts[np.uintp(code)] += 1
            row += np.uintp(1)
    return np.int64(users)


@compiled
def count_codes(
    begins: Array, stops: Array, keys: Array, bits: Int, codes: Array, counts: Array
) -> None:
    """The same where keys are dense codes: `counts` are zero at first."""
    row = np.uintp(0)
    for run in range(begins.size):
        for i in range(np.uintp(begins[run]), np.uintp(stops[run])):
            code = keys[i] >> bits
            codes[row] = code
            counts[np.uintp(code)] += 1
            row += np.uintp(1)


@compiled
def arrange(
    begins: Array, stops: Array, codes: Array, counts: Array, users: Int, cells: Array, own: Array
) -> Int:
    """Each user's distinct cells in order, back where the rows were; `counts` become theirs.

    `own` has room for all rows. Returns how many cells there are.
    """
    one = np.uintp(1)
    total = np.int64(0)
    for user in range(np.uintp(users)):
        rows = counts[user]
        counts[user] = total
        total += rows
    row = np.uintp(0)
    for run in range(begins.size):
        for i in range(np.uintp(begins[run]), np.uintp(stops[run])):
            code = np.uintp(codes[row])
            at = np.uintp(counts[code])
            own[at] = cells[i]
            counts[code] = at + one
            row += one
    kept = np.uintp(0)
    begin = np.uintp(0)
    for user in range(np.uintp(users)):
        end = np.uintp(counts[user])
        if end - begin > np.uintp(_MANY):
            own[np.int64(begin) : np.int64(end)].sort()
        first = kept
        largest = np.int64(-1)
        for i in range(begin, end):
            value = own[i]
            if value > largest:  # rows in order of time
                own[kept] = value
                kept += one
                largest = np.int64(value)
                continue
            at = kept
            while at > first and own[at - one] > value:
                at -= one
            if at > first and own[at - one] == value:
                continue
            for j in range(kept, at, -1):
                own[np.uintp(j)] = own[np.uintp(j) - one]
            own[at] = value
            kept += one
        counts[user] = kept - first
        begin = end
    row = np.uintp(0)
    for run in range(begins.size):
        for i in range(np.uintp(begins[run]), np.uintp(stops[run])):
            if row == kept:
                return np.int64(kept)
            cells[i] = own[row]
            row += one
    return np.int64(kept)


@compiled
def collect(begins: Array, stops: Array, size: Int, cells: Array, out: Array, at: Int) -> None:
    """The first `size` rows of some runs, together."""
    at, end = np.uintp(at), np.uintp(at + size)
    for run in range(begins.size):
        begin = np.uintp(begins[run])
        rows = min(np.uintp(stops[run]) - begin, end - at)
        for k in range(rows):
            out[at + k] = cells[begin + k]
        at += rows


def split(users: int, threads: int) -> list[tuple[int, int]]:
    """Ranges of users, one a thread."""
    edges = np.linspace(0, users, max(1, threads) + 1).astype(np.int64)
    return [(int(a), int(b)) for a, b in pairwise(edges) if a < b]


def in_threads(work: Callable[[int, int], Any], users: int, threads: int) -> list[Any]:
    """`work(low, high)` over ranges of users; the compiled loops let go of the lock."""
    ranges = split(users, threads)
    if len(ranges) < 2:
        return [work(low, high) for low, high in ranges]
    with ThreadPoolExecutor(len(ranges)) as pool:
        return list(pool.map(lambda pair: work(*pair), ranges))


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Users one after another: how many distinct cells each has, all of these, and their keys."""

    counts: NDArray[np.int64]
    cells: NDArray[Any]
    keys: NDArray[np.int64]
    """Of ids; nothing where users have codes: these are in order within each partition."""


class Arena:
    """Rows of ids (`seed`) or of dense codes in 2^`bits` partitions."""

    def __init__(self, cells: np.dtype[Any], seed: int | None, bits: int, rows: int) -> None:
        self.bits = bits
        self._seed = None if seed is None else np.uint64(seed)
        self._mask = (1 << bits) - 1
        self._ends = np.zeros(1 << bits, np.int64)
        self._used = 0
        runs = rows // RUN + 2 * (2 << bits)  # every partition's last run, and room for a batch
        self._keys = np.empty(runs * RUN, np.int32 if seed is None else np.int64)
        self._cells = np.empty(runs * RUN, cells)
        self._owners = np.empty(runs, np.int32)

    @property
    def held(self) -> int:
        """Rows that there is room for in the runs that are used."""
        return self._used * RUN

    @property
    def row_bytes(self) -> int:
        return self._keys.itemsize + self._cells.itemsize

    def put(self, users: NDArray[Any], cells: NDArray[Any]) -> None:
        """Rows by their ids, where the cell is not negative; or by their codes, all of them."""
        self._make_room(users.size)
        # One by one: a compiled function takes a while to see what is in a tuple.
        arena = (self._ends, self._used, self._keys, self._cells, self._owners)
        if self._seed is None:
            self._used = put_codes(users, cells, self._mask, *arena)
        else:
            self._used = put_ids(users, cells, self._seed, self._mask, *arena)

    def _make_room(self, rows: int) -> None:
        needed = self._used + rows // RUN + 1 + self._ends.size
        if needed <= self._owners.size:
            return
        runs = max(needed, self._owners.size * 5 // 4)
        # Moved, not copied, where the system can; what is added is written once, so not too much.
        self._keys.resize(runs * RUN, refcheck=False)
        self._cells.resize(runs * RUN, refcheck=False)
        self._owners.resize(runs, refcheck=False)

    def _runs(self) -> Callable[[int], tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Where the rows of each partition stand."""
        owners = self._owners[: self._used]
        order = np.argsort(owners, kind="stable")
        edges = np.searchsorted(owners[order], np.arange(self._ends.size + 1))

        def of(partition: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            begins = order[edges[partition] : edges[partition + 1]] * RUN
            stops = begins + RUN
            stops[-1:] = self._ends[partition]
            return begins, stops

        return of

    def rows(self, partition: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Keys or codes of a partition's rows, and their cells; copies."""
        begins, stops = self._runs()(partition)
        rows = _rows(begins, stops)
        keys, cells = np.empty(rows, self._keys.dtype), np.empty(rows, self._cells.dtype)
        collect(begins, stops, rows, self._keys, keys, 0)
        collect(begins, stops, rows, self._cells, cells, 0)
        return keys, cells

    def forget_rows(self) -> None:
        """Begin with no rows; what tells users apart stays, and buffers what they hold."""
        self._ends[:] = 0
        self._used = 0

    def ids(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """The ids of keys."""
        ids = np.empty(keys.size, np.int64)
        unmixed(keys, self._seed, ids)
        return ids

    def grouped(self, users: int, threads: int) -> Grouped:
        """All rows by user; `users` is the number of codes where there are some. Empties it."""
        of, partitions = self._runs(), self._ends.size
        lengths = np.zeros(partitions, np.int64)
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = [None] * partitions  # type: ignore[list-item]

        def work(low: int, high: int) -> None:
            room = _Room(max(_rows(*of(p)) for p in range(low, high)), self._cells.dtype)
            for p in range(low, high):
                begins, stops = of(p)
                if self._seed is None:
                    shift, members = self._shape(p, users)
                    found = np.empty(0, np.int64)
                    room.count(begins, stops, self._keys, shift, members)
                else:
                    found = room.code(begins, stops, self._keys)
                    members = found.size
                lengths[p], counts = room.arrange(begins, stops, members, self._cells)
                parts[p] = counts, found

        in_threads(work, partitions, threads)
        self._keys = np.empty(0, self._keys.dtype)
        counts, keys = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        cells = self._collected(of, lengths)
        return Grouped(counts, cells, keys if self._seed is None else self.ids(keys))

    def _shape(self, partition: int, users: int) -> tuple[int, int]:
        """Of dense codes: the bits that say the partition, and how many codes it has."""
        return self.bits, (users - partition + self._mask) >> self.bits

    def _collected(self, of: Callable[[int], Any], lengths: NDArray[np.int64]) -> NDArray[Any]:
        total = int(lengths.sum())
        if self._ends.size == 1 and total >= 0.75 * self._cells.size:
            return self._cells[:total]  # one partition's runs follow one another
        cells = np.empty(total, self._cells.dtype)
        at = 0
        for p, size in enumerate(lengths.tolist()):
            begins, stops = of(p)
            collect(begins, stops, size, self._cells, cells, at)
            at += size
        self._cells = np.empty(0, cells.dtype)
        return cells


def _rows(begins: NDArray[np.int64], stops: NDArray[np.int64]) -> int:
    return int((stops - begins).sum())


class _Room:
    """What grouping a partition needs beside its rows; a page costs nothing until it is used."""

    def __init__(self, rows: int, cells: np.dtype[Any]) -> None:
        self._codes = np.empty(rows, np.int32)
        self._own = np.empty(rows, cells)
        self._found = np.empty(rows, np.int64)
        self._counts = np.empty(rows, np.int64)
        self._table = np.zeros(2 << 6, np.int64)

    def code(self, begins: Array, stops: Array, keys: Array) -> NDArray[np.int64]:
        while True:
            arrays = (self._table, self._codes, self._found, self._counts)
            users = code_keys(begins, stops, keys, *arrays)
            if users >= 0:
                self._table[:] = 0
                return self._found[:users].copy()
            self._table = np.zeros(4 * self._table.size, np.int64)

    def count(self, begins: Array, stops: Array, keys: Array, bits: int, users: int) -> None:
        if users > self._counts.size:
            self._counts = np.empty(users, np.int64)
        self._counts[:users] = 0
        count_codes(begins, stops, keys, bits, self._codes, self._counts)

    def arrange(self, begins: Array, stops: Array, users: int, cells: Array) -> Any:
        kept = arrange(begins, stops, self._codes, self._counts, users, cells, self._own)
        return kept, self._counts[:users].copy()
