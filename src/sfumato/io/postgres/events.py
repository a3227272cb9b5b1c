"""`read_database`: `read_events` for an address. It takes the snapshot, so it does read.

How the rows of each table are read is decided as for files, by its columns' names, the server's
types and the options, each table by itself. Rows outside the period stay on the server. That
nobody was there is a private answer like any other, so an empty table is no error. No value of a
table stops the reading (`sfumato.io.postgres.table`). A view that computes is the holder's own:
where its expression fails for one row, the server gives none.

**The period** is a condition for the server, so that only rows that can count travel. It keeps
every row whose time the engine would put inside the period, and may keep a few more: for wall
clocks, an hour at a change of the clock; for floating-point epochs, a second. Text is not compared
on the server (its order is not that of time), so a text column travels whole. Timestamps and
numbers are compared as they are stored with constants, which no value makes fail: the server puts
infinity and NaN above all others, and so outside.

**The snapshot** of a table is a Parquet file in a scratch folder, which the engine reads as any
other file. Once read, the rows cannot change under a release, and asking for several margins or for
the fingerprint does not ask the server again. The file holds the columns that play a part and the
rows that can count, nothing else; the folder is for its owner alone, and is removed with the run,
or by the next run where this one is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import InputError
from sfumato.io import names
from sfumato.io.columns import NUMBER_TEXT, describe
from sfumato.io.files import is_address
from sfumato.io.formats import Format, ReadOptions
from sfumato.io.parquet import Parquet
from sfumato.io.postgres.connect import Address, Table, parse_address
from sfumato.io.postgres.table import ServerColumn, Session, as_utf8, open_session
from sfumato.io.tables import quoted, refuse_repeated
from sfumato.io.write import Scratch
from sfumato.model.events import EventFile, Events, Reading, TimeEncoding
from sfumato.model.source import Progress
from sfumato.model.time_grid import clock_offsets

Period = tuple[int, int]
"""First instant and first instant after, in epoch microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_MICROSECOND = {
    TimeEncoding.EPOCH_S: (1, 1_000_000),
    TimeEncoding.EPOCH_MS: (1, 1_000),
    TimeEncoding.EPOCH_US: (1, 1),
    TimeEncoding.EPOCH_NS: (1_000, 1),
}


