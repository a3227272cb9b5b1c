"""`read_database`: `read_events` for an address. It takes the snapshot, so it does read.

How the rows of each table are read is decided as for files, by its columns' names, the server's
types and the options. Rows outside the period stay on the server. That nobody was there is a
private answer like any other, so an empty table is no error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sfumato.io import aliases
from sfumato.io.event_columns import ROLES, describe
from sfumato.io.postgres.address import Address, Table
from sfumato.io.postgres.columns import ServerColumn
from sfumato.io.postgres.period import Period, condition
from sfumato.io.postgres.session import Session, open_session
from sfumato.io.postgres.snapshot import write_snapshot
from sfumato.io.schema import refuse_repeated
from sfumato.io.scratch import Scratch
from sfumato.model.errors import InputError
from sfumato.model.events import EventFile, Events, FileFormat
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


def _picked(table: Table, found: Sequence[ServerColumn], used: list[str]) -> list[ServerColumn]:
    by_name = {column.name: column for column in found}
    refuse_repeated(
        [name for name in by_name if name.lower() in {u.lower() for u in used}], table.label
    )
    for name in used:
        if name not in by_name:
            raise InputError(
                f"there is no such column here. The columns are {aliases.listed(list(by_name))}.",
                file=table.label,
                column=name,
                remedy="Read tables of one kind at a time.",
            )
    return [by_name[name] for name in used]


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
    picked = _picked(table, found, list(reading.columns.used))
    time = next(column for column in picked if column.name == reading.columns.time)
    selected = ", ".join(column.select for column in picked)
    where = condition(time.name, time.type, reading, period)
    sql = f"SELECT {selected} FROM {table.sql} WHERE {where}"
    write_snapshot(path, session.batches(sql, table.label), table.label, progress)
    return EventFile(path, FileFormat.PARQUET, reading), notes
