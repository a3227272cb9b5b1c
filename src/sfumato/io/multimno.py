"""multimno: events, network topology and zones of a lakehouse, for a period (`open_multimno`).

Folders are those of its general configuration; older releases put silver objects one level higher.
Days are UTC days, as in its Spark session; they say which files of a data object belong to a
period.

The network topology is a table of cells for every day, read as antennas that are valid from until.
A day without a table takes the last one before it (or the first after it). A cell that stays where
it is over consecutive days is one row; one that moves, comes or goes has a row for each stay.

Zones are those of a data set and level, or the tiles of the INSPIRE grid. `nuts:3` is level 3 of
the zoning data set `nuts`, in its latest version that is not after the period; `INSPIRE_100m` and
`INSPIRE_1km` are the reserved names of the grid. All of multimno's geometry is EPSG:3035 unless a
file says otherwise.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from sfumato.errors import InputError, UsageError
from sfumato.io.events import Inputs, read_events
from sfumato.io.foreign import wkb_shapes
from sfumato.io.places import PlaceTable, id_texts
from sfumato.io.towers import validity
from sfumato.io.zones import read_zones
from sfumato.model.events import Events
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

EVENTS = ("silver/cleaning/mno_events", "silver/mno_events", "bronze/mno_events")
NETWORK = ("silver/network_coverage/mno_network", "silver/mno_network", "bronze/mno_network")
ZONES = ("bronze/spatial/geographic_zones", "bronze/geographic_zones")
GRID = ("silver/setup/grid", "silver/grid")
_KEY = re.compile(r"([a-z_]+)=([^/]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """A file and what the names of its folders say."""

    path: Path
    keys: dict[str, str]

    @property
    def day(self) -> date | None:
        """The day of the partition, if it is partitioned by day."""
        try:
            year, month, day = (int(self.keys[name]) for name in ("year", "month", "day"))
            return date(year, month, day)
        except (KeyError, ValueError):
            return None


def find(lakehouse: Path, places: tuple[str, ...], what: str) -> Path:
    """The first of the folders that exists, or an error that lists them."""
    for place in places:
        if (lakehouse / place).is_dir():
            return lakehouse / place
    raise InputError(
        f"there are no {what}: none of {', '.join(places)} is there.",
        file=str(lakehouse),
        remedy="Point to multimno's lakehouse folder, which holds bronze and silver.",
    )


def parts(folder: Path) -> list[Part]:
    """All Parquet files of a public data object; there is one at least."""
    files = listed(folder)
    if not files:
        raise InputError("the data object holds no Parquet file.", file=str(folder))
    return files


def listed(folder: Path) -> list[Part]:
    """All Parquet files of a data object, in the order of their names."""
    return [
        Part(path, dict(_KEY.findall(str(path.relative_to(folder).parent))))
        for path in sorted(folder.rglob("*.parquet"))
        if not any(piece[0] in "._" for piece in path.relative_to(folder).parts)
    ]


def days_of(grid: TimeGrid) -> list[date]:
    """The UTC days that the period touches."""
    first, last = (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=edge)).date()
        for edge in (grid.period[0], grid.period[1] - 1)
    )
    return [first + timedelta(days=k) for k in range((last - first).days + 1)]


def day_for(wanted: date, known: list[date]) -> date:
    """The day itself, else the last one before it, else the first one after it."""
    before = [day for day in known if day <= wanted]
    return max(before) if before else min(known)


def midnight(day: date) -> int:
    """Epoch microseconds of a UTC day's beginning."""
    return int((day - date(1970, 1, 1)).days) * 86_400_000_000


_NEEDED = ("cell_id", "latitude", "longitude")
_DATES = ("valid_date_start", "valid_date_end")
_DAY = 86_400_000_000
Stays = tuple[NDArray[np.str_], NDArray[np.float64], NDArray[np.int64]]
"""Ids, positions (longitude, latitude) and times (from, until)."""


def read_network(folder: Path, grid: TimeGrid) -> Places:
    """The cells of every day of the period."""
    tables = parts(folder)
    known = sorted({part.day for part in tables if part.day is not None})
    days = days_of(grid)
    stays: list[Stays] = []
    if not known:
        stays = [_stays([part.path for part in tables], ALWAYS_FROM, ALWAYS_TO)]
    for source, some in groupby(days, key=lambda day: day_for(day, known) if known else day):
        if not known:
            break
        span = list(some)
        first = ALWAYS_FROM if span[0] == days[0] else midnight(span[0])
        last = ALWAYS_TO if span[-1] == days[-1] else midnight(span[-1]) + _DAY
        paths = [part.path for part in tables if part.day == source]
        stays.append(_stays(paths, first, last))
    return _merged(stays)


