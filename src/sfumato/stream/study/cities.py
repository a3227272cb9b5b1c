"""What is studied: a crowd and a fleet as raw counts, day x slot x cell. Left of the wall."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sfumato.city.crowd import CrowdPlan, generate
from sfumato.io.native.cabspotting import read_cabspotting
from sfumato.io.native.taxis import BEIJING, SAN_FRANCISCO, Box
from sfumato.io.native.tdrive import read_tdrive
from sfumato.model.events import Events, EventTable
from sfumato.stream.calendar import Calendar

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


def crowd_city(days: int, people: int = 130_000, seed: int = 1) -> City:
    """The synthetic crowd: 8,010 cells of 500 m, 19 hourly readings from 5 h on."""
    plan = CrowdPlan(people=people, days=days, seed=seed)
    made = generate(plan)
    counts = np.empty((days, plan.slots, plan.cells), dtype=np.int64)
    for day in range(days):
        for slot in range(plan.slots):
            counts[day, slot] = np.bincount(made.cells[:, day, slot], minlength=plan.cells)
    name = "crowd" if people == CrowdPlan().people else f"crowd of {people:,}"
    return City(name, counts, people, plan.columns, plan.start.weekday(), plan.first_hour, 1.0)


def cabspotting_city(path: Path, days: int = 21) -> City:
    """537 cabs of San Francisco, from Monday 19 May 2008 on; the last week ends on 8 June."""
    events, _ = read_cabspotting(path)
    start = date(2008, 5, 19)
    return _fleet("cabspotting", events, SAN_FRANCISCO, "America/Los_Angeles", start, days, 540)


def tdrive_city(folder: Path, days: int = 6) -> City:
    """10,357 taxis of Beijing, from Sunday 3 February 2008 on."""
    events, _ = read_tdrive(folder)
    start = date(2008, 2, 3)
    return _fleet("t-drive", events, BEIJING, "Asia/Shanghai", start, days, 10_400)


def _fleet(
    name: str, events: Events, box: Box, tz: str, start: date, days: int, people: int
) -> City:
    """Half-hour slots; a taxi counts where it was first seen in the slot."""
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
    shaped = counts.reshape(days, slots, rows * columns)
    return City(name, shaped, people, columns, start.weekday(), 0.0, 0.5)
