"""A keyed fingerprint of the input: the same bytes, the same text, and nothing to guess from.

A reservation is bound to the data it was made for, so that the same noise never meets two
inputs. The digest is keyed (BLAKE2b, 256 bits, the key hashed first so that any length is
safe): whoever reads the ledger without the key cannot test a guess about the records.

Files count by content and not by name, in the order of their paths; tables by the bytes of their
Arrow stream; rows that come in no particular order (out of a database) by a digest of the multiset
they are. How each part is read enters as well: the same file read with another user column is
another input. Every byte is read every time: what the file system says about a file (its time, its
size) is no proof that it is the same.

**The multiset digest** (`rows_digest`) is the same for the same rows, in whatever order and files
they come: a database sends its rows in an order that may differ from one run to the next, and a
release that was interrupted must still recognise its input. Every row is hashed with a secret key
and the hashes are added up (the additive multiset hash of Clarke et al. 2003, over a keyed function
instead of a random oracle). One row more, less or other changes the sum except with probability
2^-128. The sum itself is never stored: it goes into the keyed fingerprint. The hash is SipHash-2-4
(Aumasson & Bernstein 2012), compiled, over a row's 64-bit words: no library that is installed gives
a keyed hash of every row of a table, and a call of `hashlib` for each takes a microsecond. A row's
state stands in four columns of an array, so that a table is taken in column by column; two 64-bit
words come out of each row and are added up modulo 2^64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.io.values import bytes_of, validity
from sfumato.model.compiled import compiled, inlined
from sfumato.model.events import EventFile, Events, EventTable, Reading
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

U64 = np.uint64
_MISSING, _WORD, _BYTES = U64(0), U64(1), U64(2)


@inlined
def _left(x: Any, by: int) -> Any:
    return (x << U64(by)) | (x >> U64(64 - by))


@compiled
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _left(v1, 13) ^ v0
    v0 = _left(v0, 32)
    v2 = v2 + v3
    v3 = _left(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _left(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _left(v1, 17) ^ v2
    v2 = _left(v2, 32)
    return v0, v1, v2, v3


@compiled
def _absorb(state: NDArray[np.uint64], row: int, word: Any) -> None:
    v0, v1, v2, v3 = state[row, 0], state[row, 1], state[row, 2], state[row, 3] ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    state[row, 0], state[row, 1], state[row, 2], state[row, 3] = v0 ^ word, v1, v2, v3


@compiled
def begin(state: NDArray[np.uint64], low: Any, high: Any) -> None:
    """The state of every row before its first word, from a key of two words."""
    for row in range(state.shape[0]):
        state[row, 0] = U64(0x736F6D6570736575) ^ low
        state[row, 1] = U64(0x646F72616E646F6D) ^ high
        state[row, 2] = U64(0x6C7967656E657261) ^ low
        state[row, 3] = U64(0x7465646279746573) ^ high


@compiled
def take_words(
    state: NDArray[np.uint64], words: NDArray[np.uint64], valid: NDArray[np.bool_]
) -> None:
    """A column of fixed width; `valid` is empty where no value is missing."""
    for row in range(state.shape[0]):
        if valid.size and not valid[row]:
            _absorb(state, row, _MISSING)
        else:
            _absorb(state, row, _WORD)
            _absorb(state, row, words[row])


@compiled
def take_bytes(
    state: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    valid: NDArray[np.bool_],
) -> None:
    """A column of texts or bytes: the length first, so that no two values run together."""
    for row in range(state.shape[0]):
        if valid.size and not valid[row]:
            _absorb(state, row, _MISSING)
            continue
        first, last = offsets[row], offsets[row + 1]
        _absorb(state, row, (U64(last - first) << U64(2)) | _BYTES)
        for at in range(first, last, 8):
            word = U64(0)
            for k in range(min(8, last - at)):
                word |= U64(data[at + k]) << U64(8 * k)
            _absorb(state, row, word)


@compiled
def add_up(state: NDArray[np.uint64], total: NDArray[np.uint64]) -> None:
    """Two words out of each row, added to `total`."""
    for row in range(state.shape[0]):
        v0, v1, v2, v3 = state[row, 0], state[row, 1], state[row, 2], state[row, 3]
        v2 ^= U64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        total[0] += v0 ^ v1 ^ v2 ^ v3
        v1 ^= U64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        total[1] += v0 ^ v1 ^ v2 ^ v3


_ROWS = 1 << 16


def rows_digest(paths: Sequence[Path], columns: Sequence[str], key: bytes) -> bytes:
    """Number of rows and sum of their keyed hashes, over `columns` in this order; 24 bytes."""
    low, high = (np.uint64(part) for part in np.frombuffer(key[:16], "<u8"))
    total = np.zeros(2, np.uint64)
    rows = 0
    for path in paths:
        with pq.ParquetFile(
            path.absolute(), pre_buffer=False
        ) as file:  # else all of it stays in memory
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(columns)):
                state = np.empty((batch.num_rows, 4), np.uint64)
                begin(state, low, high)
                for name in columns:
                    _take(state, batch.column(name))
                add_up(state, total)
                rows += batch.num_rows
    return rows.to_bytes(8, "little") + total.astype("<u8").tobytes()


def _take(state: Any, column: Any) -> None:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        words = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        words = column.cast(pa.float64())
    else:
        offsets, data = bytes_of(column)
        take_bytes(state, offsets.astype(np.int64), data, validity(column))
        return
    size = len(words)
    buffer = words.buffers()[1]
    values = np.frombuffer(buffer, np.uint64) if size else np.empty(0, np.uint64)
    take_words(state, values[words.offset : words.offset + size], validity(column))


PIECE = 1 << 20
"""Bytes at a time."""


class _Sink:
    """A file object that only hashes."""

    closed = False

    def __init__(self, content: hashlib.blake2b) -> None:
        self._content = content

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self._content.update(view)
        return view.nbytes

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _content(path: Path, key: bytes, read: Callable[[int], None]) -> tuple[str, int]:
    """Digest and length of what is in a file now."""
    digest, size = _new(key), 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
            read(len(piece))
    return digest.hexdigest(), size


def _table(content: hashlib.blake2b, part: EventTable) -> None:
    try:
        table = part.table.combine_chunks()
    except pa.ArrowInvalid:  # one value more than a dictionary's indices can tell apart
        table = _wide(part.table).combine_chunks()
    with pa.ipc.new_stream(pa.PythonFile(_Sink(content), mode="w"), table.schema) as stream:
        stream.write_table(table)


def _wide(table: pa.Table) -> pa.Table:
    """The table with 64-bit indices of its dictionaries."""
    fields = [
        field.with_type(pa.dictionary(pa.int64(), field.type.value_type))
        if pa.types.is_dictionary(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _files(events: Events) -> list[EventFile]:
    found = [part for part in events.parts if isinstance(part, EventFile)]
    return sorted(found, key=lambda part: part.path)


def _multiset(events: Events, key: bytes) -> bytes:
    """A digest of a database's rows, whatever order they came in."""
    files = _files(events)
    secret = hashlib.sha256(b"sfumato-rows/1" + key).digest()
    used = files[0].reading.columns.used if files else ()
    return b"rows" + rows_digest([part.path for part in files], used, secret)


