"""`read_towers`: points with ids and, where they are given, the time in which each is valid.

A tower that moved has several rows with one id and disjoint validity. Two rows of one id that
say the same are merged with a note; two that contradict each other are an error.

Dates, timestamps or text say between which instants a row holds, in epoch microseconds. A validity
ends *before* its `valid_to`; a plain date means its local midnight; an empty one is open.

Towers and zones must lie in the same part of the world (`check_same_region`): where a pair of
columns was swapped, they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.io import names
from sfumato.io.places import PlaceTable, id_texts, load_places
from sfumato.io.tables import (
    Floats,
    Tell,
    in_range,
    no_one,
    numbers,
    point_degrees,
    swapped,
    to_wgs84,
)
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


def validity(
    table: PlaceTable, chosen: Mapping[str, str], tz: str | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start (included) and end (excluded) of each row; open where nothing is said."""
    rows = table.attributes.num_rows or (0 if table.shapes is None else table.shapes.size)
    start = _instants(table, names.VALID_FROM, chosen, tz, ALWAYS_FROM, rows)
    end = _instants(table, names.VALID_TO, chosen, tz, ALWAYS_TO, rows)
    backwards = end <= start
    if backwards.any():
        raise InputError(
            "the tower's validity ends before it starts.",
            file=table.label,
            row=int(np.argmax(backwards)) + 1,
        )
    return start, end


def _instants(
    table: PlaceTable,
    role: names.Role,
    chosen: Mapping[str, str],
    tz: str | None,
    empty: int,
    rows: int,
) -> NDArray[np.int64]:
    instants = np.full(rows, empty, np.int64)
    name = names.pick(table.names, role, chosen, table.label)
    if name is None:
        return instants
    column = table.attributes[name]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    known: dict[Any, int] = {}
    for row, value in enumerate(column.to_pylist()):
        if value is None or value == "":
            continue
        if value not in known:
            known[value] = _instant(value, tz, table.label, name, row + 1)
        instants[row] = known[value]
    return instants


