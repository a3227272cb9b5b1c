"""Other data sets as streams, so that a default is not judged on the data it was built with.

* C2TM (Chen et al. 2015): active users an hour at 127 clusters of masts of a Chinese city, as
  aggregates; eight whole days of August 2012. Taken as the truth.
* Hangzhou: call records of 976 people, eight days of August 2012, squares of 1 km, whoever was
  seen in an hour counts where they were first seen. Hardly anything can be published of it.
* A synthetic city made by `sfumato city`: its masts, hour by hour.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow.parquet as pq

from sfumato.stream.study.cities import City

_DAYS, _HOURS = 8, 24
_FIRST = date(2012, 8, 19)
_WEST, _EAST, _SOUTH, _NORTH = 119.9, 120.5, 30.0, 30.5
"""Hangzhou and around, from a public map."""


def c2tm_city(path: Path) -> City:
    """Hourly users of the finer clusters; 300,000 people, as an operator would say."""
    table = pq.read_table(path, columns=["cluster", "hour_local", "users"])
    hours = table["hour_local"].cast("timestamp[us]").to_numpy()
    slot = (hours - np.datetime64(_FIRST.isoformat(), "us")) // np.timedelta64(1, "h")
    names = np.array(table["cluster"].to_pylist())
    chosen = (slot >= 0) & (slot < _DAYS * _HOURS) & np.char.startswith(names, "rrh_")
    clusters, cell = np.unique(names[chosen], return_inverse=True)
    counts = np.zeros((_DAYS * _HOURS, clusters.size), dtype=np.int64)
    np.add.at(counts, (slot[chosen].astype(np.int64), cell), table["users"].to_numpy()[chosen])
    shaped = counts.reshape(_DAYS, _HOURS, -1)
    return City("c2tm", shaped, 300_000, None, _FIRST.weekday(), 0.0, 1.0)


def hangzhou_city(path: Path) -> City:
    """Call records on a grid of 58 by 56 squares."""
    table = pq.read_table(path, columns=["user", "time_utc", "lon", "lat"])
    local = datetime(_FIRST.year, _FIRST.month, _FIRST.day, tzinfo=ZoneInfo("Asia/Shanghai"))
    start = np.datetime64(local.astimezone(UTC).replace(tzinfo=None), "us")
    times = table["time_utc"].cast("timestamp[us]").to_numpy()
    lon = table["lon"].to_numpy(zero_copy_only=False).astype(np.float64)
    lat = table["lat"].to_numpy(zero_copy_only=False).astype(np.float64)
    slot = (times - start) // np.timedelta64(1, "h")
    inside = (slot >= 0) & (slot < _DAYS * _HOURS)
    inside &= (lon > _WEST) & (lon < _EAST) & (lat > _SOUTH) & (lat < _NORTH)
    columns, rows = 58, 56
    x = ((lon[inside] - _WEST) / (_EAST - _WEST) * columns).astype(np.int64)
    y = ((lat[inside] - _SOUTH) / (_NORTH - _SOUTH) * rows).astype(np.int64)
    user = np.unique(np.array(table["user"].to_pylist())[inside], return_inverse=True)[1]
    slots = slot[inside].astype(np.int64)
    order = np.argsort(times[inside], kind="stable")
    _, first = np.unique((user * (_DAYS * _HOURS) + slots)[order], return_index=True)
    kept = order[first]
    flat = slots[kept] * (rows * columns) + (y * columns + x)[kept]
    counts = np.bincount(flat, minlength=_DAYS * _HOURS * rows * columns)
    shaped = counts.reshape(_DAYS, _HOURS, rows * columns)
    return City("hangzhou", shaped, 1_000, columns, _FIRST.weekday(), 0.0, 1.0)


def masts_city(folder: Path) -> City:
    """A folder of `sfumato city`: a person counts at the mast that saw them first in the hour."""
    told = json.loads((folder / "city.json").read_text())["plan"]
    start, days = date.fromisoformat(told["start"]), int(told["days"])
    zone = ZoneInfo(told["tz"])
    origin = datetime(start.year, start.month, start.day, tzinfo=zone)
    if origin.utcoffset() != (origin + timedelta(days=days)).utcoffset():
        raise ValueError("The study takes days of 24 hours; the clocks change in this period.")
    seconds = int(origin.timestamp())
    rows = duckdb.execute(
        f"""
        SELECT slot, mast, count(*) FROM (
          SELECT (epoch_us("timestamp") // 1000000 - {seconds}) // 3600 AS slot, user_id,
                 arg_min(tower, "timestamp") AS mast
          FROM read_parquet('{folder / "events.parquet"}') GROUP BY ALL
        ) WHERE slot >= 0 AND slot < {24 * days} GROUP BY ALL
        """
    ).fetchnumpy()
    masts, cell = np.unique(np.asarray(rows["mast"], dtype=str), return_inverse=True)
    counts = np.zeros((24 * days, masts.size), dtype=np.int64)
    slot = np.asarray(rows["slot"], dtype=np.int64)
    counts[slot, cell] = np.asarray(rows["count_star()"], dtype=np.int64)
    people = int(told["users"])
    shaped = counts.reshape(days, 24, -1)
    return City("masts", shaped, people, None, start.weekday(), 0.0, 1.0)
