"""Events on their way: buffered by slot until the clock closes the slot.

**When a slot closes.** A slot closes when the clock is `delay` past its end. The clock is the
machine's, or one that the feeder states in the stream; it is never taken from the events: if
the newest event moved it, one person's event with a wrong date would close slots early and
drop other people's events, and no bound on what one person changes would hold.

**What comes late** (its slot is closed), lies outside the period or cannot be read is dropped and
counted; the counts are internal.

**What a column means is never read from the rows.** Whether events name places or carry
coordinates follows from the places and from how the columns were named; an id is text or a whole
number and written in one way; every time is read by itself. If a batch of rows decided, one
person's record could change how all the others are read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engine.local import LocalSource
from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import (
    NUMBER_TEXT,
    EventColumns,
    Events,
    TableSource,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.time_grid import MICROSECONDS, TimeGrid
from sfumato.stream.facts import StreamFacts
from sfumato.stream.source import one_slot

_FARTHEST_S = 9e11
"""Epoch seconds beyond this are no time, whatever they are."""
WHOLE_DOUBLES = 2.0**53
"""Below this, doubles tell all whole numbers apart."""
COLUMNS = EventColumns(user="user", time="time", place="place")
COORDINATES = EventColumns(user="user", time="time", lon="lon", lat="lat")


@dataclass
class Dropped:
    """Rows that were not counted, and why: for the holder alone."""

    late: int = 0
    outside: int = 0
    unreadable: int = 0


@dataclass
class Buffer:
    """Rows of slots that are still open, as Arrow tables."""

    grid: TimeGrid
    places: Places
    facts: StreamFacts
    coordinates: bool
    next_slot: int = 0
    dropped: Dropped = field(default_factory=Dropped)
    _open: dict[int, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rows: pa.Table) -> None:
        """Take up rows of user, time (epoch microseconds) and place or coordinates."""
        if rows.num_rows == 0:
            return
        slots = self.grid.slot_of(rows["time"].to_numpy())
        self.dropped.outside += int((slots < 0).sum())
        self.dropped.late += int(((slots >= 0) & (slots < self.next_slot)).sum())
        for slot in np.unique(slots[slots >= self.next_slot]):
            self._open[int(slot)].append(rows.filter(pa.array(slots == slot)))

    def closes(self, slot: int, clock_us: int, delay_seconds: int) -> bool:
        """Whether the clock has passed the slot's end and the public delay."""
        return clock_us >= int(self.grid.edges[slot + 1]) + delay_seconds * MICROSECONDS

    def close(self, key: bytes) -> Private[Counts]:
        """The private counts of the next slot; its rows are forgotten."""
        slot = self.next_slot
        rows = pa.concat_tables(self._open.pop(slot, None) or [_nothing(self.coordinates)])
        grid = TimeGrid(self.grid.edges[slot : slot + 2], self.grid.step, self.grid.tz)
        columns = COORDINATES if self.coordinates else COLUMNS
        described = Events(TableSource(rows), columns, TimeEncoding.EPOCH_US, UserEncoding.TEXT)
        source = LocalSource(described, self.places, grid, threads=1)
        try:
            box = one_slot(source.sampled(SampleBound(1), key), self.facts)
        finally:
            source.close()
        self.next_slot += 1
        return box


def by_coordinates(places: Places, names: dict[str, str]) -> bool:
    """Whether events carry coordinates: in zones, unless a column of places was named."""
    return places.kind is PlaceKind.ZONES and "place" not in names


def wanted_columns(names: dict[str, str], coordinates: bool) -> dict[str, str]:
    """The column of every part that is needed."""
    parts = ("user", "time", "lon", "lat") if coordinates else ("user", "time", "place")
    return {part: names.get(part, part) for part in parts}


def _nothing(coordinates: bool) -> pa.Table:
    """No rows, with the columns that they would have."""
    kinds = {"lon": pa.float64(), "lat": pa.float64()} if coordinates else {"place": pa.string()}
    return pa.schema({"user": pa.string(), "time": pa.int64(), **kinds}).empty_table()


def standard_rows(
    table: pa.Table, names: dict[str, str], where: str, *, coordinates: bool
) -> pa.Table:
    """The columns that are needed, under their standard names and types; whole rows only.

    Times are instants: epoch seconds, timestamps with a zone, or text with an offset.
    """
    columns = {}
    for part, name in wanted_columns(names, coordinates).items():
        if name not in table.column_names:
            raise InputError(
                f"there is no column for {part}.",
                file=where,
                column=name,
                remedy=f"Name it with --column {part}=…",
            )
        if part == "time":
            columns[part] = instants(table[name], where)
        elif part in ("user", "place"):
            columns[part] = _texts(table[name], where)
        else:
            columns[part] = _cast(table[name], pa.float64(), where)
    return whole_rows(pa.table(columns))


def whole_rows(rows: pa.Table) -> pa.Table:
    """The rows that lack nothing."""
    return rows.filter(reduce(pc.and_, (pc.is_valid(column) for column in rows.columns)))


def instants(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Epoch microseconds; null where the value is none. Text may hold epoch seconds too."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        seconds = pc.cast(column, pa.float64())
        sane = pc.less(pc.abs(seconds), _FARTHEST_S)  # false for NaN and infinities too
        seconds = pc.if_else(sane, seconds, None)
        return pc.floor(pc.multiply(seconds, float(MICROSECONDS))).cast(pa.int64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        text = column.cast(pa.string())
        number = pc.match_substring_regex(text, f"^(?:{NUMBER_TEXT})$")
        seconds = instants(pc.if_else(number, text, None).cast(pa.float64()), where)
        written = _cast(pc.if_else(number, None, text), pa.timestamp("us", tz="UTC"), where)
        return pc.coalesce(seconds, written.cast(pa.int64()))
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        raise InputError(
            "the times carry no zone.",
            file=where,
            remedy="Write them with an offset (2024-03-04T08:00:00Z) or as epoch seconds.",
        )
    return column.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())


def _texts(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Ids as text. A column of numbers with a gap in it is often stored as doubles: 7.0 is 7."""
    if pa.types.is_floating(column.type):
        numbers = pc.cast(column, pa.float64())
        whole = pc.and_(
            pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), WHOLE_DOUBLES)
        )
        column = pc.if_else(whole, numbers, None).cast(pa.int64())
    return _cast(column, pa.string(), where)


def _cast(column: pa.ChunkedArray, kind: pa.DataType, where: str) -> pa.ChunkedArray:
    """The column in another type; what cannot be read becomes null and is dropped.

    One person's broken record must not stop a public stream: whether it goes on would tell
    that the record is there. A column of the wrong type is a fault of the feed.
    """
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        raise InputError(f"the column cannot be read as {kind}.", file=where) from None
    except pa.ArrowInvalid:
        return pa.chunked_array([[_one(value, kind) for value in column]], type=kind)


def _one(value: pa.Scalar, kind: pa.DataType) -> object:
    """The value in another type, or nothing. Slow, and only for feeds with broken records."""
    try:
        return value.cast(kind).as_py()
    except pa.ArrowInvalid:
        return None


def known_format(name: str) -> bool:
    """Whether a file of a filling folder is one to read."""
    if name.startswith((".", "_")):
        return False
    if name.endswith((".parquet", ".csv")):
        return True
    raise UsageError(
        f"{name!r} is neither Parquet nor CSV.", remedy="Keep other files out of the folder."
    )
