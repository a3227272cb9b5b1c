"""Geographic zones of a data set and level, and the tiles of the INSPIRE grid.

`nuts:3` is level 3 of the zoning data set `nuts`, in its latest version that is not after the
period; `INSPIRE_100m` and `INSPIRE_1km` are the reserved names of the grid. All of multimno's
geometry is EPSG:3035 unless a file says otherwise.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from sfumato.adapters.multimno.lakehouse import GRID, ZONES, Part, day_for, days_of, find, parts
from sfumato.io.zones import read_zones
from sfumato.model.errors import InputError, UsageError
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

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
                remedy="Write --zoning nuts:3, or --zoning INSPIRE_1km for the grid.",
            )
        return cls(name, int(level or "1"))


def read_zoning(lakehouse: Path, zoning: Zoning, grid: TimeGrid) -> Places:
    """The zones to publish numbers for."""
    if zoning.dataset in _INSPIRE:
        return _tiles(find(lakehouse, GRID, "grid tiles"), *_INSPIRE[zoning.dataset])
    folder = find(lakehouse, ZONES, "geographic zones")
    found = [part for part in parts(folder) if part.keys.get("dataset_id") == zoning.dataset]
    if not found:
        raise InputError(
            f"there is no zoning data set {zoning.dataset!r}.",
            file=str(folder),
            remedy="Name one of its dataset_id= folders.",
        )
    known = [part.day for part in found if part.day is not None]
    if known:
        latest = day_for(days_of(grid)[-1], known)
        found = [part for part in found if part.day == latest]
    frames = [_frame(part, zoning.level) for part in found]
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
        table = pq.ParquetFile(part.path).read()
        levels = table["level"].fill_null(level).to_numpy()
        kept = table.filter(pa.array(levels == level))
        shapes = np.asarray(shapely.from_wkb(kept["geometry"].to_pylist()), dtype=object)
        return kept.select(["zone_id", "name"]), shapes, _crs(table.schema.metadata)
    except (OSError, KeyError, pa.ArrowException, shapely.errors.GEOSException):
        pass
    raise InputError(
        "these are no geographic zones: they need zone_id, name, level and geometry.",
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
    corners = [_corners(part.path) for part in parts(folder)]
    low = np.unique(np.concatenate(corners) // size * size, axis=0)
    north, east = low[:, 0], low[:, 1]
    ids = [f"{name}N{n // size}E{e // size}" for n, e in zip(north, east, strict=True)]
    squares = shapely.box(east, north, east + size, north + size)
    frame = geopandas.GeoDataFrame({"zone_id": ids}, geometry=list(squares), crs=_CRS)
    return read_zones(frame, "zone_id")


def _corners(path: Path) -> NDArray[np.int64]:
    """Northing and easting in metres, from any of the three forms that multimno has had.

    With an `origin`, a tile is 4 bytes, easting above northing, counted in hundreds of metres from
    that corner, which is 8 bytes of the same kind. Before, ids were northing and easting in one
    decimal number, and first in a text.
    """
    try:
        names = [name for name in ("grid_id", "origin") if name in pq.read_schema(path).names]
        table = pq.ParquetFile(path).read(columns=names)
        column = table["grid_id"]
        if "origin" in names:
            codes, corner = (table[name].to_numpy().astype(np.int64) for name in names)
            north = (codes & 0xFFFF) + (corner & 0xFFFFFFFF)
            east = (codes >> 16 & 0xFFFF) + (corner >> 32)
            return np.column_stack([north, east]) * 100
        if pa.types.is_integer(column.type):
            codes = column.to_numpy().astype(np.int64)
            return np.column_stack([codes // _DIGITS, codes % _DIGITS])
        cut = [_TEXT_ID.fullmatch(text) for text in column.to_pylist()]
        return np.array([[int(c[1]), int(c[2])] for c in cut if c is not None], np.int64)
    except (OSError, KeyError, TypeError, pa.ArrowException):
        pass
    raise InputError("this is no grid: it needs grid_id.", file=str(path))