def _stays(paths: list[Path], first: int, last: int) -> Stays:
    """One table of cells, cut to the time in which it holds."""
    tables = [_read(path) for path in paths]
    table = pa.concat_tables(tables, promote_options="permissive")
    label = str(paths[0])
    ids = np.asarray(id_texts(table["cell_id"], "cell_id", label), dtype=np.str_)
    where = np.column_stack(
        [table[name].cast(pa.float64()).to_numpy() for name in ("longitude", "latitude")]
    )
    start, end = validity(PlaceTable(table, None, None, label), {}, "UTC")
    times = np.column_stack([np.maximum(start, first), np.minimum(end, last)])
    holds = times[:, 0] < times[:, 1]
    return ids[holds], where[holds], times[holds]


def _read(path: Path) -> pa.Table:
    try:
        names = pq.read_schema(path.absolute()).names
        wanted = [*_NEEDED, *(name for name in _DATES if name in names)]
        return pq.ParquetFile(path.absolute(), page_checksum_verification=True).read(columns=wanted)
    except (OSError, pa.ArrowException, KeyError):
        pass
    raise InputError(
        f"this is not a network topology: it needs {', '.join(_NEEDED)}.", file=str(path)
    )


def _merged(stays: list[Stays]) -> Places:
    """Stays of one cell at one place that follow each other become one."""
    ids, where, times = (np.concatenate(part) for part in zip(*stays, strict=True))
    if not ids.size:
        raise InputError("no cell is valid in the period.")
    order = np.lexsort((times[:, 0], ids))
    ids, where, times = ids[order], where[order], times[order]
    goes_on = (ids[1:] == ids[:-1]) & (where[1:] == where[:-1]).all(axis=1)
    goes_on &= times[1:, 0] <= times[:-1, 1]
    begins = np.flatnonzero(np.concatenate(([True], ~goes_on)))
    until = np.maximum.reduceat(times[:, 1], begins)
    return Places.of(
        PlaceKind.TOWERS,
        ids[begins],
        np.asarray(shapely.points(where[begins]), dtype=object),
        valid_from=times[begins, 0],
        valid_to=until,
    )


_CRS = "EPSG:3035"
_INSPIRE = {"INSPIRE_100m": (100, "100m"), "INSPIRE_1km": (1000, "1km")}
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_TEXT_ID = re.compile(r"100mN(\d+)E(\d+)")
_DIGITS = 10**7


@dataclass(frozen=True, slots=True)
class Zoning:
    """A zoning data set and a level of it; data sets without levels have level 1."""

    dataset: str
    level: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Zoning:
        name, _, level = (text or "").partition(":")
        if not _NAME.fullmatch(name) or not (level or "1").isdigit() or len(level) > 2:
            raise UsageError(
                "multimno's zones need a data set and a level.",
                remedy="Write `zoning='nuts:3'`, or `zoning='INSPIRE_1km'` for the grid.",
            )
        return cls(name, int(level or "1"))


def read_zoning(lakehouse: Path, zoning: Zoning, grid: TimeGrid) -> Places:
    """The zones to publish numbers for."""
    if zoning.dataset in _INSPIRE:
        return _tiles(find(lakehouse, GRID, "grid tiles"), *_INSPIRE[zoning.dataset])
    folder = find(lakehouse, ZONES, "geographic zones")
    chosen = [part for part in parts(folder) if part.keys.get("dataset_id") == zoning.dataset]
    if not chosen:
        raise InputError(
            f"there is no zoning data set {zoning.dataset!r}.",
            file=str(folder),
            remedy="Name one of its dataset_id= folders.",
        )
    known = [part.day for part in chosen if part.day is not None]
    if known:
        latest = day_for(days_of(grid)[-1], known)
        chosen = [part for part in chosen if part.day == latest]
    frames = [_frame(part, zoning.level) for part in chosen]
    whole = geopandas.GeoDataFrame(pa.concat_tables([f[0] for f in frames]).to_pandas())
    shapes = np.concatenate([f[1] for f in frames])
    if not shapes.size:
        raise InputError(
            f"the zoning data set {zoning.dataset!r} has no level {zoning.level}.", file=str(folder)
        )
    return read_zones(whole.set_geometry(list(shapes), crs=frames[0][2]), "zone_id", "name")


