"""`LocalSource`: the default on one machine. One read, then a compiled pass per question.

DuckDB reads and converts; each batch's rows are judged (period, place), packed and handed to
the grouping; the grouped rows stay for the next question, so a scheme that asks for several
margins reads its files once. Counts are sums of integers over users: threads, row order, file
splits and spilling cannot change them. The bound is checked inside each pass on what was
counted, and a user above it stops the program.

How a row is read is `sfumato.io.rows`; here (`read_events`) it is judged against period and places,
and dropped with a reason or packed with its user. No row stops the reading, and a file of a folder
that turns out to be damaged gives no rows at all: what was read of it is forgotten.

`DropLog` says which rows did not count and why, for the holder's internal log only. How many rows
were dropped is a fact about people's records, so it is on the private side like the counts:
printing the object shows nothing, and `internal_lines` is named for where its answer may go.
Dropping everything is a valid private answer (an error would tell), which the log says loudly.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.engine import base, intake, tally
from sfumato.engine.base import Compiled, CountSource
from sfumato.engine.grouping import Block, Grouping
from sfumato.engine.intake import LocatedPlaces, NamedPlaces, PlaceFinder
from sfumato.engine.partition import in_threads
from sfumato.engine.sampling import STRIDE, sampled, seeds_of
from sfumato.errors import InputError
from sfumato.geography.locate import Locator
from sfumato.io.events import expected_rows, rows_of, without_damaged
from sfumato.io.files import Damaged
from sfumato.io.rows import Positions
from sfumato.io.values import BAD, validity
from sfumato.model.counts import Counts, SampleBound, WeightBound
from sfumato.model.events import Events
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.rounding import number_of
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid


class DropReason(StrEnum):
    """Why a row did not count; a row with several faults has the first of these."""

    UNREADABLE = "not a record of its format, or longer than a megabyte"
    NO_USER = "no user"
    NO_TIME = "no time"
    NOT_A_TIME = "not a time"
    OUTSIDE_PERIOD = "outside the period"
    NO_PLACE = "no place"
    UNKNOWN_PLACE = "unknown tower or zone"
    NOT_VALID_THEN = "tower not valid at that time"
    BAD_COORDINATES = "missing or impossible coordinates"
    OUTSIDE_ZONES = "outside all zones"


@dataclass(frozen=True, slots=True, repr=False)
class DropLog:
    """Rows read, kept, and dropped by reason, with the number of the first row of each.

    Row numbers count data rows from 1 in the order of the files; `None` where not known.
    """

    rows: int
    dropped: dict[DropReason, int]
    first_row: dict[DropReason, int | None]
    unfit: int = 0
    """Files of a folder that gave no rows: damaged, or of another kind."""

    @property
    def kept(self) -> int:
        return self.rows - sum(self.dropped.values())

    def __repr__(self) -> str:
        return "<internal drop log>"

    def internal_counts(self) -> dict[str, Any]:
        """The same as numbers, for what is marked internal. Never publish them."""
        return {
            "rows_read": self.rows,
            "rows_counted": self.kept,
            "rows_dropped": {str(reason): number for reason, number in self.dropped.items()},
            "files_without_rows": self.unfit,
        }

    def internal_lines(self) -> list[str]:
        """Lines for the holder's internal log. Never publish them."""
        lines = [f"{number_of(self.rows, 'rows')} read, {self.kept:,} counted"]
        if self.rows and not self.kept:
            lines.insert(
                0,
                "WARNING: every row was dropped, all counts are zero (`sfumato inspect` shows how "
                "the rows could be read)",
            )
        if not self.rows:
            lines.insert(0, "WARNING: there were no rows, all counts are zero")
        if self.unfit:
            lines.append(
                f"WARNING: {number_of(self.unfit, 'files')} gave no rows "
                "(`sfumato inspect` says why)"
            )
        for reason, number in self.dropped.items():
            first = self.first_row.get(reason)
            where = f", first in row {first:,}" if first is not None else ""
            lines.append(f"{number_of(number, 'rows')} dropped: {reason}{where}")
        return lines


_REASONS = tuple(DropReason)
_Item = TypeVar("_Item")


def uniform_step(grid: TimeGrid) -> int:
    """Length of what lies between cuts in microseconds where all is equal, else 0."""
    steps = np.diff(grid.cuts)
    return int(steps[0]) if bool((steps == steps[0]).all()) else 0


