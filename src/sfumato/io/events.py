"""`read_events`: from files or a table to a checked description, without reading the records.

Only the schema is looked at, and the first rows where text or numbers must tell how they are
to be read. What this found is in the `Events`, what it assumed in its notes; what an engine
does with each combination is written in `sfumato.model.events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sfumato.io.aliases import check_keys
from sfumato.io.csv_dialect import read_dialect
from sfumato.io.event_columns import (
    ROLES,
    check_place_types,
    event_roles,
    usable_degrees,
    used_columns,
    user_encoding,
)
from sfumato.io.event_time import read_time
from sfumato.io.locate import format_of, is_path, locate
from sfumato.io.postgres.address import is_address, parse_address
from sfumato.io.postgres.events import read_database
from sfumato.io.schema import Column, Inspector, connection
from sfumato.io.tables import as_table
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import Events, FileFormat, FileSource, TableSource
from sfumato.model.source import Progress


def read_events(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    period: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Events:
    """Describe and check a source of events.

    `source`: a path (file, folder, glob, hive-partitioned folder), a list of paths, the address
    of a table in PostgreSQL (`sfumato.io.postgres.address`; this one is read here, so close what
    comes back), an Arrow table or reader, a pandas, geopandas or polars DataFrame, or a DuckDB
    relation.
    `columns`: maps user, time, place, lon, lat to column names where the names alone do not
    tell. `tz`: the zone of times that carry none. `time_unit`: s, ms, us or ns for epoch
    numbers. `format`: parquet or csv where neither content nor ending tells.
    `period`: first instant and first instant after (epoch microseconds); a database leaves rows
    outside it behind, files ignore it. `progress` hears of what a database sends.
    """
    if is_address(source):
        return read_database(
            parse_address(str(source)),
            columns=columns,
            tz=tz,
            time_unit=time_unit,
            period=period,
            progress=progress,
        )
    chosen = dict(columns or {})
    check_keys(chosen, ROLES)
    where: FileSource | TableSource
    with connection() as db:
        look = Inspector(db)
        if is_path(source):
            where = _files(source, chosen, format)
            label = str(where.paths[0])
            found = look.file_columns(where, where.paths[0])
        else:
            where = as_table(source)
            label = where.label
            found = [Column(name, "") for name in where.table.column_names]
        roles = event_roles([column.name for column in found], chosen, label)
        used = tuple(used_columns(roles))
        if isinstance(where, TableSource):
            where = replace(where, table=where.table.select(list(used)))
            found = look.table_columns(where)
        by_name = {column.name: column for column in found}
        if isinstance(where, FileSource):
            look.check_same_columns(where, by_name, used)
        user = user_encoding(by_name[roles.user], label)
        check_place_types(by_name, roles, label)
        if not look.has_rows(where):
            raise InputError("there are no rows.", file=label)
        roles, dropped = usable_degrees(look, where, by_name, roles, label, chosen)
        time = read_time(
            by_name[roles.time],
            lambda: look.glance(where, roles.time),
            tz=tz,
            unit=time_unit,
            file=label,
        )
    parts = {"user": roles.user, "time": roles.time, "place": roles.place, "lon": roles.lon}
    notes = tuple(
        f"{name!r} is read as the {part}"
        for part, name in (parts | {"lat": roles.lat}).items()
        if name is not None and part not in chosen
    )
    return Events(
        where, roles, time.encoding, user, time.tz, notes + dropped + time.notes, time.is_text
    )


def _files(source: object, chosen: Mapping[str, str], format: str | None) -> FileSource:
    if format is not None and format not in tuple(FileFormat):
        raise UsageError(f"{format!r} is not a format of events.", remedy="Use parquet or csv.")
    paths, hive = locate(source)
    kinds = {path: format_of(path) for path in paths}
    kind = FileFormat(format) if format else kinds[paths[0]]
    for path, own in kinds.items():
        if own is not kind:
            raise InputError(
                f"the file is not {kind.upper() if kind is FileFormat.CSV else 'Parquet'}"
                + (f" as {paths[0]} is." if path != paths[0] else "."),
                file=str(path),
                remedy="Read files of one format at a time.",
            )
    if kind is FileFormat.PARQUET:
        return FileSource(paths, kind, hive)
    dialect = read_dialect(paths[0], chosen.values())
    for path in paths[1:]:
        if read_dialect(path, chosen.values()) != dialect:
            raise InputError(
                f"the header differs from that of {paths[0]}.",
                file=str(path),
                remedy="Give all files the same columns in the same order.",
            )
    return FileSource(paths, kind, hive, dialect)
