"""The name that Spark gives an input, computed on this machine: to go on where a cluster began.

A reservation that was made on Spark is bound to the sums of `survey`: xxHash64 under secret seeds
of every row's stored values, or of a line's bytes. Here the same sums are taken of the same files
without Spark, so that one machine can tell whether it has before it what the cluster had. It is
asked for where a reservation bears another name than the one that this engine gives, and by Spark
on this machine where text files are so small that opening them is what takes the time.

Types that Spark would widen or round (unsigned and 128-bit numbers, nanoseconds) have no name
here; what was reserved with them is finished on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.engine.spark.files import LONGEST_SEEN
from sfumato.engine.spark.rows import Part, Scan
from sfumato.engine.spark.survey import Survey, fingerprint, how_read, seeds_of
from sfumato.engine.spark.xxhash import SEED, U64, of_bytes, of_int, of_long
from sfumato.errors import InputError
from sfumato.io.files import open_text, read_piece
from sfumato.io.parquet import Parquet
from sfumato.io.rows import plain
from sfumato.io.values import bytes_of, numbers, validity
from sfumato.model.compiled import compiled
from sfumato.model.events import EventFile, Events, EventTable
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

_BATCH = 1 << 16
_PIECE = 1 << 20
_MARK = b"\xef\xbb\xbf"
"""Hadoop takes it off the beginning of a file."""
Array = NDArray[Any]


@compiled
def _take_words(state: Array, words: Array, valid: Array, narrow: bool) -> None:
    for row in range(state.shape[0]):
        there = valid.size == 0 or valid[row]
        for k in range(state.shape[1]):
            h = state[row, k]
            if there:
                h = of_int(words[row], h) if narrow else of_long(words[row], h)
            state[row, k] = of_int(U64(0) if there else U64(1), h)


@compiled
def _take_bytes(state: Array, ends: Array, data: Array, valid: Array, flagged: bool) -> None:
    for row in range(state.shape[0]):
        there = valid.size == 0 or valid[row]
        for k in range(state.shape[1]):
            h = state[row, k]
            if there:
                h = of_bytes(data, ends[row], ends[row + 1], h)
            if flagged:
                h = of_int(U64(0) if there else U64(1), h)
            state[row, k] = h


def name_on_spark(events: Events, places: Places, grid: TimeGrid, key: bytes) -> frozenset[str]:
    """What Spark calls these files; nothing where it cannot be said without it."""
    surveyed = survey_here(events.parts, key)
    return frozenset({fingerprint(surveyed, places, grid, key)} if surveyed else ())


def survey_here(parts: Sequence[Part], key: bytes) -> Survey | None:
    """The survey that Spark would make of these files; nothing where it cannot be made without."""
    totals: dict[str, tuple[int, ...]] = {}
    seeds, longest = np.array(seeds_of(key), np.int64).view(U64), 0
    try:
        for part in parts:
            how, long, sums = _summed(part, seeds)
            before = totals.get(how, (0,) * len(sums))
            totals[how] = tuple(a + b for a, b in zip(before, sums, strict=True))
            longest = max(longest, long)
    except (_Unknown, InputError, OSError, pa.ArrowException):
        return None
    return Survey(totals, longest)


class _Unknown(Exception):
    """A part that Spark would read in a way of its own."""


def _summed(part: Part, seeds: Array) -> tuple[str, int, tuple[int, ...]]:
    """How a part is read, its longest line, and its rows and the sums of their hashes, as `survey`
    has them."""
    keys = dict(part.keys) if isinstance(part, EventFile) else {}
    used = part.reading.columns.used
    rows, longest, sums = 0, 0, np.zeros(4, object)
    types: dict[str, str] = {}
    if isinstance(part, EventFile) and part.format != Parquet.name:
        states = _line_hashes(part, seeds)
    else:
        stored = [name for name in used if name not in keys]
        types, batches = _typed(part, stored)
        states = _row_hashes(batches, types, seeds)
    for state, long in states:
        signed = state.view(np.int64)
        halves = np.stack((signed >> 32, (signed & 0xFFFFFFFF) - (1 << 31)), axis=-1)
        sums += halves.sum(axis=0).ravel().astype(object)
        rows, longest = rows + len(state), max(longest, long)
    by_file = not types or any(name in used for name in keys)
    scan = Scan(None, {0: part}, types, by_file)
    return how_read(scan, part), longest, (rows, *(int(total) for total in sums))


def _typed(part: Part, stored: list[str]) -> tuple[dict[str, str], Iterator[Any]]:
    """Spark's types of the stored columns, and batches of these."""
    if isinstance(part, EventTable):
        table = part.table.select(stored)
        types = {field.name: _type_name(field.type) for field in table.schema}
        return types, iter(table.to_batches(max_chunksize=_BATCH))
    file = pq.ParquetFile(part.path.absolute(), coerce_int96_timestamp_unit="us", pre_buffer=False)
    schema = file.schema_arrow
    old = {
        file.schema.column(k).path
        for k in range(len(file.schema))
        if file.schema.column(k).physical_type == "INT96"
    }
    types = {n: "timestamp" if n in old else _type_name(schema.field(n).type) for n in stored}
    return types, file.iter_batches(_BATCH, columns=stored, use_threads=False)


