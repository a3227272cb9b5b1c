"""Intake: rows located, judged, and grouped by user, in memory or in private files.

**Where a row is**: the row of `Places` that a batch's names or coordinates mean. Names are compared
as text, exactly. An integer column means the decimal text of its values, so it can only name places
whose id is such a text: `7` and never `07`. A tower that moved has several rows under one name; the
judgement of a row, a compiled loop, picks the one valid at its time.

**Rows of a user together**, packed and distinct. A row is a user's code (32 bits) and a cell,
`slot << place_bits | place` (32 bits where that is enough): 8 bytes. Grouping is a counting sort by
code, then each user's cells are sorted and repeats dropped; nothing of a row's order survives, so
no count can depend on it.

Above the memory limit the rows go to `PARTS` files by the code's low bits and each part is
grouped alone. A user is whole in one part and counts are sums of integers over users, so the
number of parts changes nothing. The files hold codes, not ids, in a folder only this user can
enter, and go with the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.user_ids import ByteIds, Ids, IntegerIds
from sfumato.io.rows import Positions
from sfumato.io.values import numbers, validity
from sfumato.io.write import Scratch
from sfumato.model.compiled import compiled
from sfumato.model.events import UserEncoding
from sfumato.model.places import Places

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

MISSING_PLACE = -2
BAD_COORDINATES = -3
OUTSIDE_ZONES = -4

(
    NO_USER,
    NO_TIME,
    NOT_A_TIME,
    OUTSIDE_PERIOD,
    NO_PLACE,
    UNKNOWN_PLACE,
    NOT_VALID_THEN,
    BAD_POSITION,
    NO_ZONE,
) = range(9)
REASONS = 9


@compiled
def judge(
    t: Array,
    t_valid: Array,
    user_valid: Array,
    found: Array,
    groups: Array,
    valid_from: Array,
    valid_to: Array,
    edges: Array,
    slot_at: Array,
    step: Int,
    bad_time: Int,
    place_bits: Int,
    first_row: Int,
    tally: Array,
    first: Array,
    cells: Array,
) -> None:
    """Cell of each row, `slot << place_bits | place`, or -1 with its reason counted.

    `found` is the group of places a row names (several rows of one tower that moved) or the
    negative reason why there is none. `step` is the distance of the edges where all are equal,
    else 0; `slot_at` is the slot behind each of them, or empty where that is their number.
    """
    last = edges.size - 1
    for i in range(t.size):
        reason = -1
        place = np.int64(found[i])
        slot = np.int64(0)
        if user_valid.size and not user_valid[i]:
            reason = NO_USER
        elif t_valid.size and not t_valid[i]:
            reason = NO_TIME
        elif t[i] == bad_time:
            reason = NOT_A_TIME
        elif t[i] < edges[0] or t[i] >= edges[last]:
            reason = OUTSIDE_PERIOD
        elif place < 0:
            if place == MISSING_PLACE:
                reason = NO_PLACE
            elif place == BAD_COORDINATES:
                reason = BAD_POSITION
            elif place == OUTSIDE_ZONES:
                reason = NO_ZONE
            else:
                reason = UNKNOWN_PLACE
        else:
            row = groups[place]
            end = groups[place + 1]
            while row < end and not (valid_from[row] <= t[i] < valid_to[row]):
                row += 1
            if row == end:
                reason = NOT_VALID_THEN
            place = np.int64(row)
        if reason >= 0:
            cells[i] = -1
            if tally[reason] == 0:
                first[reason] = first_row + i
            tally[reason] += 1
            continue
        if step > 0:
            slot = (t[i] - edges[0]) // step
        else:
            slot = np.searchsorted(edges, t[i], side="right") - 1
        if slot_at.size:
            slot = slot_at[slot]
        cells[i] = (slot << place_bits) | place


@compiled
def count_codes(codes: Array, counts: Array) -> None:
    """Rows of each code, added to `counts`."""
    for code in codes:
        counts[code] += 1


@compiled
def scatter(codes: Array, packed: Array, ends: Array, cells: Array) -> None:
    """Put each row's cell with its user; `ends` starts at the groups' beginnings and moves."""
    for i in range(codes.size):
        at = ends[codes[i]]
        cells[at] = packed[i]
        ends[codes[i]] = at + 1


@compiled
def sort_users(cells: Array, offsets: Array, low: Int, high: Int) -> None:
    """Sort the cells of users low..high, each user's own."""
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        if end - begin <= 24:
            for i in range(begin + 1, end):
                value = cells[i]
                j = i - 1
                while j >= begin and cells[j] > value:
                    cells[j + 1] = cells[j]
                    j -= 1
                cells[j + 1] = value
        else:
            cells[begin:end].sort()


