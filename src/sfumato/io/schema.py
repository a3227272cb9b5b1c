"""Column names and types of a source as DuckDB sees them, and a glance at its first rows.

Only footers, headers and the first rows are read. Values that are glanced at stay in memory:
they decide how a column is read and never appear in a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from sfumato.io.aliases import listed
from sfumato.io.csv_errors import csv_error, parquet_error
from sfumato.model.errors import InputError
from sfumato.model.events import FileFormat, FileSource, TableSource

GLANCE = 1000
"""How many first rows may decide how text and numbers are read."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and DuckDB type."""

    name: str
    type: str

    @property
    def is_text(self) -> bool:
        return self.type in ("VARCHAR", "UUID", "JSON") or self.type.startswith("ENUM")


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A private DuckDB that fetches no extensions and uses one thread."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        yield connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _scan(source: FileSource, paths: tuple[Path, ...]) -> str:
    files = "[" + ", ".join(literal(str(path)) for path in paths) + "]"
    hive = f"hive_partitioning={str(source.hive).lower()}, hive_types_autocast=false"
    if source.csv is None:
        return f"read_parquet({files}, {hive})"
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in source.csv.columns)
    return (
        f"read_csv({files}, auto_detect=false, header=true, strict_mode=true, "
        f"delim={literal(source.csv.delimiter)}, quote={literal(source.csv.quote)}, "
        f"escape={literal(source.csv.quote)}, columns={{{columns}}}, {hive})"
    )


def _failed(error: Exception, source: FileSource, paths: tuple[Path, ...]) -> InputError:
    files = [str(path) for path in paths]
    if source.format is FileFormat.CSV and isinstance(error, duckdb.Error):
        return csv_error(error, files)
    return parquet_error(error, files)


def table_columns(table: TableSource) -> list[Column]:
    """Columns of a table in memory."""
    with _connection() as connection:
        connection.register("t", table.table)
        try:
            rows = connection.execute("DESCRIBE SELECT * FROM t").fetchall()
        except duckdb.Error:
            raise InputError("a column has a type that cannot be read.", file=table.label) from None
    return [Column(row[0], row[1]) for row in rows]


def _parquet_names(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Names at the top level of a Parquet file, repeated ones included."""
    rows = connection.execute(
        f"SELECT name, num_children FROM parquet_schema({literal(str(path))})"
    ).fetchall()
    names: list[str] = []
    at = 1
    while at < len(rows):
        names.append(str(rows[at][0]))
        pending = 1
        while pending and at < len(rows):  # step over the nested fields of this column
            pending += (rows[at][1] or 0) - 1
            at += 1
    return names


def file_columns(source: FileSource, path: Path) -> list[Column]:
    """Columns of one file, partition keys included."""
    with _connection() as connection:
        try:
            if source.format is FileFormat.PARQUET:
                _refuse_repeated(_parquet_names(connection, path), path)
            rows = connection.execute(f"DESCRIBE SELECT * FROM {_scan(source, (path,))}").fetchall()
        except InputError:
            raise
        except Exception as error:
            # DuckDB raises several families here, also for damaged text in the footer.
            raise _failed(error, source, (path,)) from None
    return [Column(str(row[0]), str(row[1])) for row in rows]


def _refuse_repeated(names: list[str], path: Path) -> None:
    if not names:
        raise InputError("the file has no columns.", file=str(path))
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise InputError(
                "two columns have the same name (upper and lower case are the same here).",
                file=str(path),
                column=name,
                remedy="Rename one of them.",
            )


def check_same_columns(source: FileSource, first: dict[str, Column], used: tuple[str, ...]) -> None:
    """Every file has the used columns with the types of the first file."""
    for path in source.paths[1:]:
        here = {column.name: column for column in file_columns(source, path)}
        for name in used:
            if name not in here:
                raise InputError(
                    f"the column is missing here but present in {source.paths[0]}. "
                    f"The columns are {listed(list(here))}.",
                    file=str(path),
                    column=name,
                    remedy="Read files of one kind at a time.",
                )
            if here[name].type != first[name].type:
                raise InputError(
                    f"the type is {here[name].type} here and {first[name].type} in "
                    f"{source.paths[0]}.",
                    file=str(path),
                    column=name,
                    remedy="Write the files with one type.",
                )


def glance(source: FileSource | TableSource, column: str) -> list[Any]:
    """The first values of a column, missing ones as None, in row order."""
    query = f"SELECT {quoted(column)} FROM {{}} LIMIT {GLANCE}"
    with _connection() as connection:
        if isinstance(source, TableSource):
            connection.register("t", source.table)
            return [row[0] for row in connection.execute(query.format("t")).fetchall()]
        try:
            scan = _scan(source, source.paths)
            return [row[0] for row in connection.execute(query.format(scan)).fetchall()]
        except Exception as error:
            raise _failed(error, source, source.paths) from None


def has_rows(source: FileSource | TableSource) -> bool:
    """False where there is nothing to read at all."""
    if isinstance(source, TableSource):
        return bool(source.table.num_rows)
    with _connection() as connection:
        try:
            scan = _scan(source, source.paths)
            return bool(connection.execute(f"SELECT 1 FROM {scan} LIMIT 1").fetchall())
        except Exception as error:
            raise _failed(error, source, source.paths) from None


def read_all(source: FileSource) -> Any:
    """A whole small file (towers, zones) as an Arrow table."""
    with _connection() as connection:
        try:
            return connection.sql(f"SELECT * FROM {_scan(source, source.paths)}").to_arrow_table()
        except Exception as error:
            raise _failed(error, source, source.paths) from None