def _frame(part: Part, level: int) -> tuple[pa.Table, NDArray[np.object_], CRS]:
    """Ids, names and shapes of one file's zones of a level, and their coordinate system."""
    try:
        table = pq.ParquetFile(part.path.absolute(), page_checksum_verification=True).read()
        levels = table["level"].fill_null(level).to_numpy()
        kept = table.filter(pa.array(levels == level))
        shapes = wkb_shapes(kept["geometry"].to_pylist())
        return kept.select(["zone_id", "name"]), shapes, _crs(table.schema.metadata)
    except (OSError, KeyError, ValueError, pa.ArrowException):
        pass
    raise InputError(
        "these are not geographic zones: they need zone_id, name, level and geometry.",
        file=str(part.path),
    )


def _crs(metadata: dict[bytes, bytes] | None) -> CRS:
    """What the file states; multimno's own writer states nothing and means EPSG:3035."""
    try:
        stated: Any = json.loads((metadata or {})[b"geo"])["columns"]["geometry"]["crs"]
    except (KeyError, ValueError, TypeError):
        stated = None
    return CRS.from_user_input(stated if stated is not None else _CRS)


def _tiles(folder: Path, size: int, name: str) -> Places:
    """Squares of the grid by their ids: northing and easting of the lower left corner."""
    corners = [_corners(part) for part in parts(folder)]
    low = np.unique(np.concatenate(corners) // size * size, axis=0)
    north, east = low[:, 0], low[:, 1]
    ids = [f"{name}N{n // size}E{e // size}" for n, e in zip(north, east, strict=True)]
    squares = shapely.box(east, north, east + size, north + size)
    frame = geopandas.GeoDataFrame({"zone_id": ids}, geometry=list(squares), crs=_CRS)
    return read_zones(frame, "zone_id")


def _corners(part: Part) -> NDArray[np.int64]:
    """Northing and easting in metres, from any of the forms that multimno has had.

    With an `origin`, a tile is 4 bytes, easting above northing, counted in hundreds of metres from
    that corner, which is 8 bytes of the same kind and stands in a column or, today, in the name of
    a folder. Before, ids were northing and easting in one decimal number, and first in a text.
    """
    path = part.path
    try:
        names = [
            name for name in ("grid_id", "origin") if name in pq.read_schema(path.absolute()).names
        ]
        table = pq.ParquetFile(path.absolute(), page_checksum_verification=True).read(columns=names)
        column = table["grid_id"]
        if "origin" in names or "origin" in part.keys:
            codes = column.to_numpy().astype(np.int64)
            corner = np.asarray(
                table["origin"].to_numpy() if "origin" in names else int(part.keys["origin"]),
                np.int64,
            )
            north = (codes & 0xFFFF) + (corner & 0xFFFFFFFF)
            east = (codes >> 16 & 0xFFFF) + (corner >> 32)
            return np.column_stack([north, east]) * 100
        if pa.types.is_integer(column.type):
            codes = column.to_numpy().astype(np.int64)
            return np.column_stack([codes // _DIGITS, codes % _DIGITS])
        cut = [_TEXT_ID.fullmatch(text) for text in column.to_pylist()]
        return np.array([[int(c[1]), int(c[2])] for c in cut if c is not None], np.int64)
    except (OSError, KeyError, TypeError, ValueError, OverflowError, pa.ArrowException):
        pass
    raise InputError("this is not a grid: it needs grid_id.", file=str(path))


COLUMNS = {"user": "user_id", "time": "timestamp", "place": "cell_id"}


def open_multimno(
    lakehouse: Path, grid: TimeGrid, zoning: str | None, events_tz: str | None = None
) -> Inputs:
    """Cleaned (silver) events where there are some, raw (bronze) ones otherwise."""
    zones = read_zoning(lakehouse, Zoning.parse(zoning), grid)
    towers = read_network(find(lakehouse, NETWORK, "network topologies"), grid)

    def open_events(progress: Progress | None) -> Events:
        del progress  # files are described here and read later
        return _events(find(lakehouse, EVENTS, "events"), grid, events_tz)

    return Inputs(towers, zones, open_events)


def _events(folder: Path, grid: TimeGrid, events_tz: str | None) -> Events:
    """The files of the period's days; times without a zone are UTC, raw text that of the events.

    They were found, not named: one that is damaged or does not fit gives no rows, and no file of
    these days is nobody.
    """
    wanted = set(days_of(grid))
    files = {part.path for part in listed(folder) if part.day is None or part.day in wanted}
    tz = (events_tz or grid.tz) if folder.parent.name == "bronze" else "UTC"
    return read_events(folder, columns=COLUMNS, tz=tz, only=files.__contains__)
