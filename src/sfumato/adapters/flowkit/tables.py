"""Small public tables of FlowDB (antennas, regions), from the server or from an export.

An export is a folder with a Parquet file for each table, `infrastructure/cells.parquet`. Geometry
is well-known binary there (GeoParquet, or what PostGIS calls EWKB, also in hexadecimal); from the
server it is asked for with `ST_AsBinary`, which PostGIS brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.io.postgres.address import Address, Table, is_address, parse_address, quoted
from sfumato.io.postgres.session import Session, open_session
from sfumato.model.errors import InputError, UsageError

EVENT_TABLES = ("calls", "sms", "mds", "topups")


class Tables(Protocol):
    """Where tables are read from. `shape` is the name of the geometry column."""

    label: str

    def has(self, table: Table) -> bool: ...

    def read(self, table: Table, columns: Sequence[str], shape: str) -> pa.Table:
        """The columns as they are, and the geometry as well-known binary."""


class ServerTables:
    """Tables of a FlowDB, in one read-only transaction."""

    label = "FlowDB"

    def __init__(self, session: Session) -> None:
        self._session = session

    def has(self, table: Table) -> bool:
        name = table.sql.replace("'", "''")
        return bool(
            self._session.rows(f"SELECT to_regclass('{name}') IS NOT NULL AS there")[0]["there"]
        )

    def read(self, table: Table, columns: Sequence[str], shape: str) -> pa.Table:
        asked = ", ".join(quoted(name) for name in columns)
        sql = f"SELECT {asked}, ST_AsBinary({quoted(shape)}) AS {quoted(shape)} FROM {table.sql}"
        return pa.Table.from_batches(list(self._session.batches(sql, table.label)))


class ExportedTables:
    """Tables as Parquet files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.label = str(folder)

    def path(self, table: Table) -> Path:
        return self._folder / (table.schema or "public") / f"{table.name}.parquet"

    def has(self, table: Table) -> bool:
        return self.path(table).exists()

    def read(self, table: Table, columns: Sequence[str], shape: str) -> pa.Table:
        path = self.path(table)
        try:
            return pq.read_table(path, columns=[*columns, shape])
        except (OSError, KeyError, pa.ArrowException):
            pass
        raise InputError(
            f"the table needs the columns {', '.join([*columns, shape])}.", file=str(path)
        )


@contextmanager
def open_tables(where: str) -> Iterator[Tables]:
    """The tables of an address or a folder."""
    if is_address(where):
        with open_session(database(where)) as session:
            yield ServerTables(session)
    elif Path(where).is_dir():
        yield ExportedTables(Path(where))
    else:
        raise UsageError(
            "FlowKit's data is neither an address nor a folder.",
            remedy="Give postgresql://user@host/flowdb, or the folder of an export.",
        )


def database(where: str) -> Address:
    """An address without tables stands for FlowKit's tables of events."""
    return parse_address(where, tuple(Table(name, "events") for name in EVENT_TABLES))


def shapes_of(column: Any, label: str) -> NDArray[np.object_]:
    """Shapes from well-known binary, plain or in hexadecimal."""
    try:
        return np.asarray(shapely.from_wkb(column.to_pylist()), dtype=object)
    except (TypeError, shapely.errors.GEOSException):
        pass
    raise InputError("the geometry is not well-known binary.", file=label)
