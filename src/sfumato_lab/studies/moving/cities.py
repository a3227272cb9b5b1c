"""What is studied: crowds and fleets as raw counts, day x slot x cell. Left of the wall.

Beside the paper's crowd and fleet, other data sets as streams, so that a default is not judged on
the data it was built with:

* C2TM (Chen et al. 2015): active users an hour at 127 clusters of masts of a Chinese city, as
  aggregates; eight whole days of August 2012. Taken as the truth.
* Hangzhou: call records of 976 people, eight days of August 2012, squares of 1 km, whoever was
  seen in an hour counts where they were first seen. Hardly anything can be published of it.
* A synthetic city made by `sfumato city`: its masts, hour by hour.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.city.crowd import CrowdPlan, generate
from sfumato.model.events import Events, EventTable
from sfumato.model.time_grid import Calendar
from sfumato.model.traces import Box
from sfumato_lab.studies.fleets import BEIJING, SAN_FRANCISCO, read_cabspotting, read_tdrive

CELL_M = 500.0
_METRES = 111_195.0


@dataclass(frozen=True, slots=True, eq=False)
class City:
    """Raw counts and the public facts that go with them."""

    name: str
    counts: NDArray[np.int64]
    """day x slot x cell"""
    people: int
    """As is publicly known, rounded."""
    columns: int | None
    """Width of the grid, where the cells are one."""
    first_weekday: int
    first_hour: float
    slot_hours: float

    @property
    def stream(self) -> NDArray[np.int64]:
        """slot x cell"""
        return self.counts.reshape(-1, self.counts.shape[2])

    @property
    def calendar(self) -> Calendar:
        days, slots, _ = self.counts.shape
        return Calendar.regular(days * slots, slots, self.first_weekday)


def crowd_city(days: int, people: int = 130_000, seed: int = 1, side: int | None = None) -> City:
    """The synthetic crowd: 8,010 cells of 500 m, or a square of them; 19 hourly readings from 5 h
    on."""
    plan = CrowdPlan(people=people, days=days, seed=seed)
    if side is not None:
        plan = replace(plan, columns=side, rows=side)
    made = generate(plan)
    counts = np.empty((days, plan.slots, plan.cells), dtype=np.int64)
    for day in range(days):
        for slot in range(plan.slots):
            counts[day, slot] = np.bincount(made.cells[:, day, slot], minlength=plan.cells)
    name = "crowd" if people == CrowdPlan().people else f"crowd of {people:,}"
    return City(name, counts, people, plan.columns, plan.start.weekday(), plan.first_hour, 1.0)


def cabspotting_city(path: Path, days: int = 21) -> City:
    """537 cabs of San Francisco, from Monday 19 May 2008 on; the last week ends on 8 June.

    Their records begin at 3 h on 17 May and end on 10 June in the morning: days that are not whole.
    """
    events, _ = read_cabspotting(path)
    start = date(2008, 5, 19)
    return _fleet("cabspotting", events, SAN_FRANCISCO, "America/Los_Angeles", start, days, 540)


def tdrive_city(folder: Path, days: int = 6) -> City:
    """10,357 taxis of Beijing, from Sunday 3 February 2008 on.

    Their records begin at 13:30 on the 2nd and end before 18 h on the 8th, so five days are whole.
    """
    events, _ = read_tdrive(folder)
    start = date(2008, 2, 3)
    return _fleet("t-drive", events, BEIJING, "Asia/Shanghai", start, days, 10_400)


def _fleet(
    name: str, events: Events, box: Box, tz: str, start: date, days: int, people: int
) -> City:
    """Half-hour slots of whole days; a taxi counts where it was first seen in the slot."""
    (part,) = events.parts
    assert isinstance(part, EventTable)
    table = part.table
    slots = 48
    origin = datetime(start.year, start.month, start.day, tzinfo=ZoneInfo(tz)).timestamp()
    slot = (table["time"].cast("int64").to_numpy() // 1_000_000 - int(origin)) // 1800
    east = _METRES * np.cos(np.radians((box.south + box.north) / 2))
    columns = int(np.ceil((box.east - box.west) * east / CELL_M))
    rows = int(np.ceil((box.north - box.south) * _METRES / CELL_M))
    x = ((table["lon"].to_numpy() - box.west) * east / CELL_M).astype(np.int64)
    y = ((table["lat"].to_numpy() - box.south) * _METRES / CELL_M).astype(np.int64)
    taxi = table["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    inside = (slot >= 0) & (slot < days * slots)
    key = taxi[inside].astype(np.int64) * (days * slots) + slot[inside]
    _, first = np.unique(key, return_index=True)  # rows come in order of time
    cells = np.minimum(y, rows - 1) * columns + np.minimum(x, columns - 1)
    flat = slot[inside][first] * (rows * columns) + cells[inside][first]
    counts = np.bincount(flat, minlength=days * slots * rows * columns)
    shaped = whole_days(counts.reshape(days, slots, rows * columns))
    return City(name, shaped, people, columns, start.weekday(), 0.0, 0.5)


def whole_days(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first days in a row that have somebody in their first and in their last slot.

    A record that ends at 18 h leaves a quarter of its last day empty, and every score would have
    that quarter in it. An outage in the middle of a day stays: streams have such days. This looks
    at the data, as only a study may.

    Raises:
        ValueError: The first day is not whole.
    """
    there = counts.sum(axis=2)
    cut = np.flatnonzero((there[:, 0] == 0) | (there[:, -1] == 0))
    whole = int(cut[0]) if cut.size else counts.shape[0]
    if whole == 0:
        raise ValueError("The first day of the fleet's record is not whole: begin a day later.")
    return counts[:whole]


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
