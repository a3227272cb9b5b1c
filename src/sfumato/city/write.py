"""A city or a crowd on disk: records, places, and a statement of what was made.

    DIR/events.parquet   user_id, timestamp, tower (or lon, lat)
    DIR/towers.csv       tower_id, lon, lat
    DIR/zones.geojson    zone_id, name, district, land_use, residents
    DIR/city.json        every option, the seed and the scale that was measured

A crowd has no towers: its events carry lon and lat, its zones are the cells of its grid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.city.crowd import Crowd, CrowdPlan, count_stays, generate
from sfumato.city.layout import City, build_city
from sfumato.city.people import Chunk, generate_chunks
from sfumato.city.plan import CityPlan, integer_ids
from sfumato.geography.projection import Plane
from sfumato.io.write import PARQUET, make_folder
from sfumato.model.time_grid import zone

EVENTS, TOWERS, ZONES, STATEMENT = "events.parquet", "towers.csv", "zones.geojson", "city.json"
ROW_GROUP = 1 << 19


@dataclass(slots=True)
class _Tally:
    """Running sums behind the scale; integers, so that the order of chunks cannot matter."""

    users: int = 0
    events: int = 0
    total: int = 0
    squares: int = 0
    largest: int = 0
    inside: int = 0

    def add(self, chunk: Chunk) -> None:
        hours = chunk.tower_hours.astype(np.int64)
        self.users += hours.size
        self.events += chunk.batch.num_rows
        self.total += int(hours.sum())
        self.squares += int((hours * hours).sum())
        self.largest = max(self.largest, int(hours.max()))
        self.inside += chunk.inside

    def scale(self, zones: int, slots: int) -> dict[str, float]:
        mean = self.total / self.users
        return {
            "users": self.users,
            "events": self.events,
            "tower_hours": self.total,
            "mean_tower_hours": round(mean, 4),
            "sd_tower_hours": round(float(np.sqrt(self.squares / self.users - mean**2)), 4),
            "max_tower_hours": self.largest,
            "visits_per_zone_hour": round(self.total / (zones * slots), 4),
            "share_of_visits_inside": round(self.inside / self.total, 4),
        }


def write_city(
    plan: CityPlan, out: Path, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Build the city, write the four files, and return what `city.json` says.

    `progress` is told how many users each step added. Memory is that of one chunk.
    """
    folder = make_folder(out)
    city = build_city(plan)
    write_places(city, folder)
    tally = _Tally()
    chunks = generate_chunks(city)
    first = next(chunks)
    with open_events(folder / EVENTS, first.batch.schema) as sink:
        chunk: Chunk | None = first
        while chunk is not None:
            sink.write_batch(chunk.batch, row_group_size=ROW_GROUP)
            tally.add(chunk)
            if progress is not None:
                progress(len(chunk.tower_hours))
            # Drop the rows before the next ones are made: one chunk in memory, not two.
            chunk = None
            chunk = next(chunks, None)
    statement = {
        "kind": "city",
        "plan": _plain(city),
        "scale": tally.scale(len(city.zones), plan.grid.slots),
        "slots": plan.grid.slots,
        "towers": {"total": len(city.towers), "inside": int(city.tower_inside.sum())},
        "zones": {
            "total": len(city.zones),
            "parks": int(city.ground.parks.sum()),
            "residents": int(city.ground.residents.sum()),
        },
        "stadium_zone": str(city.zones.ids[city.stadium_zone]),
        "note": "Synthetic people; the map is real where geometry is not 'generated'.",
    }
    write_json(statement, folder / STATEMENT)
    return statement