def condition(column: str, type: str, reading: Reading, period: Period | None) -> str:
    """An SQL condition about the time column, `true` where nothing can be said."""
    name = quoted(column)
    if reading.time_is_text and type != NUMBER_TEXT:
        return "true"
    if reading.time in (TimeEncoding.INSTANT, TimeEncoding.NAIVE):
        if period is None:
            return "true"
        first, last = period
        if reading.time is TimeEncoding.NAIVE:
            assert reading.tz is not None  # the reader has refused a clock without a zone
            _, offsets = clock_offsets(reading.tz, first, last)
            first, last = first + int(offsets.min()), last + int(offsets.max())
        aware = reading.time is TimeEncoding.INSTANT
        low, high = (_moment(edge, aware) for edge in (first, last))
        return f"{name} >= {low} AND {name} < {high}"
    if period is None:
        return "true"
    multiply, divide = _PER_MICROSECOND[reading.time]
    margin = 0 if type in ("SMALLINT", "INTEGER", "BIGINT") else 1_000_000
    low_edge = (period[0] - margin) * multiply // divide
    high_edge = -(-(period[1] + margin) * multiply // divide)
    return f"{name} >= {low_edge} AND {name} < {high_edge}"


def _moment(microseconds: int, aware: bool) -> str:
    """An instant as an SQL constant, so that the server can leave out whole partitions."""
    try:
        text = (_EPOCH + timedelta(microseconds=microseconds)).isoformat(sep=" ")
    except OverflowError:  # beyond the years 1 and 9999
        text = "infinity" if microseconds > 0 else "-infinity"
    return f"timestamptz '{text}'" if aware else f"timestamp '{text.removesuffix('+00:00')}'"


_COMPRESSION = "lz4"


def write_snapshot(
    path: Path, batches: Iterable[Any], label: str, progress: Progress | None = None
) -> None:
    """Batches to a file, a row group each: never more than one of them in memory."""
    try:
        return _write(path, batches, progress)
    except (OSError, pa.ArrowException):
        pass  # what the writer says may quote a value
    raise InputError(
        "its rows could not be put in the temporary folder.",
        file=label,
        remedy="Point TMPDIR to a disk with more room.",
    )


def _write(path: Path, batches: Iterable[Any], progress: Progress | None) -> None:
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            if writer is None:
                writer = pq.ParquetWriter(path, batch.schema, compression=_COMPRESSION)
            if batch.num_rows:
                writer.write_batch(batch)
            if progress is not None:
                progress("reading the database", -1.0)
    finally:
        if writer is not None:
            writer.close()


class Database(Format):
    """Tables of PostgreSQL, by the address of their database."""

    name = "postgresql"

    def can_read(self, source: object) -> bool:
        return is_address(source)

    def read(self, source: str, options: ReadOptions) -> Events:
        return read_database(
            parse_address(source),
            columns=options.columns,
            tz=options.tz,
            time_unit=options.time_unit,
            period=options.period,
            progress=options.progress,
        )


def read_database(
    address: Address,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    period: Period | None = None,
    progress: Progress | None = None,
) -> Events:
    """Describe the tables of an address and take a snapshot of their rows in the period."""
    chosen = names.of_roles(columns or {}, names.EVENT_ROLES)
    scratch = Scratch()
    parts: list[EventFile] = []
    notes: tuple[str, ...] = ()
    try:
        with open_session(address) as session:
            for k, table in enumerate(address.tables):
                path = Path(scratch.name) / f"{k:04d}.parquet"
                part, said = _take(session, table, path, chosen, tz, time_unit, period, progress)
                parts.append(part)
                notes = tuple(dict.fromkeys((*notes, *said)))
    except BaseException:
        scratch.cleanup()
        raise
    return Events(tuple(parts), notes, label=address.label, unordered=True, keeper=scratch)


def _picked(table: Table, columns: Sequence[ServerColumn], reading: Reading) -> list[ServerColumn]:
    by_name = {column.name: column for column in columns}
    used = reading.columns.used
    refuse_repeated(
        [name for name in by_name if name.lower() in {u.lower() for u in used}], table.label
    )
    return [by_name[name] for name in used]


def _named(batches: Iterable[Any], picked: Sequence[ServerColumn], encoding: str) -> Iterator[Any]:
    """Batches under the columns' own names, their texts in UTF-8 or judged later."""
    for batch in batches:
        arrays = [
            as_utf8(array, encoding) if column.encoded else array
            for column, array in zip(picked, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in picked])


def _take(
    session: Session,
    table: Table,
    path: Path,
    chosen: Mapping[str, str],
    tz: str | None,
    unit: str | None,
    period: Period | None,
    progress: Progress | None,
) -> tuple[EventFile, tuple[str, ...]]:
    """One table as a file, and how it is read."""
    columns = session.columns(table)
    reading, notes = describe(
        [column.column for column in columns], chosen, table.label, tz=tz, unit=unit
    )
    picked = _picked(table, columns, reading)
    time = next(column for column in picked if column.name == reading.columns.time)
    if time.type == NUMBER_TEXT:  # `extract(epoch …)`; a time has no more digits than these
        picked[picked.index(time)] = replace(
            time, expression=f"trunc({quoted(time.name)}, 9)::text"
        )
    selected = ", ".join(f"{column.expression} AS c{k}" for k, column in enumerate(picked))
    where = condition(time.name, time.type, reading, period)
    sql = f"SELECT {selected} FROM {table.sql} WHERE {where}"
    batches = _named(session.batches(sql, table.label), picked, session.encoding)
    write_snapshot(path, batches, table.label, progress)
    return EventFile(path, Parquet.name, reading), notes
