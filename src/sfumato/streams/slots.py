"""From events to the private counts of each slot: buffered until the clock closes it, then counted.

**When a slot closes.** A slot closes when the clock is `delay` past its end. The clock is the
machine's, or one that the feeder states in the stream; it is never taken from the events: if
the newest event moved it, one person's event with a wrong date would close slots early and
drop other people's events, and no bound on what one person changes would hold.

**What comes late** (its slot is closed), lies outside the period or cannot be read is dropped and
counted; the counts are internal.

**Who is one person**: the canonical text of an id, whatever file or line it came in, so 7 in a
Parquet file and `"7"` in a line of JSON count once in a slot. How a record becomes who, when and
where is `sfumato.io.rows`; what it counts for is the engine's judgement, as in a release.

**What is counted** (`SlotSource`): one position a person and slot. A finished history is counted
once, cell x slot, by the engine's sampled counts with as many
slots as there are: one visit a slot, chosen by a keyed order, in every slot that the person
was seen in. A slot is then a column, and its sensitivities are those of one slot: the other
slots are other measurements, and the meter adds them up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.local import DropReason, LocalSource
from sfumato.io.rows import Positions, names_of
from sfumato.io.values import BAD, validity
from sfumato.model.counts import Counts, SampleBound
from sfumato.model.events import (
    EventColumns,
    Events,
    EventTable,
    Reading,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.places import Places
from sfumato.model.private import Private
from sfumato.model.rounding import number_of
from sfumato.model.source import Source
from sfumato.model.time_grid import MICROSECONDS, TimeGrid
from sfumato.streams.facts import StreamFacts


class SlotSource:
    """Slots of a source's counts, for the unit of `facts`."""

    def __init__(self, source: Source, facts: StreamFacts, key: bytes) -> None:
        self._facts = facts
        self._whole = source.sampled(SampleBound(source.grid.slots), key)

    def slot(self, slot: int) -> Private[Counts]:
        """The histogram of one slot."""
        return one_slot(
            self._whole.map(lambda counts: _columns(counts, slot, slot + 1)), self._facts
        )

    def window(self, first: int, stop: int) -> Private[Counts]:
        """Cell x slot of several slots, with the sensitivities of all of them together."""
        slots, facts = stop - first, self._facts

        def cut(counts: Counts) -> Counts:
            part = _columns(counts, first, stop)
            return replace(part, l1=float(facts.l1 * slots), l2=facts.l2 * slots**0.5)

        return self._whole.map(cut, "window")


def one_slot(box: Private[Counts], facts: StreamFacts) -> Private[Counts]:
    """Sampled counts of a grid of one slot, as a vector with the unit's sensitivities."""

    def flat(counts: Counts) -> Counts:
        values = np.ascontiguousarray(counts.values[:, 0])
        return replace(counts, values=values, l1=float(facts.l1), l2=facts.l2, what="slot")

    return box.map(flat, "slot")


def _columns(counts: Counts, first: int, stop: int) -> Counts:
    return replace(counts, values=np.ascontiguousarray(counts.values[:, first:stop]))


_OUTSIDE, _UNREADABLE = DropReason.OUTSIDE_PERIOD, DropReason.UNREADABLE
_PIECE = 1 << 16
"""Rows from which on a table is not copied together with others."""
_NAMED = Reading(EventColumns("user", "time", "place"), TimeEncoding.EPOCH_US, UserEncoding.TEXT)
_LOCATED = Reading(
    EventColumns("user", "time", None, "lon", "lat"), TimeEncoding.EPOCH_US, UserEncoding.TEXT
)


@dataclass(repr=False)
class Dropped:
    """Rows that were not counted and why, and files that gave none: for the holder alone."""

    read: int = 0
    late: int = 0
    ahead: int = 0
    """Dated after they came, further than clocks of senders differ."""
    rows: Counter[DropReason] = field(default_factory=Counter)
    files: int = 0

    def internal_counts(self) -> dict[str, Any]:
        """For what is marked internal, as `DropLog` has it. Never publish them."""
        found = {
            "late": self.late,
            "outside": self.rows[_OUTSIDE],
            "unreadable": self.rows[_UNREADABLE],
        }
        if self.ahead:
            found["ahead of the clock"] = self.ahead
        for reason in DropReason:
            if self.rows[reason] and reason not in (_OUTSIDE, _UNREADABLE):
                found[reason.value] = self.rows[reason]
        return {
            "rows_read": self.read,
            "rows_dropped": found,
            "files_without_rows": self.files,
        }

    def internal_lines(self) -> list[str]:
        """Lines for the holder's internal log. Never publish them."""
        found: dict[str, int] = self.internal_counts()["rows_dropped"]
        lines = [
            f"{number_of(number, 'rows')} dropped: {why}" for why, number in found.items() if number
        ]
        if self.files:
            lines.append(f"{number_of(self.files, 'files')} gave no rows")
        if self.read and sum(found.values()) >= self.read:
            lines.append(
                "WARNING: every row was dropped, all counts are noise around zero (`sfumato "
                "inspect` shows how rows could be read)"
            )
        return [f"{number_of(self.read, 'rows')} read", *lines]


