"""`LocalSource`: the default on one machine. One read, then a compiled pass per question.

DuckDB reads and converts; each batch's rows are judged (period, place), packed and handed to
the grouping; the grouped rows stay for the next question, so a scheme that asks for several
margins reads its files once. Counts are sums of integers over users: threads, row order, file
splits and spilling cannot change them. The bound is checked inside each pass on what was
counted, and a user above it stops the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine import answers
from sfumato.engine.asked import Asked
from sfumato.engine.compiled import Compiled
from sfumato.engine.connection import open_connection
from sfumato.engine.drops import DropLog
from sfumato.engine.ids.tables import Ids
from sfumato.engine.intake.grouped import Block, Grouping, in_threads
from sfumato.engine.intake.reading import read_events
from sfumato.engine.order import STRIDE
from sfumato.engine.sampling.kernels import sampled
from sfumato.engine.sampling.seeding import seeds_of
from sfumato.engine.tally import kernels
from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private

_THREAD_CELLS = 1 << 24
"""Larger arrays are not copied for every thread."""
_FEW = 4096
"""Users that are not worth a thread."""


def _default_memory() -> int:
    """Half of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class LocalSource(Asked, Compiled):
    """Bounded counts by the compiled pass. Reads its events at the first question."""

    _loaded: tuple[Grouping, Ids, DropLog] | None = None

    @property
    def drops(self) -> DropLog:
        """What was dropped and why, for the holder's internal log only."""
        return self._rows()[2]

    def close(self) -> None:
        """Forget the rows and remove spilled files; the next question reads again."""
        if self._loaded is not None:
            self._loaded[0].close()
            self._loaded = None

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        key = answers.checked_key(key)
        limit = min(bound.slots, self._grid.slots)
        _, ids, _ = self._rows()
        with open_connection(threads=self._threads, memory_limit=self._memory // 4) as connection:

            def arguments(block: Block) -> tuple[Any, ...]:
                seeds = seeds_of(
                    block,
                    ids,
                    key,
                    bits=self._bits,
                    limit=limit,
                    threads=self._threads,
                    connection=connection,
                )
                return limit, *seeds, STRIDE

            values = self._count(self._shape, sampled, arguments)
        return answers.sampled_counts(values, bound, self._grid)

    @property
    def _memory(self) -> int:
        return self._memory_limit if self._memory_limit is not None else _default_memory()

    def _rows(self) -> tuple[Grouping, Ids, DropLog]:
        if self._loaded is None:
            self._loaded = read_events(
                self._events,
                self._places,
                self._grid,
                place_bits=self._bits,
                threads=self._threads,
                memory=self._memory,
                progress=self._progress,
            )
        return self._loaded

    def _ask(
        self, kernel: str, shape: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> NDArray[np.int64]:
        return self._count(shape, getattr(kernels, kernel), lambda _: arguments)

    def _count(
        self,
        shape: tuple[int, ...],
        kernel: Callable[..., int],
        arguments: Callable[[Block], tuple[Any, ...]],
    ) -> NDArray[np.int64]:
        """Run a pass over all users; it checks the bound on what it counts."""
        total = np.zeros(shape, np.int64)
        for block in self._rows()[0].blocks():
            self._add(block, kernel, arguments(block), total)
        return total

    def _add(
        self,
        block: Block,
        kernel: Callable[..., int],
        arguments: tuple[Any, ...],
        total: NDArray[np.int64],
    ) -> None:
        """Add a block's users to `total`, each thread to an array of its own first."""
        rows = (block.cells, block.offsets, self._bits)
        alone = block.users <= _FEW or total.size > _THREAD_CELLS

        def part(low: int, high: int) -> NDArray[np.int64]:
            own = total if alone else np.zeros_like(total)
            if kernel(rows, low, high, *arguments, own):
                raise answers.BoundBroken("A user counted above the bound; nothing is given.")
            return own

        parts = in_threads(part, block.users, 1 if alone else self._threads)
        if not alone:
            for own in parts:
                total += own
