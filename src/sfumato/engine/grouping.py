"""Grouping: batches of rows in, blocks of users out; in memory, or in private files.

Rows are partitioned by user as they come (`sfumato.engine.partition`): integers by themselves,
texts and bytes by a hash, and compared whole (`sfumato.engine.text_ids`). Few rows are one
partition.

Above the memory limit rows go to `PARTS` files by their partitions, and each part is grouped alone.
A user is whole in one part and counts are sums of integers over users, so the number of parts
changes nothing. The files hold codes of texts and scrambled integers (whose key is in memory
alone), not ids, in a folder only this user can enter, and go with the object.

DuckDB groups by user within a limit of memory too. Its GROUP BY of the users alone took as long as
a whole bounded count here (docs/benchmarks/counting.md).
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
from sfumato.io.rows import SWOLLEN
from sfumato.io.values import bytes_of, longest, numbers
from sfumato.io.write import Scratch
from sfumato.model.events import UserEncoding

PART_BITS = 6
PARTS = 1 << PART_BITS
_TOGETHER = 1 << (PARTITION_BITS - PART_BITS)
"""Partitions in one part."""


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
        self._taken = 0
        self._texts: TextArena | None = None  # the arena, where it is one
        self._arena = self._new_arena(0, min(expected, FEW))
        self._spilled_ids: list[NDArray[np.int64]] = []
        """Integers of each part, where rows went to files."""
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
        self._put(users, cells)
        self._taken += cells.size
        if self._taken > FEW and not self._arena.bits:
            self._part()
        # Grouping needs the cells once more beside the rows.
        if self._arena.held * (self._arena.row_bytes + self._dtype.itemsize) > self._limit:
            self._spill()

    def _new_arena(self, bits: int, rows: int) -> Arena:
        if self._seed is not None:
            return Arena(self._dtype, self._seed, bits, rows)
        self._texts = TextArena(self._dtype, self.user, bits, rows, self._limit)
        return self._texts

    def _put(self, users: Any, cells: NDArray[Any]) -> None:
        if self._texts is not None:
            self._texts.put(users, cells)
        else:
            self._arena.put(numbers(users, np.int64), cells)

    def _part(self) -> None:
        """From one partition to many: there are more than a few rows."""
        few, texts = self._arena, self._texts
        most = self._limit // (few.row_bytes + self._dtype.itemsize)
        rows = max(2 * FEW, min(self._expected, most))
        if texts is not None:
            texts.finish()
        keys, cells = few.rows(0)
        self._arena = self._new_arena(PARTITION_BITS, rows)
        if texts is None:
            self._arena.put(few.ids(keys), cells)
            return
        # In pieces: thousands of one person's rows may name an id of a megabyte.
        ids = texts.of(np.arange(texts.users[0]))
        step = SWOLLEN // max(1, longest(bytes_of(ids)[0]))
        for start in range(0, keys.size, step):
            some = slice(start, start + step)
            self._put(ids.take(pa.array(keys[some])), cells[some])

    def _file(self, part: int, what: str) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{part:03d}.{what}"

    def _spill(self) -> None:
        """A part is some partitions that follow one another; codes are made dense in the end."""
        if not self._arena.bits:
            self._part()
        if self._folder is None:
            self._folder = Scratch()
        for part in range(PARTS):
            rows = [self._arena.rows(part * _TOGETHER + n) for n in range(_TOGETHER)]
            if self._texts is not None:
                rows = [(keys * _TOGETHER + n, cells) for n, (keys, cells) in enumerate(rows)]
            keys, cells = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
            self._append(part, keys, cells)
        self._arena.forget_rows()

    def _append(self, part: int, keys: NDArray[Any], cells: NDArray[Any]) -> None:
        for what, array in (("keys", keys), ("cells", cells)):
            with self._file(part, what).open("ab") as file:
                array.tofile(file)

    def finish(self) -> None:
        """Group everything."""
        texts = self._texts
        if texts is not None:
            texts.finish()
        if not self.spilled:
            found = self._arena.grouped(0, self._threads)
            known = _integers(found.keys) if texts is None else texts.of
            self._blocks = [Block(_offsets(found.counts), found.cells, known)]
            self._arena = Arena(self._dtype, self._seed, 0, 0)
            return
        self._spill()
        for part in range(PARTS):
            keys = np.fromfile(self._file(part, "keys"), np.int32 if texts else np.int64)
            cells = np.fromfile(self._file(part, "cells"), self._dtype)
            arena = Arena(self._dtype, self._seed, 0, keys.size)
            users = int(keys.max(initial=-1)) + 1
            arena.put(keys if texts else arena.ids(keys), cells)
            del keys, cells
            found = arena.grouped(users, 1)
            self._file(part, "keys").unlink()
            there = np.flatnonzero(found.counts)
            if texts is None:
                self._spilled_ids.append(found.keys)
            else:
                there.tofile(self._file(part, "users"))
            _offsets(found.counts[there]).tofile(self._file(part, "offsets"))
            found.cells.tofile(self._file(part, "cells"))
        self._arena = Arena(self._dtype, self._seed, 0, 0)

    def blocks(self) -> Iterator[Block]:
        """All users, block after block; from files one part at a time."""
        if self._blocks is not None:
            yield from self._blocks
            return
        for part in range(PARTS):
            offsets = np.fromfile(self._file(part, "offsets"), np.int64)
            cells = np.fromfile(self._file(part, "cells"), self._dtype)
            yield Block(offsets, cells, self._of_part(part))

    def _of_part(self, part: int) -> Callable[[NDArray[np.int64]], Any]:
        texts = self._texts
        if texts is None:
            return _integers(self._spilled_ids[part])
        codes = np.fromfile(self._file(part, "users"), np.int64)
        firsts = np.cumsum(texts.users) - texts.users
        partitions = part * _TOGETHER + codes % _TOGETHER
        places = firsts[partitions] + codes // _TOGETHER
        return lambda users: texts.of(places[users])

    def close(self) -> None:
        """Forget the rows and remove the files."""
        self._arena = Arena(self._dtype, self._seed, 0, 0)
        self._texts, self._spilled_ids = None, []
        self._blocks = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _integers(ids: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], Any]:
    return lambda users: pa.array(ids[users])