def _new(key: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=32)


def _meaning(reading: Reading) -> tuple[str | None, ...]:
    columns = reading.columns
    return (
        *(columns.user, columns.time, columns.place, columns.lon, columns.lat),
        *(repr(columns.degrees_scale), str(reading.time), str(reading.user), reading.tz),
        str(reading.time_is_text),
    )


def _size(path: Path) -> int:
    """For the progress alone: a file that is gone says so where it is read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def fingerprint(
    events: Events, places: Places, grid: TimeGrid, key: bytes, progress: Progress | None = None
) -> str:
    """64 hex digits over the records, how they are read, the places and the grid."""
    digest = _new(key)
    digest.update(repr(("sfumato-input/1", places.fingerprint(), grid.fingerprint())).encode())
    if events.unordered:
        if progress is not None:
            progress("fingerprint of the input", -1.0)
        readings = sorted({repr(_meaning(part.reading)) for part in events.parts})
        digest.update(repr(readings).encode() + _multiset(events, key))
        return digest.hexdigest()
    files = _files(events)
    whole, done = max(1, sum(_size(part.path) for part in files)), 0

    def read(size: int) -> None:
        nonlocal done
        done += size
        if progress is not None:
            progress("fingerprint of the input", min(1.0, done / whole))

    for part in files:
        digest.update(repr((_how(part), *_content(part.path, key, read))).encode())
    for table in events.parts:
        if isinstance(table, EventTable):
            content = _new(key)
            _table(content, table)
            how = ("table", _meaning(table.reading))
            digest.update(repr((how, content.hexdigest())).encode())
    return digest.hexdigest()


def _how(part: EventFile) -> tuple[object, ...]:
    """How a file is read."""
    return str(part.format), part.delimiter, part.header, part.keys, _meaning(part.reading)
