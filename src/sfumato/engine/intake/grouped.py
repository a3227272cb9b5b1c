"""Rows of a user together: packed, grouped, distinct, in memory or in private files.

A row is a user's code (32 bits) and a cell, `slot << place_bits | place` (32 bits where that
is enough): 8 bytes. Grouping is a counting sort by code, then each user's cells are sorted and
repeats dropped; nothing of a row's order survives, so no count can depend on it.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.intake import kernels
from sfumato.io.scratch import Scratch

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
        kernels.count_codes(codes, offsets[1:])
    np.cumsum(offsets, out=offsets)
    cells = np.empty(int(offsets[-1]), dtype)
    ends = offsets[:-1].copy()
    chunks.reverse()
    while chunks:
        codes, packed = chunks.pop()
        kernels.scatter(codes, packed, ends, cells)
    del ends
    in_threads(lambda low, high: kernels.sort_users(cells, offsets, low, high), users, threads)
    kept = int(kernels.drop_repeats(cells, offsets))
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