def _always(places: Places, grid: TimeGrid) -> bool:
    """Whether every place has one row, valid throughout the period."""
    first, last = grid.period
    alone = np.unique(places.ids).size == len(places)
    return alone and bool((places.valid_from <= first).all() and (places.valid_to >= last).all())


def place_finder(places: Places) -> PlaceFinder:
    """How rows find their place: by name, or by coordinates in zones."""
    return PlaceFinder(*_place_tables(places))


@lru_cache(maxsize=2)
def _place_tables(places: Places) -> tuple[NamedPlaces, LocatedPlaces | None]:
    """Kept, because a live stream counts every slot anew with the same places."""
    located = None
    if places.kind is PlaceKind.ZONES:
        located = LocatedPlaces(places, Locator(places))
    return NamedPlaces(places), located


class Judge:
    """Cells of rows, and a tally of why the others have none."""

    def __init__(
        self, places: Places, grid: TimeGrid, place_bits: int, dtype: Any = np.int64
    ) -> None:
        self._places = places
        self._grid = grid
        self._bits = place_bits
        self._dtype = dtype
        self._step = uniform_step(grid)
        self._plain = self._step > 0 and grid.slot_of_cut.size == 0 and _always(places, grid)
        self._finder = place_finder(places)
        self._tally = np.zeros(intake.REASONS, np.int64)
        self._first = np.zeros(intake.REASONS, np.int64)
        self._unreadable = 0
        self.rows = 0

    def cells(self, found: Positions) -> NDArray[Any]:
        """`slot << place_bits | place` of every row, -1 where it does not count."""
        where, names, groups = self._finder.entries(found)
        cells = np.empty(found.rows, self._dtype)
        there, known, cuts = validity(found.user), found.time_valid, self._grid.cuts
        whole = not (there.size or known.size or found.unreadable)
        plain = (found.time, where, names, cuts, self._step, self._bits, cells)
        if self._plain and whole and not intake.judge_plain(*plain):
            self.rows += found.rows
            return cells
        intake.judge(
            found.time,
            known,
            there,
            where,
            names,
            groups,
            self._places.valid_from,
            self._places.valid_to,
            cuts,
            self._grid.slot_of_cut,
            self._step,
            BAD,
            self._bits,
            self.rows + 1,
            self._tally,
            self._first,
            cells,
        )
        self.rows += found.rows + found.unreadable
        self._unreadable += found.unreadable
        return cells

    def log(self, unfit: int = 0) -> DropLog:
        """What was dropped and why."""
        seen = [(reason, k) for k, reason in enumerate(_REASONS[1:]) if self._tally[k]]
        dropped = {DropReason.UNREADABLE: self._unreadable} if self._unreadable else {}
        dropped |= {reason: int(self._tally[k]) for reason, k in seen}
        first = {reason: int(self._first[k]) if self._first[k] else None for reason, k in seen}
        return DropLog(self.rows, dropped, first, unfit)


