"""FlowKit: events, antennas and admin regions of a FlowDB or of an export of it (`open_flowkit`).

Antennas and regions are small public tables, read from the server or from an export: a folder with
a Parquet file for each table, `infrastructure/cells.parquet`. Geometry is well-known binary there
(GeoParquet, or what PostGIS calls EWKB, also in hexadecimal); from the server it is asked for with
`ST_AsBinary`, which PostGIS brings.

Antennas are places with their dates of service. FlowKit takes an antenna's version as valid on the
days from `date_of_first_service` to `date_of_last_service`, both included, open where one is
missing; so does this, with days of the release's time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import geopandas
import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io import foreign
from sfumato.io.events import Inputs, read_events
from sfumato.io.files import is_address
from sfumato.io.postgres.connect import Address, Table, parse_address
from sfumato.io.postgres.events import read_database
from sfumato.io.postgres.table import Session, open_session
from sfumato.io.tables import literal, quoted
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

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
        asked = f"SELECT to_regclass({literal(table.sql)}) IS NOT NULL AS there"
        return bool(self._session.rows(asked)[0]["there"])

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
            return foreign.table(foreign.contents(path, links=True)).select([*columns, shape])
        except (OSError, KeyError, ValueError):
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
        return foreign.wkb_shapes(column.to_pylist())
    except ValueError:
        pass
    raise InputError("the geometry is not well-known binary.", file=label)


_WGS84 = "EPSG:4326"
_DATES = ("date_of_first_service", "date_of_last_service")
_LEVEL = re.compile(r"admin(\d)")


def read_antennas(tables: Tables, tz: str) -> Places:
    """`infrastructure.cells`, or `infrastructure.sites` where there are no cells."""
    for name in ("cells", "sites"):
        table = Table(name, "infrastructure")
        if tables.has(table):
            antennas = tables.read(table, ("id", *_DATES), "geom_point")
            if antennas.num_rows:
                return _antennas(antennas, table.label, tz)
    raise InputError(
        "there are no antennas in infrastructure.cells or infrastructure.sites.", file=tables.label
    )


def _antennas(antennas: pa.Table, label: str, tz: str) -> Places:
    points = shapes_of(antennas["geom_point"], label)
    lost = shapely.is_missing(points)
    if lost.any():
        raise InputError(
            "the antenna has no point.",
            file=label,
            column="geom_point",
            row=int(np.argmax(lost)) + 1,
        )
    first, last = (antennas[name].to_pylist() for name in _DATES)
    frame = pa.table(
        {
            "tower": [str(key) for key in antennas["id"].to_pylist()],
            "lon": shapely.get_x(points),
            "lat": shapely.get_y(points),
            "valid_from": pa.array(first, pa.date32()),
            "valid_to": pa.array([_day_after(day) for day in last], pa.date32()),
        }
    )
    return read_towers(frame, tz=tz)


def _day_after(day: Any) -> Any:
    return None if day is None else day + timedelta(days=1)


def read_regions(tables: Tables, zoning: str) -> Places:
    """`admin3`: FlowDB's table of that level, or that level of its table of all geometries."""
    match = _LEVEL.fullmatch(zoning)
    if match is None:
        raise UsageError(
            "FlowKit's zones are admin regions of a level.", remedy="Write `zoning='admin3'`."
        )
    own, every = Table(zoning, "geography"), Table("geoms", "geography")
    if tables.has(own):
        names = (f"{zoning}pcod", f"{zoning}name")
        regions = tables.read(own, names, "geom")
    elif tables.has(every):
        names = ("short_name", "long_name")
        regions = tables.read(every, (*names, "spatial_resolution"), "geom")
        regions = regions.filter(pa.compute.equal(regions["spatial_resolution"], int(match[1])))
    else:
        raise InputError(
            f"there are no regions in {own.label} or {every.label}.", file=tables.label
        )
    if not regions.num_rows:
        raise InputError("there are no regions of this level.", file=own.label)
    columns = dict(zip(("zone_id", "name"), (regions[n].to_pylist() for n in names), strict=True))
    shapes = shapes_of(regions["geom"], own.label)
    return read_zones(
        geopandas.GeoDataFrame(columns, geometry=list(shapes), crs=_WGS84), "zone_id", "name"
    )


COLUMNS = {"user": "msisdn", "time": "datetime", "place": "location_id"}


def open_flowkit(
    where: str, grid: TimeGrid, zoning: str | None, events_tz: str | None = None
) -> Inputs:
    """All tables of events that are there; an address may name fewer."""
    with open_tables(where) as tables:
        zones = None if zoning is None else read_regions(tables, zoning)
        towers = read_antennas(tables, grid.tz)
        named = database(where).tables if is_address(where) else _event_tables()
        there = tuple(table for table in named if tables.has(table))
        label = tables.label
    if not there:
        raise InputError(
            f"there are no events: none of {', '.join(table.label for table in named)} is there.",
            file=label,
        )

    clock = events_tz or grid.tz

    def open_events(progress: Progress | None) -> Events:
        if is_address(where):
            address = replace(database(where), tables=there)
            period = grid.period
            return read_database(
                address, columns=COLUMNS, tz=clock, period=period, progress=progress
            )
        exported = ExportedTables(Path(where))
        paths = [exported.path(table) for table in there]
        return read_events(paths, columns=COLUMNS, tz=clock)

    return Inputs(towers, zones, open_events)


def _event_tables() -> tuple[Table, ...]:
    return tuple(Table(name, "events") for name in EVENT_TABLES)
