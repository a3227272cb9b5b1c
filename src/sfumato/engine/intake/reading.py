"""From rows as read to grouped rows: every batch judged, coded, packed and put away.

How a row is read is `sfumato.io.rows`; here it is judged against period and places, and dropped
with a reason or packed with its user. No row stops the reading, and a file of a folder that
turns out to be damaged gives no rows at all: what was read of it is forgotten.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.drops import DropLog, DropReason
from sfumato.engine.ids.tables import Ids, ids_for
from sfumato.engine.intake import kernels
from sfumato.engine.intake.grouped import Grouping
from sfumato.engine.intake.places import LocatedPlaces, NamedPlaces, PlaceFinder
from sfumato.geography.locate import Locator
from sfumato.io.arrow import validity
from sfumato.io.events import expected_rows, rows_of, without_damaged
from sfumato.io.formats import Damaged
from sfumato.io.rows import Positions
from sfumato.io.values import BAD
from sfumato.model.events import Events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

_REASONS = tuple(DropReason)
_Item = TypeVar("_Item")


def uniform_step(grid: TimeGrid) -> int:
    """Length of the slots in microseconds where all are equal, else 0."""
    steps = np.diff(grid.edges)
    return int(steps[0]) if bool((steps == steps[0]).all()) else 0


@lru_cache(maxsize=2)
def place_finder(places: Places) -> PlaceFinder:
    """How rows find their place: by name, or by coordinates in zones.

    Kept, because a live stream counts every slot anew with the same places.
    """
    located = None
    if places.kind is PlaceKind.ZONES:
        located = LocatedPlaces(places, Locator(places))
    return PlaceFinder(NamedPlaces(places), located)


class Judge:
    """Cells of rows, and a tally of why the others have none."""

    def __init__(self, places: Places, grid: TimeGrid, place_bits: int) -> None:
        self._places = places
        self._grid = grid
        self._bits = place_bits
        self._step = uniform_step(grid)
        self._finder = place_finder(places)
        self._tally = np.zeros(kernels.REASONS, np.int64)
        self._first = np.zeros(kernels.REASONS, np.int64)
        self._unreadable = 0
        self.rows = 0

    def cells(self, found: Positions) -> NDArray[np.int64]:
        """`slot << place_bits | place` of every row, -1 where it does not count."""
        where, groups = self._finder.find(found)
        cells = np.empty(found.rows, np.int64)
        kernels.judge(
            found.time,
            found.time_valid,
            validity(found.user),
            where,
            groups,
            self._places.valid_from,
            self._places.valid_to,
            self._grid.edges,
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
) -> tuple[Grouping, Ids, DropLog]:
    """Read everything once: grouped rows, the table of ids, and what was dropped."""
    slot_bits = max(1, (grid.slots - 1).bit_length())
    while True:
        grouping = Grouping(place_bits + slot_bits, memory // 2, threads)
        ids = ids_for(events.user)
        judge = Judge(places, grid, place_bits)
        try:
            expected = expected_rows(events) if progress is not None else 0
            found_rows = rows_of(events, period=grid.period, dictionaries=True)
            for found in ahead(found_rows) if threads > 1 else found_rows:
                cells = judge.cells(found)
                packed = np.empty(cells.size, grouping.dtype)
                grouping.add(ids.encode(found.user, cells, packed), packed)
                if progress is not None:
                    progress("reading events", judge.rows / expected if expected else -1.0)
        except Damaged as error:
            grouping.close()
            events = without_damaged(events, error)
            continue
        except BaseException:
            grouping.close()
            raise
        grouping.finish(ids.count)
        return grouping, ids, judge.log(len(events.unfit))
