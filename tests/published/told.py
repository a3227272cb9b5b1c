"""A city told in multimno's data objects and in FlowKit's tables, as those pipelines leave them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from sfumato.model.time_grid import TimeGrid

FIRST = date(2024, 3, 30)
"""A Saturday; the clocks of Paris go forward on the Sunday."""
GRID = TimeGrid.between(FIRST, FIRST + timedelta(days=2), "1h", "Europe/Paris")
DAY = 86_400_000_000


@dataclass(frozen=True)
class Town:
    """The city's own files, and its tables."""

    folder: Path
    events: pa.Table
    towers: pa.Table
    zones: geopandas.GeoDataFrame

    @property
    def instants(self) -> Any:
        return self.events["timestamp"].cast(pa.int64()).to_numpy()


def write(path: Path, table: pa.Table, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **how)


def day_folder(day: date) -> str:
    return f"year={day.year}/month={day.month}/day={day.day}"


def write_lakehouse(town: Town, lakehouse: Path, *, shape_of_zones: str = "EPSG:3035") -> None:
    """As Spark leaves it: partition folders, 96-bit timestamps, metres, no stated projection."""
    hashed = [hashlib.sha256(str(u).encode()).digest() for u in town.events["user_id"].to_pylist()]
    none = pa.nulls(len(hashed), pa.float32())
    whole = pa.table(
        {
            "user_id": pa.array(hashed, pa.binary()),
            "timestamp": town.events["timestamp"].cast(pa.timestamp("us")),
            "cell_id": town.events["tower"].cast(pa.string()),
            "latitude": none,
            "longitude": none,
        }
    )
    days = town.instants // DAY
    modulo = np.array([value[0] % 2 for value in hashed])
    for day in np.unique(days):
        for part in (0, 1):
            here = f"{day_folder(np.datetime64(int(day), 'D').item())}/user_id_modulo={part}"
            rows = whole.filter(pa.array((days == day) & (modulo == part)))
            path = lakehouse / "silver/cleaning/mno_events" / here / "part-0.snappy.parquet"
            write(path, rows, use_deprecated_int96_timestamps=True)
    cells = pa.table(
        {
            "cell_id": town.towers["tower_id"].cast(pa.string()),
            "latitude": town.towers["lat"].cast(pa.float32()),
            "longitude": town.towers["lon"].cast(pa.float32()),
            "valid_date_start": pa.nulls(len(town.towers), pa.timestamp("us")),
            "valid_date_end": pa.nulls(len(town.towers), pa.timestamp("us")),
        }
    )
    for day in (FIRST, FIRST + timedelta(days=1)):
        write(
            lakehouse / "silver/network_coverage/mno_network" / day_folder(day) / "p.parquet", cells
        )
    zones = town.zones.to_crs(shape_of_zones)
    whole_city = zones.union_all()
    shapes = [*zones.geometry, whole_city]
    areas = pa.table(
        {
            "zone_id": [*zones["zone_id"], "city"],
            "name": [*zones["name"], "the city"],
            "level": pa.array([3] * len(zones) + [1], pa.int16()),
            "parent_id": ["city"] * len(zones) + [None],
            "iso2": ["XX"] * (len(zones) + 1),
            "geometry": pa.array(shapely.to_wkb(np.array(shapes)), pa.binary()),
        }
    )
    geo = {"version": "1.1.0", "primary_column": "geometry"}
    geo |= {"columns": {"geometry": {"encoding": "WKB", "geometry_types": []}}}  # type: ignore[dict-item]
    if shape_of_zones != "EPSG:3035":
        crs = zones.crs.to_json_dict()
        geo["columns"]["geometry"]["crs"] = crs  # type: ignore[index]
    areas = areas.replace_schema_metadata({"geo": json.dumps(geo)})
    home = lakehouse / "bronze/spatial/geographic_zones/dataset_id=nuts"
    write(home / day_folder(date(2024, 1, 1)) / "p.parquet", areas)
    write(home / day_folder(date(2025, 1, 1)) / "p.parquet", areas.slice(0, 2))


def flow_tables(town: Town) -> dict[str, pa.Table]:
    """FlowDB's tables, events in two of them, as an export has them."""
    hashed = [hashlib.md5(str(u).encode()).hexdigest() for u in town.events["user_id"].to_pylist()]
    records = pa.table(
        {
            "id": [str(k) for k in range(len(hashed))],
            "datetime": town.events["timestamp"].cast(pa.timestamp("us", "UTC")),
            "msisdn": pa.array([bytes.fromhex(value) for value in hashed], pa.binary()),
            "location_id": town.events["tower"].cast(pa.string()),
            "tac": pa.nulls(len(hashed), pa.int64()),
        }
    )
    lon, lat = (town.towers[name].to_numpy() for name in ("lon", "lat"))
    number = len(town.towers)
    cells = pa.table(
        {
            "id": town.towers["tower_id"].cast(pa.string()),
            "version": pa.array([0] * number, pa.int32()),
            "date_of_first_service": pa.array([date(2015, 1, 1)] * number, pa.date32()),
            "date_of_last_service": pa.nulls(number, pa.date32()),
            "geom_point": pa.array(shapely.to_wkb(shapely.points(lon, lat)), pa.binary()),
        }
    )
    regions = pa.table(
        {
            "short_name": town.zones["zone_id"].tolist(),
            "long_name": town.zones["name"].tolist(),
            "spatial_resolution": pa.array([3] * len(town.zones), pa.int32()),
            "geom": pa.array(shapely.to_wkb(town.zones.geometry.to_numpy()), pa.binary()),
        }
    )
    half = records.num_rows // 2
    return {
        "events.calls": records.slice(0, half),
        "events.sms": records.slice(half),
        "infrastructure.cells": cells,
        "geography.geoms": regions,
    }


def write_export(town: Town, folder: Path) -> None:
    for name, table in flow_tables(town).items():
        write(folder / (name.replace(".", "/") + ".parquet"), table)
