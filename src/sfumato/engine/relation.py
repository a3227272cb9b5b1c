"""`Events` as one SQL select of who, when and where: what both engines start from.

The columns it gives:

* `u`: the user's exact id, BIGINT, VARCHAR or BLOB (`Relation.user`); NULL where missing.
* `t`: the instant in epoch microseconds, rounded down; NULL where missing, `FAR` where it is
  outside every period, `BAD` where a text is no time at all.
* `place` (VARCHAR or BIGINT; NULL where missing), or `lon`, `lat` (DOUBLE, NaN where missing)
  and `bad`, true where a text is no number.

Unsigned and wide integers become their decimal text, which is also their canonical text, so
no id is ever cut. The meaning of every encoding is that of `sfumato.model.events`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb

from sfumato.engine.connection import without_records
from sfumato.engine.instants import BAD, FAR, instant_sql, reading_sql
from sfumato.model.errors import UsageError
from sfumato.model.events import Events, FileFormat, FileSource, UserEncoding
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

__all__ = ["BAD", "FAR", "Relation", "names_of", "relation_of", "row_in_file"]

_NARROW = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
_TABLE = "sfumato_events"


@dataclass(frozen=True, slots=True)
class Relation:
    """The select, and what its columns are."""

    sql: str
    user: UserEncoding
    """How `u` is held: INTEGER as BIGINT, TEXT as VARCHAR, BINARY as BLOB."""
    by_coordinates: bool
    place_is_integer: bool


def quoted(name: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def names_of(events: Events) -> tuple[str, ...]:
    """Public names of the source for messages: its files, or the table's label."""
    if isinstance(events.source, FileSource) and events.source.label is None:
        return tuple(str(path) for path in events.source.paths)
    return (events.source.label or "",)


def row_in_file(events: Events, row: int, connection: duckdb.DuckDBPyConnection) -> tuple[str, int]:
    """Which file the row is in (1 is the first of all files), and its number there."""
    if isinstance(events.source, FileSource) and events.source.label is None:
        for path in events.source.paths:
            alone = replace(events, source=replace(events.source, paths=(path,)))
            scan = _scan(alone, connection)
            # A cursor of its own: the connection is in the middle of streaming.
            found = connection.cursor().execute(f"SELECT COUNT(*) FROM {scan}").fetchone()
            assert found is not None
            if row <= found[0]:
                return str(path), row
            row -= int(found[0])
    return names_of(events)[-1], row


def _scan(events: Events, connection: duckdb.DuckDBPyConnection) -> str:
    source = events.source
    if not isinstance(source, FileSource):
        connection.register(_TABLE, source.table)
        return _TABLE
    paths = "[" + ", ".join(literal(str(path)) for path in source.paths) + "]"
    hive = f"hive_partitioning = {str(source.hive).lower()}, hive_types_autocast = false"
    if source.format is FileFormat.PARQUET:
        return f"read_parquet({paths}, {hive})"
    dialect = source.csv
    assert dialect is not None  # FileSource checks it
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in dialect.columns)
    return (
        f"read_csv({paths}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"delim = {literal(dialect.delimiter)}, quote = {literal(dialect.quote)}, "
        f"escape = {literal(dialect.quote)}, nullstr = '', {hive})"
    )


def _types(connection: duckdb.DuckDBPyConnection, scan: str) -> dict[str, str]:
    rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def _user_sql(events: Events, kind: str) -> tuple[str, UserEncoding]:
    column = quoted(events.columns.user)
    if events.user is UserEncoding.BINARY:
        return f"CAST({column} AS BLOB)", UserEncoding.BINARY
    if events.user is UserEncoding.INTEGER and (kind in _NARROW or kind.startswith("DECIMAL")):
        return f"CAST({column} AS BIGINT)", UserEncoding.INTEGER
    return f"CAST({column} AS VARCHAR)", UserEncoding.TEXT


def _coordinate_sql(column: str, scale: float) -> str:
    return f"COALESCE(TRY_CAST({column} AS DOUBLE) / {scale!r}, CAST('NaN' AS DOUBLE))"


def relation_of(
    events: Events, places: Places, grid: TimeGrid, connection: duckdb.DuckDBPyConnection
) -> Relation:
    """The select for these events: towers by name, zones by coordinates or else by name."""
    columns = events.columns
    by_coordinates = places.kind is PlaceKind.ZONES and columns.lon is not None
    if not by_coordinates and columns.place is None:
        raise UsageError(
            "The events carry coordinates and no tower, but the places are towers.",
            remedy="Give zones to count coordinates in, or name the tower column with "
            "--column place=….",
        )
    with without_records(names_of(events)):
        scan = _scan(events, connection)
        types = _types(connection, scan)
    user, held = _user_sql(events, types[columns.user])
    picked = [f"{user} AS u", f"{reading_sql(events, types[columns.time])} AS r"]
    integer = False
    if by_coordinates:
        assert columns.lon is not None
        assert columns.lat is not None
        pair = [quoted(columns.lon), quoted(columns.lat)]
        for name, column in zip(("lon", "lat"), pair, strict=True):
            picked.append(f"{_coordinate_sql(column, columns.degrees_scale)} AS {name}")
        wrong = " OR ".join(
            f"({column} IS NOT NULL AND TRY_CAST({column} AS DOUBLE) IS NULL)" for column in pair
        )
        text = "VARCHAR" in (types[columns.lon], types[columns.lat])
        picked.append(f"{wrong if text else 'false'} AS bad")
    else:
        assert columns.place is not None
        integer = types[columns.place] in _NARROW
        kind = "BIGINT" if integer else "VARCHAR"
        picked.append(f"CAST({quoted(columns.place)} AS {kind}) AS place")
    sql = (
        f"SELECT u, {instant_sql(events, grid, 'r')} AS t, "
        f"{'lon, lat, bad' if by_coordinates else 'place'} "
        f"FROM (SELECT {', '.join(picked)} FROM {scan})"
    )
    return Relation(sql, held, by_coordinates, integer)
