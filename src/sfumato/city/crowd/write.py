"""A crowd on disk: events.parquet (user_id, timestamp, lon, lat), zones.geojson, city.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.city.crowd.plan import CrowdPlan
from sfumato.city.crowd.walkers import Crowd, count_stays, generate
from sfumato.city.ids import integer_ids
from sfumato.city.plane import Plane
from sfumato.city.write import (
    EVENTS,
    ROW_GROUP,
    STATEMENT,
    ZONES,
    make_folder,
    open_events,
    write_json,
)
from sfumato.model.time_grid import zone


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