@compiled
def drop_repeats(cells: Array, offsets: Array) -> Int:
    """Keep each user's distinct cells (sorted already), moved together. Returns how many."""
    kept = np.int64(0)
    begin = offsets[0]
    for user in range(offsets.size - 1):
        end = offsets[user + 1]
        for i in range(begin, end):
            if i == begin or cells[i] != cells[i - 1]:
                cells[kept] = cells[i]
                kept += 1
        begin = end
        offsets[user + 1] = kept
    return kept


class Locate(Protocol):
    """Points to rows of zones, -1 outside all of them."""

    def locate(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int32]: ...


def in_range(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Coordinates that are finite and on the globe."""
    mask: NDArray[np.bool_] = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)
    return mask


class NamedPlaces:
    """Places by the name in the events. `groups` are the rows of each name."""

    def __init__(self, places: Places) -> None:
        names, first = np.unique(places.ids, return_index=True)
        self.groups = np.append(first, len(places)).astype(np.int64)
        self._texts = _Names(
            ByteIds(UserEncoding.TEXT),
            pa.array([str(name) for name in names], pa.string()),
            np.arange(names.size),
        )
        keep = np.array([k for k, name in enumerate(names) if _is_decimal(str(name))], np.int64)
        integers = pa.array([int(names[k]) for k in keep], pa.int64())
        self._integers = _Names(IntegerIds(), integers, keep)

    def find(self, column: Any) -> NDArray[np.int32]:
        """Name of each row, or a negative reason."""
        if isinstance(column, pa.DictionaryArray):
            names = np.append(self.find(column.dictionary), np.int32(MISSING_PLACE))
            there, at = validity(column), numbers(column.indices, np.int32)
            return names[np.where(there, at, -1) if there.size else at]
        return (self._integers if column.type == pa.int64() else self._texts).find(column)


class _Names:
    """A table of names and which name each of its codes is."""

    def __init__(self, table: Ids, names: Any, keep: NDArray[Any]) -> None:
        # Codes are in order of arrival: code c is the c-th name kept.
        table.encode(names, np.zeros(keep.size, np.int64), np.empty(keep.size, np.int64))
        self._table = table
        self._name_of_code = np.append(keep.astype(np.int32), np.int32(-1))

    def find(self, column: Any) -> NDArray[np.int32]:
        found = self._table.lookup(column, validity(column))
        return np.where(found >= 0, self._name_of_code[np.maximum(found, 0)], found).astype(
            np.int32
        )


class LocatedPlaces:
    """Zones by the events' coordinates, in vectorised batches."""

    def __init__(self, places: Places, locator: Locate) -> None:
        self._locator = locator
        self.groups = np.arange(len(places) + 1, dtype=np.int64)

    def find(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int32]:
        """Zone of each row, or a negative reason."""
        good = in_range(lon, lat)
        found = np.full(lon.size, BAD_COORDINATES, np.int32)
        if good.all():
            inside = self._locator.locate(lon, lat)
        else:
            inside = self._locator.locate(lon[good], lat[good])
        found[good] = np.where(inside >= 0, inside, OUTSIDE_ZONES)
        return found


class PlaceFinder:
    """Each batch by what it carries: names or coordinates."""

    def __init__(self, named: NamedPlaces, located: LocatedPlaces | None) -> None:
        self._named = named
        self._located = located

    def find(self, rows: Positions) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Name or zone of each row, or a negative reason; and the rows of `Places` of each."""
        if rows.lon is None or rows.lat is None:
            return self._named.find(rows.place), self._named.groups
        assert self._located is not None  # only zones are found by coordinates
        return self._located.find(rows.lon, rows.lat), self._located.groups


def _is_decimal(text: str) -> bool:
    """True for the decimal text of a 64-bit integer, as a cast to text writes it."""
    body = text.removeprefix("-")
    if not (body.isascii() and body.isdigit()) or len(body) > 19:
        return False
    return str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63


PART_BITS = 6
PARTS = 1 << PART_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some users: user i has `cells[offsets[i]:offsets[i + 1]]`, sorted and distinct."""

    offsets: NDArray[np.int64]
    cells: NDArray[Any]
    part: int = 0
    part_bits: int = 0

    @property
    def users(self) -> int:
        return int(self.offsets.size) - 1

    def codes(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """The users' codes in the table of ids."""
        return (users << self.part_bits) | self.part


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


def _group(
    chunks: list[tuple[NDArray[Any], NDArray[Any]]], users: int, dtype: Any, threads: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Counting sort of chunks of (codes, cells), consumed on the way."""
    offsets = np.zeros(users + 1, np.int64)
    for codes, _ in chunks:
        count_codes(codes, offsets[1:])
    np.cumsum(offsets, out=offsets)
    cells = np.empty(int(offsets[-1]), dtype)
    ends = offsets[:-1].copy()
    chunks.reverse()
    while chunks:
        codes, packed = chunks.pop()
        scatter(codes, packed, ends, cells)
    del ends
    in_threads(lambda low, high: sort_users(cells, offsets, low, high), users, threads)
    kept = int(drop_repeats(cells, offsets))
    # Shrink where it is worth a copy; a view would keep the repeats in memory.
    return offsets, cells[:kept].copy() if kept < 0.75 * cells.size else cells[:kept]


class Grouping:
    """Takes packed batches, gives blocks of users."""

    def __init__(self, cell_bits: int, memory_limit: int, threads: int) -> None:
        self._dtype = np.dtype(np.int32 if cell_bits <= 31 else np.int64)
        self._limit = memory_limit
        self._threads = threads
        self._held = 0
        self._chunks: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._folder: Scratch | None = None
        self._users = 0
        self._blocks: list[Block] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def spilled(self) -> bool:
        return self._folder is not None

    def add(self, codes: NDArray[Any], cells: NDArray[Any]) -> None:
        """One batch; `cells` may be longer than `codes`, the rest is ignored."""
        room = cells.size
        if codes.size == 0:
            return
        cells = cells[: codes.size]
        if 10 * codes.size < 9 * room:  # a view would keep the room of dropped rows
            codes, cells = codes.copy(), cells.copy()
        self._chunks.append((codes, cells))
        # Grouping needs the cells once more beside the rows.
        self._held += codes.size * (4 + 2 * self._dtype.itemsize)
        if self._held > self._limit:
            self._spill()

    def _file(self, part: int, what: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{part:03d}.{what}"

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = Scratch()
        for codes, cells in self._chunks:
            parts = codes & (PARTS - 1)
            order = np.argsort(parts, kind="stable")
            bounds = np.searchsorted(parts[order], np.arange(PARTS + 1))
            within, moved = (codes >> PART_BITS)[order], cells[order]
            for part in range(PARTS):
                low, high = bounds[part], bounds[part + 1]
                for what, array in (("codes", within), ("cells", moved)):
                    with self._file(part, what).open("ab") as file:
                        array[low:high].tofile(file)
        self._chunks.clear()
        self._held = 0

    def finish(self, users: int) -> None:
        """Group everything; `users` is the number of codes given out."""
        self._users = users
        if not self.spilled:
            self._blocks = [Block(*_group(self._chunks, users, self._dtype, self._threads))]
            return
        self._spill()
        for part in range(PARTS):
            rows = [
                (
                    np.fromfile(self._file(part, "codes"), np.int32),
                    np.fromfile(self._file(part, "cells"), self._dtype),
                )
            ]
            members = (users - part + PARTS - 1) >> PART_BITS
            offsets, cells = _group(rows, max(members, 0), self._dtype, self._threads)
            self._file(part, "codes").unlink()
            offsets.tofile(self._file(part, "offsets"))
            cells.tofile(self._file(part, "cells"))

    def blocks(self) -> Iterator[Block]:
        """All users, block after block; from files one part at a time."""
        if self._blocks is not None:
            yield from self._blocks
            return
        for part in range(PARTS):
            offsets = np.fromfile(self._file(part, "offsets"), np.int64)
            cells = np.fromfile(self._file(part, "cells"), self._dtype)
            yield Block(offsets, cells, part, PART_BITS)

    def close(self) -> None:
        """Forget the rows and remove the files."""
        self._chunks.clear()
        self._blocks = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
