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
from sfumato.model.errors import InputError
from sfumato.model.events import FileFormat, FileSource, TableSource
from sfumato.model.file_errors import csv_error, parquet_error

GLANCE = 1000
"""How many first rows may decide how text and numbers are read."""
INT96 = "INT96"
"""Parquet's old timestamp, an instant by the custom of its writers; DuckDB calls it a clock's."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and DuckDB type, or `INT96`."""

    name: str
    type: str

    @property
    def is_text(self) -> bool:
        return self.type in ("VARCHAR", "UUID", "JSON") or self.type.startswith("ENUM")


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A private DuckDB that fetches no extensions and uses one thread. Opening takes a while."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=settings) as opened:
        yield opened


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


@dataclass(frozen=True, slots=True, eq=False)
class Inspector:
    """Looks at schemas and first rows through one connection."""

    db: duckdb.DuckDBPyConnection

    def table_columns(self, table: TableSource) -> list[Column]:
        """Columns of a table in memory."""
        self.db.register("inspected", table.table)
        try:
            rows = self.db.execute("DESCRIBE SELECT * FROM inspected").fetchall()
        except duckdb.Error:
            raise InputError("a column has a type that cannot be read.", file=table.label) from None
        finally:
            self.db.unregister("inspected")
        return [Column(row[0], row[1]) for row in rows]

    def file_columns(self, source: FileSource, path: Path) -> list[Column]:
        """Columns of one file, partition keys included."""
        try:
            old: set[str] = set()
            if source.format is FileFormat.PARQUET:
                names, old = self._parquet_names(path)
                refuse_repeated(names, str(path))
            rows = self.db.execute(f"DESCRIBE SELECT * FROM {_scan(source, (path,))}").fetchall()
        except InputError:
            raise
        except Exception as error:
            # DuckDB raises several families here, also for damaged text in the footer.
            raise _failed(error, source, (path,)) from None
        return [Column(row[0], INT96 if row[0] in old else str(row[1])) for row in rows]

    def check_same_columns(
        self, source: FileSource, first: dict[str, Column], used: tuple[str, ...]
    ) -> None:
        """Every file has the used columns with the types of the first file."""
        for path in source.paths[1:]:
            here = {column.name: column for column in self.file_columns(source, path)}
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

    def glance(self, source: FileSource | TableSource, column: str) -> list[Any]:
        """The first values of a column, missing ones as None, in row order."""
        if isinstance(source, TableSource):
            values: list[Any] = source.table[column].slice(0, GLANCE).to_pylist()
            return values
        return self._rows(source, f"SELECT {quoted(column)} FROM {{}} LIMIT {GLANCE}")

    def has_rows(self, source: FileSource | TableSource) -> bool:
        """False where there is nothing to read at all."""
        if isinstance(source, TableSource):
            return bool(source.table.num_rows)
        return bool(self._rows(source, "SELECT 1 FROM {} LIMIT 1"))

    def _rows(self, source: FileSource, query: str) -> list[Any]:
        try:
            rows = self.db.execute(query.format(_scan(source, source.paths))).fetchall()
        except Exception as error:
            raise _failed(error, source, source.paths) from None
        return [row[0] for row in rows]

    def _parquet_names(self, path: Path) -> tuple[list[str], set[str]]:
        """Names at the top level of a Parquet file, repeated ones included, and which are INT96."""
        rows = self.db.execute(
            f"SELECT name, num_children, type FROM parquet_schema({literal(str(path))})"
        ).fetchall()
        names: list[str] = []
        old: set[str] = set()
        at = 1
        while at < len(rows):
            names.append(str(rows[at][0]))
            if rows[at][2] == INT96:
                old.add(names[-1])
            pending = 1
            while pending > 0 and at < len(rows):  # step over the nested fields of this column
                pending += (rows[at][1] or 0) - 1
                at += 1
        return names, old


def refuse_repeated(names: list[str], label: str) -> None:
    """Two columns of one name, as SQL compares names, cannot be told apart."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InputError(
                "two columns have the same name (upper and lower case are the same here).",
                file=label,
                column=name,
                remedy="Rename one of them.",
            )
        seen.add(name.lower())


def read_all(source: FileSource) -> Any:
    """A whole small file (towers, zones) as an Arrow table."""
    with connection() as db:
        try:
            return db.sql(f"SELECT * FROM {_scan(source, source.paths)}").to_arrow_table()
        except Exception as error:
            raise _failed(error, source, source.paths) from None