def ahead(items: Iterator[_Item], most: int = 4) -> Iterator[_Item]:
    """The same items in the same order, made by a thread that is a few of them ahead.

    Unpacking and cutting let go of the lock, so they go on while rows are judged and grouped.
    """
    made: queue.Queue[tuple[_Item | None, BaseException | None]] = queue.Queue(most)
    stopped = threading.Event()

    def put(item: _Item | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                made.put((item, error), timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put(item, None)
                if stopped.is_set():
                    return
        except BaseException as error:
            put(None, error)
        else:
            put(None, StopIteration())

    thread = threading.Thread(target=work, name="sfumato-reading", daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            assert item is not None
            yield item
    finally:
        stopped.set()
        thread.join()


def read_events(
    events: Events,
    places: Places,
    grid: TimeGrid,
    *,
    place_bits: int,
    threads: int,
    memory: int,
    progress: Progress | None,
    keep: Callable[[NDArray[Any]], None] | None = None,
) -> tuple[Grouping, DropLog]:
    """Read everything once: grouped rows, and what was dropped.

    `keep` makes cells of rows that are judged and not to be kept negative.
    """
    slot_bits = max(1, (grid.slots - 1).bit_length())
    while True:
        expected = _expected(events)
        cell_bits = place_bits + slot_bits
        grouping = Grouping(events.user, cell_bits, memory // 2, threads, expected)
        judge = Judge(places, grid, place_bits, grouping.dtype)
        try:
            found_rows = rows_of(events, period=grid.period, dictionaries=True)
            for found in ahead(found_rows) if threads > 1 else found_rows:
                cells = judge.cells(found)
                if keep is not None:
                    keep(cells)
                grouping.add(found.user, cells)
                if progress is not None:
                    progress("reading events", judge.rows / expected if expected else -1.0)
        except Damaged as error:
            grouping.close()
            events = without_damaged(events, error)
            continue
        except BaseException:
            grouping.close()
            raise
        grouping.finish()
        return grouping, judge.log(len(events.unfit))


def _expected(events: Events) -> int:
    """About how many rows there are; 0 where it is not known, or a file is damaged."""
    try:
        return expected_rows(events) if len(events.parts) <= _FOOTERS else 0
    except InputError:
        return 0


def _kept(masks: Masks, bits: int, alone: bool) -> Callable[[NDArray[Any]], None]:
    """Keeps rows that lie in a question; `alone`: as one cell, where people are asked for."""
    asked = masks.union()
    one = -1
    if alone and asked.any():
        place, slot = (int(found[0]) for found in np.nonzero(asked))
        one = (slot << bits) | place
    return lambda cells: intake.keep_asked(cells, bits, asked, one)


_FOOTERS = 256
"""Files whose footers are read twice, to know how much room their rows need."""
_THREAD_CELLS = 1 << 24
"""Larger arrays are not copied for every thread."""
_FEW = 4096
"""Users that are not worth a thread."""


def _default_memory() -> int:
    """Half of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class LocalSource(CountSource, Compiled):
    """Bounded counts by the compiled pass. Reads its events at the first question."""

    _loaded: tuple[Grouping, DropLog] | None = None
    _asked = False

    @property
    def drops(self) -> DropLog:
        """What was dropped and why, for the holder's internal log only."""
        return self._rows()[1]

    def close(self) -> None:
        """Forget the rows and remove spilled files; the next question reads again."""
        if self._loaded is not None:
            self._loaded[0].close()
            self._loaded = None

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        key = base.checked_key(key)
        limit = min(bound.slots, self._grid.slots)
        user = self._rows()[0].user

        def arguments(block: Block) -> tuple[Any, ...]:
            seeds = seeds_of(block, user, key, bits=self._bits, limit=limit, threads=self._threads)
            return limit, *seeds, STRIDE

        values = self._count(self._shape, sampled, arguments)
        return base.sampled_counts(values, bound, self._grid)

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        """The first time, only the rows inside are kept, and not for longer: a third of the work.

        Whoever asks again is given what all rows say, read once.
        """
        if self._loaded is not None or self._asked:
            return super().answers(masks, measure, bound)
        self._asked = True
        alone = masks.count == 1 and measure is Measure.UNIQUE_PEOPLE
        self._loaded = self._read(_kept(base.checked_masks(masks, *self._shape), self._bits, alone))
        try:
            return super().answers(masks, measure, bound)
        finally:
            self.close()

    @property
    def _memory(self) -> int:
        return self._memory_limit if self._memory_limit is not None else _default_memory()

    def _rows(self) -> tuple[Grouping, DropLog]:
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self, keep: Callable[[NDArray[Any]], None] | None = None) -> tuple[Grouping, DropLog]:
        return read_events(
            self._events,
            self._places,
            self._grid,
            place_bits=self._bits,
            threads=self._threads,
            memory=self._memory,
            progress=self._progress,
            keep=keep,
        )

    def _ask(
        self, kernel: str, shape: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> NDArray[np.int64]:
        return self._count(shape, getattr(tally, kernel), lambda _: arguments)

    def _count(
        self,
        shape: tuple[int, ...],
        kernel: Callable[..., int],
        arguments: Callable[[Block], tuple[Any, ...]],
    ) -> NDArray[np.int64]:
        """Run a pass over all users; it checks the bound on what it counts."""
        total = np.zeros(shape, np.int64)
        rows = self._rows()[0]
        if self._progress is not None:
            self._progress("counting", -1.0)
        for block in rows.blocks():
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
                raise base.BoundBroken("A user counted above the bound; nothing is given.")
            return own

        parts = in_threads(part, block.users, 1 if alone else self._threads)
        if not alone:
            for own in parts:
                total += own
