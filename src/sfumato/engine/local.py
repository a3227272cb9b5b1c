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
from sfumato.engine.connection import open_connection
from sfumato.engine.drops import DropLog
from sfumato.engine.ids.tables import Ids
from sfumato.engine.intake.grouped import Block, Grouping, in_threads
from sfumato.engine.intake.reading import read_events
from sfumato.engine.order import STRIDE
from sfumato.engine.sampling.kernels import sampled
from sfumato.engine.sampling.seeding import seeds_of
from sfumato.engine.tally import kernels
from sfumato.engine.weights import TOTAL_UNITS, WeightRule
from sfumato.model.bound import WEIGHT_UNITS, Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS

_THREAD_CELLS = 1 << 24
"""Larger arrays are not copied for every thread."""
_FEW = 4096
"""Users that are not worth a thread."""
_NO_NORMS = np.zeros((1, 1), np.int64)


def _default_memory() -> int:
    """Half of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class LocalSource(Asked):
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

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        with_norms = event_norms is not None
        norms = _NO_NORMS
        if event_norms is not None:
            norms = answers.checked_norms(event_norms, *self._shape)
        units = NORM_UNITS if with_norms else 1
        rule = _rule(bound, units, WEIGHT_UNITS * bound.limit * units)
        arguments = (norms, with_norms, counting is Counting.PEOPLE, rule)
        values = self._count(self._shape, kernels.weighted, lambda _: arguments)
        return answers.weighted_counts(values, bound, counting, self._grid, event_norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        people = counting is Counting.PEOPLE
        units = TOTAL_UNITS if people else 1
        arguments = (people, units, _rule(bound, units, WEIGHT_UNITS * bound.limit))
        values = self._count(self._shape[:1], kernels.place_totals, lambda _: arguments)
        return answers.place_total_counts(values, bound, counting)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE, _rule(bound, 1, WEIGHT_UNITS * bound.limit))
        values = self._count(self._shape[1:], kernels.slot_totals, lambda _: arguments)
        return answers.slot_total_counts(values, bound, counting)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE, answers.checked_cap(cap))
        values = self._count((1,), kernels.capped_total, lambda _: arguments)
        return answers.capped_total_count(int(values[0]), cap, counting)

    def exact(self, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE,)
        values = self._count(self._shape, kernels.exact, lambda _: arguments)
        return answers.exact_counts(values, counting)

    @property
    def _bits(self) -> int:
        """Width of a place in a packed row."""
        return max(1, (len(self._places) - 1).bit_length())

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


def _rule(bound: WeightBound, units: int, ceiling: float) -> tuple[int, float, float]:
    rule = WeightRule.of(bound.limit, units)
    return rule.whole_up_to, rule.scale, ceiling
