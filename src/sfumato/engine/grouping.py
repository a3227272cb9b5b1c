"""Grouping: batches of rows in, blocks of users out; in memory, or in private files.

Rows are partitioned by user as they come (`sfumato.engine.partition`): integers by themselves,
texts and bytes by a hash, and compared whole (`sfumato.engine.text_ids`). Few rows are one
partition, by dense codes (`sfumato.engine.user_ids`).

Above the memory limit rows go to `PARTS` files by the low bits of their codes, integers coded as
well, or by their partitions, and each part is grouped alone. A user is whole in one part and counts
are sums of integers over users, so the number of parts changes nothing. The files hold codes, not
ids, in a folder only this user can enter, and go with the object.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.partition import FEW, PARTITION_BITS, Arena
from sfumato.engine.text_ids import TextArena
from sfumato.engine.user_ids import Ids, ids_for
from sfumato.io.rows import SWOLLEN
from sfumato.io.values import bytes_of, longest, numbers
from sfumato.io.write import Scratch
from sfumato.model.events import UserEncoding

PART_BITS = 6
PARTS = 1 << PART_BITS
_TOGETHER = 1 << (PARTITION_BITS - PART_BITS)
"""Partitions of texts in one part."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some users: user i has `cells[offsets[i]:offsets[i + 1]]`, sorted and distinct."""

    offsets: NDArray[np.int64]
    cells: NDArray[Any]
    ids: Callable[[NDArray[np.int64]], Any]
    """The ids of users by their number, as an Arrow array."""

    @property
    def users(self) -> int:
        return int(self.offsets.size) - 1


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


