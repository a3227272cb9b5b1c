"""The rules by which a row is read: Arrow columns of any source to who, when and where.

One module for every path: CSV lines, Parquet, tables in memory, NDJSON, databases, Spark. What
comes out for a row depends on that row, its part's `Reading` and the grid's period alone:

* **user**: 64-bit integers, or the bytes of the canonical text (or of binary ids, where all
  parts hold those). The bytes of a text are its canonical text, except that byte order marks before
  it are no part of it. Missing, not UTF-8, or longer than a megabyte (binary: half): no user.
* **time**: epoch microseconds, rounded down. `FAR` is outside every period, `BAD` is no time.
* **place**: 64-bit integers or the bytes of a name; or **lon, lat** in degrees, NaN where a text
  is no number.

Nothing is raised because of a value. Rows that lack something are kept here with the lack
marked, so that the engine counts them under the reason it gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.io import values
from sfumato.io.lines import without_marks
from sfumato.io.values import BAD, FAR, bytes_of, numbers, validity, without_rows
from sfumato.model.events import Reading, TimeEncoding, UserEncoding
from sfumato.model.time_grid import clock_offsets

__all__ = ["BAD", "FAR", "Positions", "RowRules"]

LONGEST_VALUE = (1 << 20) - 1
"""Bytes of the longest id or name that is read; the tables of ids hold no longer ones."""
LONGEST_BINARY = LONGEST_VALUE // 2
"""The same of a binary id. Its hex digits must fit too: they are its name wherever another file
of the folder holds texts, and that file must not decide whether the id is read."""
WHOLE_DOUBLES = 2.0**53
"""Below this, doubles tell all whole numbers apart."""
SWOLLEN = 1 << 28
"""Bytes that the texts of a dictionary may take when every row has its own copy."""
EVER = (-315_619_200_000_000, 4_102_444_800_000_000)
"""1960 to 2100: the span for which clocks are known where no period is given."""

_SCALES = {
    TimeEncoding.EPOCH_S: (1_000_000, 1),
    TimeEncoding.EPOCH_MS: (1_000, 1),
    TimeEncoding.EPOCH_US: (1, 1),
    TimeEncoding.EPOCH_NS: (1, 1_000),
}
_STAMPS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TEXT_NUMBER, _TEXT_ISO = np.array([True]), np.array([False])
_NONE = np.empty(0, np.int64)
_WIDEST = pa.decimal256(76, 0)
_MOST_DECIMAL = pa.scalar(10**18, _WIDEST)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Rows as read: who, when, where. Private."""

    user: Any
    """Arrow: int64 or binary; null where there is none."""
    time: NDArray[np.int64]
    time_valid: NDArray[np.bool_]
    """False where the time is missing; empty where none is."""
    place: Any = None
    """Arrow: int64 or binary, or a dictionary of binary; null where there is none."""
    lon: NDArray[np.float64] | None = None
    lat: NDArray[np.float64] | None = None
    unreadable: int = 0
    """Records that could not be cut into fields; they are no rows here."""
    trip: NDArray[np.int64] | None = None
    """Outings as the format itself tells them apart, numbered within a file; only traces ask."""

    @property
    def rows(self) -> int:
        return self.time.size