_NAMES = {
    pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.string(): "string", pa.large_string(): "string",
    pa.binary(): "binary", pa.large_binary(): "binary",
    pa.float32(): "float", pa.float64(): "double", pa.bool_(): "boolean", pa.date32(): "date",
}  # fmt: skip


def _type_name(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ms"):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        return f"decimal({kind.precision},{kind.scale})"
    if kind not in _NAMES:
        raise _Unknown
    return _NAMES[kind]


def _row_hashes(
    batches: Iterator[Any], types: dict[str, str], seeds: Array
) -> Iterator[tuple[Array, int]]:
    for batch in batches:
        state = _begun(batch.num_rows, seeds)
        for name in types:
            column = plain(batch.column(name))
            valid = validity(column)
            if types[name] in ("string", "binary"):
                ends, data = bytes_of(column)
                _take_bytes(state, ends.astype(np.int64), data, valid, True)
            else:
                words, narrow = _words(column)
                _take_words(state, words, valid, narrow)
        yield state, 0


def _words(column: Any) -> tuple[Array, bool]:
    """Values as Spark hashes them, and whether as 32 bits."""
    kind = column.type
    if pa.types.is_floating(kind):
        wide = kind == pa.float64()
        found = numbers(column, np.float64 if wide else np.float32) + 0.0  # no -0
        found[np.isnan(found)] = np.nan
        bits = found.view(np.int64 if wide else np.int32).astype(np.int64)
        return bits.view(U64), not wide
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_decimal128(kind):
        stored = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :: 2]
        return stored[: len(column)].copy().view(U64), False
    if pa.types.is_timestamp(kind):
        scale = 1000 if kind.unit == "ms" else 1
        return (numbers(column.cast(pa.int64()), np.int64) * scale).view(U64), False
    wide = column.type == pa.int64()
    return numbers(column.cast(pa.int64()), np.int64).view(U64), not wide


def _line_hashes(part: EventFile, seeds: Array) -> Iterator[tuple[Array, int]]:
    """Of every line of a text file, its header among them, as Hadoop cuts them; and the longest."""
    rest, first = b"", True
    with open_text(part.path) as file:
        while True:
            piece = read_piece(file, part.path, _PIECE)
            if first and piece:
                piece, first = piece.removeprefix(_MARK), False
            data = rest + piece
            cut = data.rfind(b"\n") + 1 if piece else len(data)
            rest = data[cut:]
            if len(rest) > LONGEST_SEEN:
                raise _Unknown  # Hadoop skips such a line
            if cut:
                yield _lines_of(data[:cut], seeds)
            if not piece:
                return


def _lines_of(data: bytes, seeds: Array) -> tuple[Array, int]:
    held = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(held == 10)
    if not data.endswith(b"\n"):
        stops = np.append(stops, held.size)
    # A line begins behind the line end before it, which is no part of either.
    joined = held[held != 10]
    ends = np.concatenate(([0], stops - np.arange(stops.size)))
    state = _begun(stops.size, seeds)
    _take_bytes(state, ends, joined, np.empty(0, np.bool_), False)
    return state, int(np.diff(ends).max(initial=0))


def _begun(rows: int, seeds: Array) -> Array:
    """The state of every row after the seed, which is hashed like a value."""
    state = np.full((rows, seeds.size), SEED)
    for k, seed in enumerate(seeds):
        column = np.ascontiguousarray(state[:, k : k + 1])
        _seeded(column, seed)
        state[:, k : k + 1] = column
    return state


@compiled
def _seeded(state: Array, seed: Any) -> None:
    for row in range(state.shape[0]):
        state[row, 0] = of_long(seed, state[row, 0])