class Grouping:
    """Takes batches of users and cells, gives blocks of users.

    `expected`: about how many rows will come; room for them costs nothing until it is used.
    """

    def __init__(
        self, user: UserEncoding, cell_bits: int, memory_limit: int, threads: int, expected: int = 0
    ) -> None:
        self.user = user
        self._dtype = np.dtype(np.int32 if cell_bits <= 31 else np.int64)
        self._limit = memory_limit
        self._threads = threads
        self._expected = expected
        self._seed = secrets.randbits(64) if user is UserEncoding.INTEGER else None
        # Integers have codes only where they go to files.
        self._ids: Ids | None = None if user is UserEncoding.INTEGER else ids_for(user)
        self._arena = Arena(self._dtype, self._seed, 0, min(expected, FEW))
        self._texts: TextArena | None = None  # the arena, where it is one
        self._folder: Scratch | None = None
        self._blocks: list[Block] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the cells that it takes."""
        return self._dtype

    @property
    def spilled(self) -> bool:
        return self._folder is not None

    def add(self, users: Any, cells: NDArray[Any]) -> None:
        """A batch: an Arrow column, and cells, negative where a row does not count."""
        if self._texts is not None:
            self._texts.put(users, cells)
        elif self._ids is None or self._seed is not None:
            self._arena.put(numbers(users, np.int64), cells)
        else:
            packed = np.empty(cells.size, self._dtype)
            codes = self._ids.encode(users, cells, packed)
            self._arena.put(codes, packed[: codes.size])
        if self._arena.held > FEW and not self._arena.bits:
            self._part()
        # Grouping needs the cells once more beside the rows.
        if self._arena.held * (self._arena.row_bytes + self._dtype.itemsize) > self._limit:
            self._spill()

    def _part(self) -> None:
        """From one partition to many: there are more than a few rows."""
        few = self._arena
        most = self._limit // (few.row_bytes + self._dtype.itemsize)
        rows = max(2 * FEW, min(self._expected, most))
        if self._ids is None or self._seed is not None or self.spilled:
            self._arena = Arena(self._dtype, self._seed, PARTITION_BITS, rows)
            self._arena.put(*few.rows(0))
            return
        codes, cells = few.rows(0)
        self._arena = self._texts = TextArena(self._dtype, self.user, rows, self._limit)
        # In pieces: thousands of one person's rows may name an id of a megabyte.
        ids = self._ids.of(np.arange(self._ids.count))
        step = SWOLLEN // max(1, longest(bytes_of(ids)[0]))
        for start in range(0, codes.size, step):
            some = slice(start, start + step)
            self._texts.put(ids.take(pa.array(codes[some])), cells[some])
        self._ids = None

    def _file(self, part: int, what: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{part:03d}.{what}"

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = Scratch()
        if self._texts is not None:
            self._spill_texts(self._texts)
            return
        if self._ids is None:
            self._ids = ids_for(self.user)
        for partition in range(1 << self._arena.bits):
            codes, cells = self._arena.rows(partition)
            if self._seed is not None:
                codes = self._ids.encode(pa.array(codes), cells, cells)
            parts = codes & (PARTS - 1)
            order = np.argsort(parts, kind="stable")
            bounds = np.searchsorted(parts[order], np.arange(PARTS + 1))
            within, moved = (codes >> PART_BITS)[order], cells[order]
            for part in range(PARTS):
                low, high = bounds[part], bounds[part + 1]
                self._append(part, within[low:high], moved[low:high])
        self._arena = Arena(self._dtype, self._seed, 0, FEW)

    def _spill_texts(self, arena: TextArena) -> None:
        """A part is some partitions that follow one another; codes are made dense in the end."""
        for partition in range(1 << arena.bits):
            codes, cells = arena.rows(partition)
            part, within = divmod(partition, _TOGETHER)
            self._append(part, codes * np.int32(_TOGETHER) + np.int32(within), cells)
        arena.forget_rows()

    def _append(self, part: int, codes: NDArray[Any], cells: NDArray[Any]) -> None:
        for what, array in (("codes", codes), ("cells", cells)):
            with self._file(part, what).open("ab") as file:
                array.tofile(file)

    def finish(self) -> None:
        """Group everything."""
        texts, ids = self._texts, self._ids
        if texts is not None:
            texts.finish()
        if not self.spilled:
            arena = self._arena
            found = arena.grouped(0 if ids is None else ids.count, self._threads)
            known = _integers(found.keys) if ids is None else _coded(ids, arena.bits)
            if texts is not None:
                known = texts.of
            self._blocks = [Block(_offsets(found.counts), found.cells, known)]
            self._arena = Arena(self._dtype, self._seed, 0, 0)
            return
        self._spill()
        for part in range(PARTS):
            codes = np.fromfile(self._file(part, "codes"), np.int32)
            cells = np.fromfile(self._file(part, "cells"), self._dtype)
            arena = Arena(self._dtype, None, 0, codes.size)
            arena.put(codes, cells)
            users = int(codes.max(initial=-1)) + 1
            del codes, cells
            found = arena.grouped(users, 1)
            self._file(part, "codes").unlink()
            there = np.flatnonzero(found.counts)
            there.tofile(self._file(part, "users"))
            _offsets(found.counts[there]).tofile(self._file(part, "offsets"))
            found.cells.tofile(self._file(part, "cells"))

    def blocks(self) -> Iterator[Block]:
        """All users, block after block; from files one part at a time."""
        if self._blocks is not None:
            yield from self._blocks
            return
        for part in range(PARTS):
            users = np.fromfile(self._file(part, "users"), np.int64)
            offsets = np.fromfile(self._file(part, "offsets"), np.int64)
            cells = np.fromfile(self._file(part, "cells"), self._dtype)
            yield Block(offsets, cells, self._of_part(part, users))

    def _of_part(self, part: int, codes: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], Any]:
        texts, ids = self._texts, self._ids
        if texts is not None:
            firsts = np.cumsum(texts.users) - texts.users
            partitions = part * _TOGETHER + codes % _TOGETHER
            places = firsts[partitions] + codes // _TOGETHER
            return lambda users: texts.of(places[users])
        assert ids is not None
        return lambda users: ids.of((codes[users] << PART_BITS) | part)

    def close(self) -> None:
        """Forget the rows and remove the files."""
        self._arena = Arena(self._dtype, self._seed, 0, 0)
        self._texts = None
        self._blocks = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _integers(ids: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], Any]:
    return lambda users: pa.array(ids[users])


def _coded(ids: Ids, bits: int) -> Callable[[NDArray[np.int64]], Any]:
    """Ids of users that stand in order of their partitions, then of their codes."""
    count, mask = ids.count, (1 << bits) - 1
    starts = np.cumsum([0, *((count - p + mask) >> bits for p in range(mask))])

    def of(users: NDArray[np.int64]) -> Any:
        partition = np.searchsorted(starts, users, side="right") - 1
        return ids.of(((users - starts[partition]) << bits) | partition)

    return of
