"""Column names and types of a source: what decides how its rows are read.

Types go by DuckDB's names on every path (Arrow's, PostgreSQL's and Spark's are translated), so
that one set of rules judges them. Only footers and headers are read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.model.errors import InputError
from sfumato.model.file_errors import csv_error, parquet_error

INT96 = "INT96"
"""Parquet's old timestamp, an instant by the custom of its writers; Arrow calls it a clock's."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and DuckDB type, or `INT96`."""

    name: str
    type: str

    @property
    def is_text(self) -> bool:
        return self.type in ("VARCHAR", "UUID", "JSON") or self.type.startswith("ENUM")


_ARROW = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.null(): "VARCHAR",
}
_STAMPS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def type_name(kind: Any) -> str:
    """The name by which the rules know an Arrow type."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return "UUID" if kind.extension_name == "arrow.uuid" else type_name(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return type_name(kind.value_type)
    if types.is_timestamp(kind):
        return _STAMPS[kind.unit] if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "VARCHAR"
    if (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return "BLOB"
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _ARROW.get(kind) or str(kind).upper()


def arrow_columns(schema: Any) -> list[Column]:
    """Columns of an Arrow schema."""
    return [Column(str(field.name), type_name(field.type)) for field in schema]


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


def read_public_table(path: Path, delimiter: str | None, header: tuple[str, ...] = ()) -> Any:
    """A whole small file of public facts (towers, zones) as an Arrow table; CSV as text.

    Public files may be refused for a bad row: nobody's record is in them.
    """
    file = literal(str(path))
    scan = f"read_parquet({file}, hive_partitioning=false)"
    if delimiter is not None:
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
        scan = (
            f"read_csv({file}, auto_detect=false, header=true, strict_mode=true, "
            f"delim={literal(delimiter)}, quote='\"', escape='\"', columns={{{columns}}}, "
            "hive_partitioning=false)"
        )
    with connection() as db:
        try:
            return db.sql(f"SELECT * FROM {scan}").to_arrow_table()
        except duckdb.Error as error:
            made = csv_error if delimiter is not None else parquet_error
            raise made(error, [str(path)]) from None
        except Exception as error:
            raise parquet_error(error, [str(path)]) from None
