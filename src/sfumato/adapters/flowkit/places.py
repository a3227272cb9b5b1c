"""Antennas with their dates of service, and admin regions, as places.

FlowKit takes an antenna's version as valid on the days from `date_of_first_service` to
`date_of_last_service`, both included, open where one is missing; so does this, with days of the
release's time zone.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import shapely

from sfumato.adapters.flowkit.tables import Tables, shapes_of
from sfumato.io.postgres.address import Table
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.errors import InputError, UsageError
from sfumato.model.places import Places

_WGS84 = "EPSG:4326"
_DATES = ("date_of_first_service", "date_of_last_service")
_LEVEL = re.compile(r"admin(\d)")


def read_antennas(tables: Tables, tz: str) -> Places:
    """`infrastructure.cells`, or `infrastructure.sites` where there are no cells."""
    for name in ("cells", "sites"):
        table = Table(name, "infrastructure")
        if tables.has(table):
            found = tables.read(table, ("id", *_DATES), "geom_point")
            if found.num_rows:
                return _antennas(found, table.label, tz)
    raise InputError(
        "there are no antennas in infrastructure.cells or infrastructure.sites.", file=tables.label
    )


def _antennas(found: pa.Table, label: str, tz: str) -> Places:
    points = shapes_of(found["geom_point"], label)
    lost = shapely.is_missing(points)
    if lost.any():
        raise InputError(
            "the antenna has no point.",
            file=label,
            column="geom_point",
            row=int(np.argmax(lost)) + 1,
        )
    first, last = (found[name].to_pylist() for name in _DATES)
    frame = pa.table(
        {
            "tower": [str(key) for key in found["id"].to_pylist()],
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
            "FlowKit's zones are admin regions of a level.", remedy="Write --zoning admin3."
        )
    own, every = Table(zoning, "geography"), Table("geoms", "geography")
    if tables.has(own):
        names = (f"{zoning}pcod", f"{zoning}name")
        found = tables.read(own, names, "geom")
    elif tables.has(every):
        names = ("short_name", "long_name")
        found = tables.read(every, (*names, "spatial_resolution"), "geom")
        found = found.filter(pa.compute.equal(found["spatial_resolution"], int(match[1])))
    else:
        raise InputError(
            f"there are no regions in {own.label} or {every.label}.", file=tables.label
        )
    if not found.num_rows:
        raise InputError("there are no regions of this level.", file=own.label)
    columns = dict(zip(("zone_id", "name"), (found[n].to_pylist() for n in names), strict=True))
    shapes = shapes_of(found["geom"], own.label)
    return read_zones(
        geopandas.GeoDataFrame(columns, geometry=list(shapes), crs=_WGS84), "zone_id", "name"
    )