def open_events(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer whose dictionaries hold all ids of a row group."""
    return pq.ParquetWriter(
        path.absolute(), schema, dictionary_pagesize_limit=16 << 20, version="2.6", **PARQUET
    )


def write_json(content: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_places(city: City, folder: Path) -> None:
    """towers.csv and zones.geojson, in degrees with 7 decimals."""
    points = np.round(shapely.get_coordinates(city.towers.geometry), 7)
    table = pa.table(
        {
            "tower_id": pa.array(city.towers.ids.tolist(), pa.string()),
            "lon": points[:, 0],
            "lat": points[:, 1],
        }
    )
    pa_csv.write_csv(table, folder / TOWERS)
    rows = zip(
        city.zones.ids, city.zones.names, city.ground.districts, city.labels,
        city.ground.residents, city.zones.geometry, strict=True,
    )  # fmt: skip
    features = [
        {
            "type": "Feature",
            "properties": {
                "zone_id": str(key),
                "name": str(name),
                "district": str(district),
                "land_use": str(label),
                "residents": int(residents),
            },
            "geometry": json.loads(shapely.to_geojson(shape)),
        }
        for key, name, district, label, residents, shape in rows
    ]
    (folder / ZONES).write_text(
        json.dumps({"type": "FeatureCollection", "features": features}) + "\n", encoding="utf-8"
    )


def _plain(city: City) -> dict[str, Any]:
    """The plan as JSON, with what a real map decided in the plan's stead.

    The folder of the real map is left out: it is a fact of the machine.
    """
    content = asdict(city.plan)
    content["start"] = city.plan.start.isoformat()
    content["mean_tower_hours"] = city.plan.tower_hours
    content["residents"] = int(city.ground.residents.sum())
    content["towers"], content["zones"] = len(city.towers), len(city.zones)
    del content["data"]
    return content


def crowd_events(crowd: Crowd) -> Iterator[pa.RecordBatch]:
    """One batch a day, in order of time: everybody's position at each reading."""
    plan = crowd.plan
    ids = integer_ids(np.arange(plan.people), plan.seed)
    for day in range(plan.days):
        cells = crowd.cells[:, day, :].T.ravel()
        times = np.repeat(_readings(plan, day), plan.people)
        yield pa.RecordBatch.from_pydict(
            {
                "user_id": pa.array(np.tile(ids, plan.slots), pa.int64()),
                "timestamp": pa.array(times, pa.int64()).view(pa.timestamp("us", tz="UTC")),
                "lon": pa.array(np.round(crowd.centres[cells, 0], 7)),
                "lat": pa.array(np.round(crowd.centres[cells, 1], 7)),
            }
        )


def write_crowd(
    plan: CrowdPlan, out: Path, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Generate the crowd, write the three files, return what `city.json` says.

    `progress` is told of each day written.
    """
    folder = make_folder(out)
    crowd = generate(plan)
    batches = crowd_events(crowd)
    first = next(batches)
    with open_events(folder / EVENTS, first.schema) as sink:
        sink.write_batch(first, row_group_size=ROW_GROUP)
        for batch in batches:
            if progress is not None:
                progress(1)
            sink.write_batch(batch, row_group_size=ROW_GROUP)
    if progress is not None:
        progress(1)
    _write_cells(plan, folder / ZONES)
    stays = count_stays(crowd.cells)
    statement = {
        "kind": "crowd",
        "plan": asdict(plan) | {"start": plan.start.isoformat()},
        "scale": {
            "users": plan.people,
            "events": plan.people * plan.days * plan.slots,
            "cells": plan.cells,
            "mean_stays": round(float(stays.mean()), 4),
            "share_with_at_most_4_stays": round(float((stays <= 4).mean()), 4),
        },
        "note": "Synthetic people.",
    }
    write_json(statement, folder / STATEMENT)
    return statement


def _readings(plan: CrowdPlan, day: int) -> NDArray[np.int64]:
    """Instants of the day's readings as epoch microseconds: local times from the first hour on."""
    date = plan.start + timedelta(days=day)
    minutes = (60 * plan.first_hour + plan.step_minutes * k for k in range(plan.slots))
    tz = zone(plan.tz)
    local = [
        datetime(date.year, date.month, date.day, *divmod(minute, 60), tzinfo=tz)
        for minute in minutes
    ]
    return np.array([int(moment.timestamp()) * 1_000_000 for moment in local], dtype=np.int64)


def _write_cells(plan: CrowdPlan, path: Path) -> None:
    plane = Plane(plan.lon, plan.lat)
    metres = plane.to_metres(plan.centres())
    half = plan.cell_m / 2
    squares = shapely.box(*(metres - half).T, *(metres + half).T)
    features = [
        {
            "type": "Feature",
            "properties": {
                "zone_id": f"C{k:06d}",
                "name": f"cell {k}",
                "district": "",
                "land_use": "",
            },
            "geometry": json.loads(shape),
        }
        for k, shape in enumerate(shapely.to_geojson(plane.shapes_to_degrees(np.asarray(squares))))
    ]
    path.write_text(
        json.dumps({"type": "FeatureCollection", "features": features}) + "\n", encoding="utf-8"
    )