@lru_cache(maxsize=64)
def _clock(tz: str, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return clock_offsets(tz, first, last)


class RowRules:
    """How rows of one reading become `Positions`. `held`: how the source's ids are held.

    With `dictionaries`, names of places that come as a dictionary stay one, so that each name is
    looked up once.
    """

    def __init__(
        self,
        reading: Reading,
        held: UserEncoding,
        *,
        coordinates: bool,
        period: tuple[int, int] | None = None,
        dictionaries: bool = False,
    ) -> None:
        self.reading = reading
        self.dictionaries = dictionaries
        self.coordinates = coordinates
        self._held = held
        self._known: dict[str, tuple[Any, int]] = {}
        self._names: tuple[Any, Any] = (None, None)
        self._breaks, self._offsets = _NONE, _NONE
        if reading.tz is not None:
            self._breaks, self._offsets = _clock(reading.tz, *(period or EVER))

    @property
    def used(self) -> tuple[str, ...]:
        """The columns to read."""
        columns = self.reading.columns
        where = (columns.lon, columns.lat) if self.coordinates else (columns.place,)
        return (columns.user, columns.time, *(str(name) for name in where))

    def batches(self, columns: Mapping[str, Any], rows: int) -> Iterator[Positions]:
        """`positions` of so many rows, in pieces where dictionaries would swell too much."""
        longest = max(self._longest(name, column) for name, column in columns.items())
        step = max(1, min(rows, SWOLLEN // longest))
        if step >= rows:
            if rows:
                yield self.positions(columns)
            return
        for start in range(0, rows, step):
            yield self.positions({name: columns[name].slice(start, step) for name in columns})

    def _longest(self, name: str, column: Any) -> int:
        """`longest_entry`, looked at once for as long as a dictionary stays the same."""
        if not isinstance(column, pa.DictionaryArray):
            return longest_entry(column)
        known, longest = self._known.get(name, (None, 1))
        if known is None or not column.dictionary.equals(known):
            known, longest = column.dictionary, longest_entry(column)
            self._known[name] = known, longest
        return longest

    def positions(
        self,
        columns: Mapping[str, Any],
        *,
        numeric_times: NDArray[np.bool_] | None = None,
        unreadable: int = 0,
    ) -> Positions:
        """Rows of Arrow columns by name. `numeric_times`: which text times are written as numbers,
        where each value says so itself (JSON)."""
        names = self.reading.columns
        stamp = plain(columns[names.time])
        time, valid = self._time(stamp, numeric_times)
        user = self._user(plain(columns[names.user]))
        if self.coordinates:
            lon, lat = (self._degrees(plain(columns[str(n)])) for n in (names.lon, names.lat))
            return Positions(user, time, valid, lon=lon, lat=lat, unreadable=unreadable)
        place = self._place(columns[str(names.place)])
        return Positions(user, time, valid, place, unreadable=unreadable)

    def _user(self, column: Any) -> Any:
        if self._held is UserEncoding.INTEGER:
            return _whole(column)
        if self._held is UserEncoding.BINARY:
            return _short(column)
        if self.reading.user is UserEncoding.BINARY:
            return hex_digits(_short(column))
        return names_of(column)

    def _place(self, column: Any) -> Any:
        if (
            self.dictionaries
            and isinstance(column, pa.DictionaryArray)
            and is_text(column.type.value_type)
            and len(column.dictionary) <= len(column)
        ):
            known, names = self._names
            if known is None or not column.dictionary.equals(known):
                names = names_of(plain(column.dictionary))
                self._names = column.dictionary, names
            indices = column.indices
            if indices.type != pa.int32():
                indices = indices.cast(pa.int32())
            return pa.DictionaryArray.from_arrays(indices, names)
        column = plain(column)
        kind = column.type
        narrow = pa.types.is_integer(kind) and kind != pa.uint64()
        if narrow or pa.types.is_floating(kind) or _is_whole_decimal(kind):
            return _whole(column)
        return names_of(column)

    def _degrees(self, column: Any) -> NDArray[np.float64]:
        if is_text(column.type):
            ends, data = bytes_of(column)
            found = values.doubles(ends, data)
        else:
            # Wider numbers round to the nearest double; nothing here can be refused.
            found = np.array(numbers(pc.cast(column, pa.float64(), safe=False), np.float64))
        there = validity(column)
        if there.size:
            found[~there] = np.nan
        return found / self.reading.columns.degrees_scale

    def _time(
        self, column: Any, numeric: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        encoding, kind = self.reading.time, column.type
        valid = validity(column)
        if is_text(kind):
            multiply, divide = _SCALES.get(encoding, (1_000_000, 1))
            ends, data = bytes_of(column)
            time = np.empty(len(column), np.int64)
            if numeric is None:
                numeric = _TEXT_ISO if encoding is TimeEncoding.ISO else _TEXT_NUMBER
            values.instants(
                ends, data, numeric, multiply, divide, self._breaks, self._offsets, time
            )
        elif pa.types.is_timestamp(kind):
            time = self._stamps(column)
        else:
            time = _epochs(column, *_SCALES[encoding])
        return time, valid

    def _stamps(self, column: Any) -> NDArray[np.int64]:
        stored = numbers(column, np.int64)
        if column.type.unit == "ns":
            time: NDArray[np.int64] = stored // 1000
        else:
            time = _scaled(stored, _STAMPS[column.type.unit])
        if self.reading.time is not TimeEncoding.NAIVE:
            return time
        moved = time - self._offsets[np.searchsorted(self._breaks, time, side="right")]
        return np.where((time >= FAR) | (time <= BAD), time, moved)


def plain(column: Any) -> Any:
    """One Arrow array without dictionaries, run lengths or extension types."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type) and column.num_chunks > 1:
            # Each by itself: all values together may be too many for the type of their indices.
            column = pa.chunked_array([plain(chunk) for chunk in column.chunks])
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(column, pa.ChunkedArray):  # no chunk at all, or too large for one
            column = pa.concat_arrays(column.chunks) if column.num_chunks else _empty(column.type)
    while True:  # one may hold another
        kind = column.type
        if isinstance(kind, pa.BaseExtensionType):
            if kind.extension_name == "arrow.uuid":
                return _uuids(column.storage)
            column = column.storage
        elif pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            column = pc.run_end_decode(column)
        else:
            return column


def longest_entry(column: Any) -> int:
    """Bytes of the longest text in a column's dictionary, at least 1.

    A megabyte that stands once in a dictionary may be named by every row: spelled out, one
    person's records would not fit into an Arrow array, or not into memory.
    """
    longest = 1
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
        if pa.types.is_dictionary(chunk.type) and is_text(chunk.type.value_type):
            ends, _ = bytes_of(chunk.dictionary)
            longest = max(longest, int(np.diff(ends).max(initial=0)))
    return longest


def is_text(kind: Any) -> bool:
    """Texts and the bytes of texts."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_null(kind)
    )


def names_of(column: Any) -> Any:
    """Ids or names as the bytes of their canonical text, null where there is none to read."""
    kind = column.type
    if pa.types.is_floating(kind) or _is_whole_decimal(kind):
        column = _whole(column)
    if not is_text(kind):
        return column.cast(pa.string()).cast(pa.binary())
    ends, data = bytes_of(column)
    if _is_ascii(data[int(ends[0]) : int(ends[-1])]):
        if values.longest(ends) <= LONGEST_VALUE:
            return as_bytes(column)
        return without_rows(as_bytes(column), np.diff(ends) > LONGEST_VALUE)
    column = without_marks(as_bytes(column))
    ends, data = bytes_of(column)
    good = np.empty(len(column), np.bool_)
    values.readable(ends, data, LONGEST_VALUE, good)
    return without_rows(column, ~good)


def _is_ascii(data: NDArray[np.uint8]) -> bool:
    """Whether no byte has its highest bit set: eight at a time."""
    cut = data.size // 8 * 8
    together = int(np.bitwise_or.reduce(data[:cut].view(np.uint64), initial=0))
    return not together & 0x8080808080808080 and not bool((data[cut:] & 0x80).any())


def as_bytes(column: Any) -> Any:
    """The bytes of a column of texts, not judged."""
    kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.view(pa.large_binary())
    if pa.types.is_string(kind):
        return column.view(pa.binary())
    return column if pa.types.is_binary(kind) else column.cast(pa.large_binary())


def _whole(column: Any) -> Any:
    """64-bit integers. A column of numbers with gaps is often stored as doubles: 7.0 is 7."""
    kind = column.type
    if pa.types.is_floating(kind):
        found = numbers(column.cast(pa.float64()), np.float64)
        whole = (np.abs(found) < WHOLE_DOUBLES) & (np.floor(found) == found)
        made = np.where(whole, found, 0.0).astype(np.int64)
        valid = validity(column)
        return pa.array(made, mask=~whole if not valid.size else ~(whole & valid))
    if pa.types.is_decimal(kind):  # stored values may have more digits than their type says
        column = column.cast(_WIDEST)  # and Arrow cannot count with narrow ones
        column = pc.if_else(pc.less(pc.abs(column), _MOST_DECIMAL), column, None)
    return column if kind == pa.int64() else column.cast(pa.int64())


def _is_whole_decimal(kind: Any) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.scale == 0 and kind.precision <= 18


def _short(column: Any) -> Any:
    """Binary ids that the table of ids can hold, as bytes and as hex digits."""
    column = as_bytes(column)
    ends, _ = bytes_of(column)
    return without_rows(column, np.diff(ends) > LONGEST_BINARY)


def hex_digits(column: Any) -> Any:
    """Bytes as lower-case hex digits: their canonical text."""
    ends, data = bytes_of(column)
    first, last = int(ends[0]), int(ends[-1])
    digits = np.frombuffer(bytes(data[first:last]).hex().encode(), np.uint8)
    valid = validity(column)
    there = pa.py_buffer(np.packbits(valid, bitorder="little")) if valid.size else None
    moved = (2 * (ends.astype(np.int64) - first)).astype(np.int64)
    buffers = [there, pa.py_buffer(moved), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def _uuids(storage: Any) -> Any:
    """Sixteen bytes as a UUID is written."""
    raw = np.frombuffer(storage.buffers()[1] or b"", np.uint8)
    raw = raw[16 * storage.offset : 16 * (storage.offset + len(storage))]
    digits = np.frombuffer(raw.tobytes().hex().encode(), "S1").reshape(len(storage), 32)
    dash = np.full((len(storage), 1), b"-", "S1")
    cuts = (0, 8, 12, 16, 20, 32)
    pieces: list[NDArray[Any]] = []
    for start, stop in pairwise(cuts):
        pieces += [digits[:, start:stop], dash]
    text = np.concatenate(pieces[:-1], axis=1)
    ends = np.arange(len(storage) + 1, dtype=np.int64) * 36
    made = pa.Array.from_buffers(
        pa.large_binary(),
        len(storage),
        [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(text))],
    )
    valid = validity(storage)
    return without_rows(made, ~valid) if valid.size else made


def _epochs(column: Any, multiply: int, divide: int) -> NDArray[np.int64]:
    """Epoch numbers of a typed column; what stands at a null is arbitrary."""
    kind = column.type
    if pa.types.is_floating(kind):
        epochs = numbers(column.cast(pa.float64()), np.float64)
        inside = np.abs(epochs) <= (FAR - 1) // multiply  # false for NaN and infinities
        scaled = np.floor(np.where(inside, epochs, 0.0) * multiply).astype(np.int64)
        return np.where(inside, scaled // divide, FAR)
    if kind == pa.uint64():
        raw = numbers(column, np.uint64)
        stored = np.minimum(raw, np.uint64((1 << 63) - 1)).astype(np.int64)
    else:
        stored = numbers(column.cast(pa.int64()), np.int64)
    scaled = _scaled(stored, multiply)
    return scaled if divide == 1 else np.where(scaled == FAR, FAR, scaled // divide)


def _scaled(stored: NDArray[np.int64], multiply: int) -> NDArray[np.int64]:
    """Multiplied, or `FAR` where that would be too large."""
    reach = (FAR - 1) // multiply
    if not stored.size or (stored.max() <= reach and stored.min() >= -reach):
        return stored if multiply == 1 else stored * multiply
    inside = (stored >= -reach) & (stored <= reach)
    return np.where(inside, np.where(inside, stored, 0) * multiply, FAR)


def _empty(kind: Any) -> Any:
    return pa.array([], kind)