@dataclass(repr=False)
class Buffer:
    """Rows of slots that are still open, as Arrow tables: those that name places, and points."""

    grid: TimeGrid
    places: Places
    facts: StreamFacts
    next_slot: int = 0
    dropped: Dropped = field(default_factory=Dropped)
    _open: dict[int, dict[Reading, list[Any]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def add(self, found: Positions, first: int = 0, stop: int | None = None) -> None:
        """Take up rows as they were read; those that cannot count any more are dropped here.

        Args:
            found: The rows.
            first: The first slot that was still open when they came, if that was before now.
            stop: The first slot that they came too early for.
        """
        slots = self.grid.slot_of(found.time)
        left = self._judged(found, slots, first, stop)
        self.dropped.read += found.rows + found.unreadable
        self.dropped.rows[_UNREADABLE] += found.unreadable
        if not left.any():
            return
        reading, rows = _table(found)
        kept = slots[left]
        if left.all() and kept.min() == kept.max():
            self._keep(int(kept[0]), reading, rows)
            return
        order = np.flatnonzero(left)[np.argsort(kept, kind="stable")]
        ends = np.flatnonzero(np.diff(slots[order])) + 1
        for some in np.split(order, ends):
            # Copied, so that a row of a far slot does not hold on to all that came with it.
            self._keep(int(slots[some[0]]), reading, rows.take(pa.array(some)))

    def closes(self, slot: int, clock_us: int, delay_seconds: int) -> bool:
        """Whether the clock has passed the slot's end and the public delay."""
        return clock_us >= int(self.grid.edges[slot + 1]) + delay_seconds * MICROSECONDS

    def close(self, key: bytes) -> Private[Counts]:
        """The private counts of the next slot; its rows are forgotten."""
        slot = self.next_slot
        parts = tuple(
            EventTable(pa.concat_tables(pieces), reading)
            for reading, pieces in self._open.pop(slot, {}).items()
        )
        grid = TimeGrid(self.grid.edges[slot : slot + 2], self.grid.step, self.grid.tz)
        source = LocalSource(Events(parts), self.places, grid, threads=1)
        try:
            box = one_slot(source.sampled(SampleBound(1), key), self.facts)
            self.dropped.rows.update(source.drops.dropped)
        finally:
            source.close()
        self.next_slot += 1
        return box

    def _judged(
        self, found: Positions, slots: NDArray[np.int32], first: int, stop: int | None
    ) -> NDArray[np.bool_]:
        """Which rows belong to an open slot; the others are counted under their first fault."""
        left = np.ones(found.rows, np.bool_)

        def drop(gone: NDArray[np.bool_]) -> int:
            before = int(np.count_nonzero(left))
            np.logical_and(left, ~gone, out=left)
            return before - int(np.count_nonzero(left))

        tally = self.dropped.rows
        there = validity(found.user)
        if there.size:
            tally[DropReason.NO_USER] += drop(~there)
        if found.time_valid.size:
            tally[DropReason.NO_TIME] += drop(~found.time_valid)
        tally[DropReason.NOT_A_TIME] += drop(found.time == BAD)
        tally[_OUTSIDE] += drop(slots < 0)
        self.dropped.late += drop(slots < max(self.next_slot, first))
        if stop is not None:
            self.dropped.ahead += drop(slots >= stop)
        return left

    def _keep(self, slot: int, reading: Reading, rows: Any) -> None:
        """Put rows to those of a slot; a pipe that drips leaves few tables, not one a line."""
        pieces = self._open[slot][reading]
        pieces.append(rows)
        while len(pieces) > 1 and pieces[-2].num_rows <= pieces[-1].num_rows < _PIECE:
            pieces[-2:] = [pa.concat_tables(pieces[-2:]).combine_chunks()]


def _table(found: Positions) -> tuple[Reading, Any]:
    """Rows under their own names, ids and names of places as text, and how they are read."""
    columns: dict[str, Any] = {"user": _wide(found.user), "time": found.time}
    if found.lon is None or found.lat is None:
        return _NAMED, pa.table(columns | {"place": _wide(found.place)})
    return _LOCATED, pa.table(columns | {"lon": found.lon, "lat": found.lat})


def _wide(column: Any) -> Any:
    """Texts whose offsets no flood of long ids can overflow."""
    return (names_of(column) if column.type == pa.int64() else column).cast(pa.large_binary())
