"""A keyed fingerprint of the input: the same bytes, the same text, and nothing to guess from.

A reservation is bound to the data it was made for, so that the same noise never meets two
inputs. The digest is keyed (BLAKE2b, 256 bits, the key hashed first so that any length is
safe): whoever reads the ledger without the key cannot test a guess about the records.

Files count by content and not by name, each with its length before it, in the order of their
paths; tables by the bytes of their Arrow stream; rows that come in no particular order (out of a
database) by a digest of the multiset they are. How each part is read enters as well: the same
file read with another user column is another input.

Reservations that were made before every part had a reading of its own hold a fingerprint of the
first form; `earlier_fingerprints` gives those that the same files could have had then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pyarrow as pa

from sfumato.engine.multiset.digest import rows_digest
from sfumato.model.events import (
    EventFile,
    Events,
    EventTable,
    FileFormat,
    Reading,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

_PIECE = 1 << 22
Digests = Sequence["hashlib.blake2b"]


class _Sink:
    """A file object that only hashes."""

    closed = False

    def __init__(self, digests: Digests) -> None:
        self._digests = digests

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        for digest in self._digests:
            digest.update(view)
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


def _file(digests: Digests, path: Path) -> None:
    size = path.stat().st_size.to_bytes(8, "little")
    for digest in digests:
        digest.update(size)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            for digest in digests:
                digest.update(piece)


def _table(digests: Digests, part: EventTable) -> None:
    try:
        table = part.table.combine_chunks()
    except pa.ArrowInvalid:  # one value more than a dictionary's indices can tell apart
        table = _wide(part.table).combine_chunks()
    with pa.ipc.new_stream(pa.PythonFile(_Sink(digests), mode="w"), table.schema) as stream:
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


def fingerprint(
    events: Events, places: Places, grid: TimeGrid, key: bytes, progress: Progress | None = None
) -> str:
    """64 hex digits over the records, how they are read, the places and the grid."""
    digest = _new(key)
    digest.update(repr(("sfumato-input/2", places.fingerprint(), grid.fingerprint())).encode())
    if events.unordered:
        if progress is not None:
            progress("fingerprint of the input", -1.0)
        readings = sorted({repr(_meaning(part.reading)) for part in events.parts})
        digest.update(repr(readings).encode() + _multiset(events, key))
        return digest.hexdigest()
    files = _files(events)
    for done, part in enumerate(files):
        if progress is not None:
            progress("fingerprint of the input", done / len(files))
        how = (str(part.format), part.delimiter, part.header, part.keys, _meaning(part.reading))
        digest.update(repr(how).encode())
        _file([digest], part.path)
    for table in events.parts:
        if isinstance(table, EventTable):
            digest.update(repr(("table", _meaning(table.reading))).encode())
            _table([digest], table)
    return digest.hexdigest()


def earlier_fingerprints(
    events: Events, places: Places, grid: TimeGrid, key: bytes
) -> frozenset[str]:
    """What a reservation of the first form may hold for these records; empty if nothing.

    That form described all parts at once and took what it did not know from the first rows, so
    there are a few possibilities: texts with offsets or without, coordinates used or left out.
    The records themselves are in each of them, to the byte.
    """
    if not events.parts or events.unordered:
        return frozenset()
    first = events.parts[0]
    how = {(part.reading, _cut(part)) for part in events.parts}
    if len(how) > 1 or (isinstance(first, EventFile) and first.format is FileFormat.NDJSON):
        return frozenset()
    digests = []
    for meaning in _earlier_meanings(first.reading):
        digest = _new(key)
        spread = (*meaning[:-1], places.fingerprint(), grid.fingerprint(), meaning[-1])
        digest.update(repr(("sfumato-input/1", *spread)).encode())
        digest.update(_cut(first).encode())
        digests.append(digest)
    if isinstance(first, EventTable):
        _table(digests, first)
    else:
        for part in _files(events):
            _file(digests, part.path)
    return frozenset(digest.hexdigest() for digest in digests)


def _cut(part: EventFile | EventTable) -> str:
    """How the first form wrote format and dialect. The spelling is frozen."""
    if isinstance(part, EventTable):
        return ""
    if part.format is FileFormat.PARQUET:
        return "('parquet', None)"
    dialect = f"CsvDialect(delimiter={part.delimiter!r}, columns={part.header!r}, quote='\"')"
    return f"('csv', {dialect})"


def _earlier_meanings(reading: Reading) -> list[tuple[str | None, ...]]:
    meaning = _meaning(reading)
    where = [meaning[2:6]]
    if reading.columns.place is not None and reading.columns.lon is not None:
        where.append((reading.columns.place, None, None, "1.0"))
    times: list[tuple[str, str | None]] = [(str(reading.time), reading.tz)]
    if reading.time is TimeEncoding.ISO:
        times = [("instant", None), ("naive", reading.tz)]
    users = [str(reading.user)]
    if reading.user is UserEncoding.TEXT:
        users.append("integer")  # unsigned ones
    return [
        (*meaning[:2], *at, time, user, tz, meaning[-1])
        for at, (time, tz), user in product(where, times, users)
    ]
