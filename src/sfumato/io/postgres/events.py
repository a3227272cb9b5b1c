"""`read_database`: `read_events` for an address. It takes the snapshot, so it does read.

How the rows of each table are read is decided as for files, by its columns' names, the server's
types and the options, each table by itself. Rows outside the period stay on the server. That
nobody was there is a private answer like any other, so an empty table is no error.

No value of a table stops the reading (`sfumato.io.postgres.columns`). A view that computes is the
holder's own: where its expression fails for one row, the server gives none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.io import aliases
from sfumato.io.event_columns import ROLES, describe
from sfumato.io.postgres.address import Address, Table
from sfumato.io.postgres.columns import ServerColumn
from sfumato.io.postgres.encodings import as_utf8
from sfumato.io.postgres.period import Period, condition
from sfumato.io.postgres.session import Session, open_session
from sfumato.io.postgres.snapshot import write_snapshot
from sfumato.io.schema import refuse_repeated
from sfumato.io.scratch import Scratch
from sfumato.model.events import EventFile, Events, FileFormat, Reading
from sfumato.model.source import Progress


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
    chosen = dict(columns or {})
    aliases.check_keys(chosen, ROLES)
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


def _picked(table: Table, found: Sequence[ServerColumn], reading: Reading) -> list[ServerColumn]:
    by_name = {column.name: column for column in found}
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
    found = session.columns(table)
    reading, notes = describe(
        [column.column for column in found], chosen, table.label, tz=tz, unit=unit
    )
    picked = _picked(table, found, reading)
    time = next(column for column in picked if column.name == reading.columns.time)
    selected = ", ".join(f"{column.expression} AS c{k}" for k, column in enumerate(picked))
    where = condition(time.name, time.type, reading, period)
    sql = f"SELECT {selected} FROM {table.sql} WHERE {where}"
    batches = _named(session.batches(sql, table.label), picked, session.encoding)
    write_snapshot(path, batches, table.label, progress)
    return EventFile(path, FileFormat.PARQUET, reading), notes