def _instant(value: Any, tz: str | None, label: str, name: str, row: int) -> int:
    moment: Any = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise InputError(
            "the validity is not a date.",
            file=label,
            column=name,
            row=row,
            remedy="Write it as 2024-01-31 or 2024-01-31T00:00:00Z.",
        )
    if moment.tzinfo is None:
        if tz is None:
            raise InputError(
                "the validity dates carry no time zone.",
                file=label,
                column=name,
                remedy="Say whose clock they are, for example `tz='Europe/Paris'`.",
            )
        moment = moment.replace(tzinfo=zone(tz))
    try:
        return int((moment.astimezone(UTC) - _EPOCH) // _TICK)
    except OverflowError:
        raise InputError(
            "the validity is outside the calendar.", file=label, column=name, row=row
        ) from None


NEAR = 0.5
"""Degrees around the zones' box that still count as near, some 50 km."""


def check_same_region(towers: Places, zones: Places) -> None:
    """Raise where no tower is near the zones, and say so if swapping would bring them there."""
    west, south, east, north = shapely.total_bounds(zones.geometry)
    lon, lat = shapely.get_x(towers.geometry), shapely.get_y(towers.geometry)

    def near(x: NDArray[np.float64], y: NDArray[np.float64]) -> int:
        inside = (x >= west - NEAR) & (x <= east + NEAR) & (y >= south - NEAR) & (y <= north + NEAR)
        return int(np.count_nonzero(inside))

    here, there = near(lon, lat), near(lat, lon)
    if here == 0 and there == 0:
        raise InputError(
            "no tower lies within 50 km of the zones.",
            remedy="Check that towers and zones are of the same place.",
        )
    if there > 2 * here:
        raise swapped("the towers or the zones")


FAR = 20.0
"""Degrees from the middle of all towers beyond which a lonely one is taken for a mistake."""


def read_towers(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    zones: Places | None = None,
    tz: str | None = None,
    drop_bad: bool = False,
    keep_far: bool = False,
    number_rows: bool = False,
    layer: str | None = None,
    tell: Tell = no_one,
) -> Places:
    """Towers from CSV, Parquet, GeoParquet, GeoJSON, GPKG, Shapefile or a frame.

    `columns` maps towers.id, towers.lon, towers.lat, towers.valid_from, towers.valid_to to column
    names, or to their numbers from 1 where a CSV file has no header. With `zones` the towers must
    be near them. `tz` is the zone of validity dates that carry none. `drop_bad`
    drops rows with unusable coordinates and tells how many; without it they are an error.
    `keep_far` allows lonely towers far away. `number_rows` takes 1, 2, … as ids where the file
    has none. `tell` hears what was assumed and dropped.
    """
    chosen = names.of_roles(columns or {}, names.TOWER_ROLES)
    table = load_places(source, layer, chosen, names.TOWER_ROLES[:3])
    if table.attributes.num_rows == 0 and (table.shapes is None or not table.shapes.size):
        raise InputError("there are no towers.", file=table.label)
    ids = _ids(table, chosen, number_rows)
    lon, lat = _coordinates(table, chosen, tell)
    valid_from, valid_to = validity(table, chosen, tz)
    good = _good(lon, lat, table.label, keep_far)
    bad = int(np.count_nonzero(~good))
    if bad and not drop_bad:
        raise InputError(
            "the tower has unusable coordinates (missing, out of range or far from all others). "
            f"That concerns {bad:,} of {good.size:,} towers.",
            file=table.label,
            row=int(np.argmin(good)) + 1,
            remedy="Correct them, or leave such towers out with `drop_bad_towers`.",
        )
    if bad == good.size:
        raise InputError("no tower has usable coordinates.", file=table.label)
    if bad:
        tell(f"{table.label}: {bad:,} of {good.size:,} towers dropped for their coordinates")
    places = _merged(
        np.asarray(ids, dtype=np.str_)[good],
        lon[good],
        lat[good],
        valid_from[good],
        valid_to[good],
        table.label,
        tell,
    )
    if zones is not None:
        check_same_region(places, zones)
    return places


def _ids(table: PlaceTable, chosen: Mapping[str, str], number_rows: bool) -> list[str]:
    name = names.pick(table.names, names.TOWER, chosen, table.label)
    if name is not None:
        return id_texts(table.attributes[name], name, table.label)
    if number_rows:
        rows = table.attributes.num_rows or (0 if table.shapes is None else table.shapes.size)
        return [str(row) for row in range(1, rows + 1)]
    raise names.missing(table.names, names.TOWER, table.label)


def _coordinates(table: PlaceTable, chosen: Mapping[str, str], tell: Tell) -> tuple[Floats, Floats]:
    if table.shapes is not None and not {names.TOWER_LON.key, names.TOWER_LAT.key} & set(chosen):
        kinds = shapely.get_type_id(table.shapes)
        wrong = (kinds != shapely.GeometryType.POINT) & (kinds != -1)
        if wrong.any():
            raise InputError(
                "the shape of a tower must be a point.",
                file=table.label,
                row=int(np.argmax(wrong)) + 1,
            )
        points = to_wgs84(table.shapes, table.crs, table.label, tell)
        return point_degrees(points)
    lon = names.pick(table.names, names.TOWER_LON, chosen, table.label)
    lat = names.pick(table.names, names.TOWER_LAT, chosen, table.label)
    if lon is None:
        raise names.missing(table.names, names.TOWER_LON, table.label)
    if lat is None:
        raise names.missing(table.names, names.TOWER_LAT, table.label)
    return (
        numbers(table.attributes[lon], lon, table.label) / names.degrees_scale(lon),
        numbers(table.attributes[lat], lat, table.label) / names.degrees_scale(lat),
    )


def _good(lon: Floats, lat: Floats, label: str, keep_far: bool) -> NDArray[np.bool_]:
    """In range, and not one of a few that lie far from the middle of all."""
    good = in_range(lon, lat)
    present = np.isfinite(lon) & np.isfinite(lat)
    if np.count_nonzero(good) * 2 < np.count_nonzero(present):
        turned = in_range(lat, lon)
        if np.count_nonzero(turned) > np.count_nonzero(good):
            raise swapped(label)
        raise InputError(
            "most coordinates are not degrees.",
            file=label,
            remedy="Give longitude and latitude in WGS84 degrees.",
        )
    if good.any() and not keep_far:
        middle = np.median(lon[good]), np.median(lat[good])
        with np.errstate(invalid="ignore"):
            east = np.abs((lon - middle[0] + 180.0) % 360.0 - 180.0)
            far = good & ((east > FAR) | (np.abs(lat - middle[1]) > FAR))
        if np.count_nonzero(far) * 100 <= np.count_nonzero(good):
            good &= ~far
    return good


def _merged(
    ids: NDArray[np.str_],
    lon: Floats,
    lat: Floats,
    valid_from: NDArray[np.int64],
    valid_to: NDArray[np.int64],
    label: str,
    tell: Tell,
) -> Places:
    """One row per id and validity, or an error that names the tower."""
    order = np.lexsort((valid_to, valid_from, ids))
    ids, lon, lat = ids[order], lon[order], lat[order]
    valid_from, valid_to = valid_from[order], valid_to[order]
    same_id = ids[1:] == ids[:-1]
    same_place = (np.abs(np.diff(lon)) < 1e-7) & (np.abs(np.diff(lat)) < 1e-7)
    same_time = (valid_from[1:] == valid_from[:-1]) & (valid_to[1:] == valid_to[:-1])
    repeated = np.concatenate(([False], same_id & same_place & same_time))
    clash = same_id & (valid_from[1:] < valid_to[:-1]) & ~repeated[1:]
    if clash.any():
        at = int(np.argmax(clash)) + 1
        raise InputError(
            f"tower {str(ids[at])!r} stands in two rows that differ and are valid at one time.",
            file=label,
            row=int(order[at]) + 1,
            remedy="Keep one, take ids that tell them apart (network, area and cell together), or "
            "give both valid_from and valid_to dates that do not overlap.",
        )
    keep = ~repeated
    if repeated.any():
        tell(f"{label}: {int(repeated.sum())} repeated rows of towers merged")
    return Places.of(
        PlaceKind.TOWERS,
        ids[keep],
        np.asarray(shapely.points(lon[keep], lat[keep]), dtype=object),
        valid_from=valid_from[keep],
        valid_to=valid_to[keep],
    )
