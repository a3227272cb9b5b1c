"""`read_database`: `read_events` for an address. It takes the snapshot, so it does read.

What the columns mean is decided as for files, by their names and the server's types. Rows outside
the period stay on the server. An empty table is an error, an empty period is not: that nobody was
there is a private answer like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.io import aliases
from sfumato.io.event_columns import (
    ROLES,
    check_place_types,
    event_roles,
    usable_degrees,
    used_columns,
    user_encoding,
)
from sfumato.io.event_time import TimeReading, read_time
from sfumato.io.postgres.address import Address, Table
from sfumato.io.postgres.columns import ServerColumn
from sfumato.io.postgres.period import Period, condition
from sfumato.io.postgres.session import Session, open_session
from sfumato.io.postgres.snapshot import write_snapshot
from sfumato.io.schema import GLANCE, Column, Inspector, connection, refuse_repeated
from sfumato.io.scratch import Scratch
from sfumato.model.errors import InputError
from sfumato.model.events import EventColumns, Events, FileFormat, FileSource, UserEncoding
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
    try:
        with open_session(address) as session:
            plan = _plan(session, address.tables, chosen, tz, time_unit)
            paths = [
                _take(
                    session, table, plan, period, Path(scratch.name) / f"{k:04d}.parquet", progress
                )
                for k, table in enumerate(address.tables)
            ]
        source = FileSource(
            tuple(paths), FileFormat.PARQUET, label=address.label, unordered=True, keeper=scratch
        )
        roles, dropped = _usable(source, plan, chosen)
    except BaseException:
        scratch.cleanup()
        raise
    notes = tuple(
        f"{name!r} is read as the {part}"
        for part, name in _parts(roles).items()
        if name is not None and part not in chosen
    )
    time = plan.time
    return Events(
        source, roles, time.encoding, plan.user, time.tz, notes + dropped + time.notes, time.is_text
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is asked of every table, and what it means."""

    roles: EventColumns
    columns: tuple[ServerColumn, ...]
    user: UserEncoding
    time: TimeReading

    @property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column.column for column in self.columns}


def _plan(
    session: Session,
    tables: Sequence[Table],
    chosen: Mapping[str, str],
    tz: str | None,
    unit: str | None,
) -> _Plan:
    found = [session.columns(table) for table in tables]
    label = tables[0].label
    roles = event_roles([column.name for column in found[0]], chosen, label)
    used = used_columns(roles)
    picked = [_picked(table, some, used) for table, some in zip(tables, found, strict=True)]
    _check_same(tables, picked)
    by_name = {column.name: column.column for column in picked[0]}
    user = user_encoding(by_name[roles.user], label)
    check_place_types(by_name, roles, label)
    time = _time(session, tables, picked[0], roles, tz, unit)
    return _Plan(roles, tuple(picked[0]), user, time)


def _parts(roles: EventColumns) -> dict[str, str | None]:
    names = (roles.user, roles.time, roles.place, roles.lon, roles.lat)
    return dict(zip(("user", "time", "place", "lon", "lat"), names, strict=True))


def _usable(
    source: FileSource, plan: _Plan, chosen: Mapping[str, str]
) -> tuple[EventColumns, tuple[str, ...]]:
    """Coordinates beside a place are a help, not a need: unusable ones are left out and noted."""
    roles = plan.roles
    if roles.lon is None:
        return roles, ()
    with connection() as db:
        return usable_degrees(Inspector(db), source, plan.by_name, roles, source.label, chosen)


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


def _check_same(tables: Sequence[Table], picked: Sequence[Sequence[ServerColumn]]) -> None:
    for table, columns in zip(tables[1:], picked[1:], strict=True):
        for mine, theirs in zip(columns, picked[0], strict=True):
            if mine.type != theirs.type:
                raise InputError(
                    f"the type is {mine.type} here and {theirs.type} in {tables[0].label}.",
                    file=table.label,
                    column=mine.name,
                    remedy="Read tables of one kind at a time.",
                )


def _time(
    session: Session,
    tables: Sequence[Table],
    columns: Sequence[ServerColumn],
    roles: EventColumns,
    tz: str | None,
    unit: str | None,
) -> TimeReading:
    """How the time column is read; an error if there is not a single row anywhere."""
    column = next(c for c in columns if c.name == roles.time)
    typed = column.type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
    wanted, most = ("1", 1) if typed else (column.expression, GLANCE)
    values: list[Any] = []
    for table in tables:
        asked = f"SELECT {wanted} AS value FROM {table.sql} LIMIT {most - len(values)}"
        values += [row["value"] for row in session.rows(asked, table.label)]
        if len(values) >= most:
            break
    if not values:
        raise InputError("there are no rows.", file=tables[0].label)
    return read_time(column.column, lambda: values, tz=tz, unit=unit, file=tables[0].label)


def _take(
    session: Session,
    table: Table,
    plan: _Plan,
    period: Period | None,
    path: Path,
    progress: Progress | None,
) -> Path:
    name = plan.roles.time
    where = condition(name, plan.by_name[name].type, plan.time, period)
    selected = ", ".join(column.select for column in plan.columns)
    sql = f"SELECT {selected} FROM {table.sql} WHERE {where}"
    write_snapshot(path, session.batches(sql, table.label), table.label, progress)
    return path
