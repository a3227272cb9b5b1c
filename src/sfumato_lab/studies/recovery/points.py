"""Recovery accuracy against the number of points (Chen et al., section 7.2, Figures 5 and 6).

Every reading of the attack is scored, with chance beside it and what the paper reports, in percent.

*Taxis* (Figure 5b): a grid of 500 m, half-hour slots, every starting hour. The paper does not say
when its 5 and 10 points begin, and the hour decides the result: parked
cabs are easy to follow, busy ones are not. So every hour of the day is a start here. A taxi's place
is that of its last fix in the slot, inside a public box. Two readings of who takes part: *seen*,
taxis with a fix in every slot of the window, nothing filled; *held*, taxis with any fix that day,
which stay at their last known place (or their first, before it).

Data sets: Cabspotting (537 cabs of San Francisco, 2008) as a Parquet file with `cab`, `t_utc_s`,
`lon_e5`, `lat_e5`; T-Drive (10,357 taxis of Beijing, 2008) as its folder of text files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.attack import Method, Solver, recover
from sfumato.attacks.recovery.baselines import accuracy, score_baselines
from sfumato.attacks.trajectories import Ground, People, fill
from sfumato.city import crowd
from sfumato.model.events import Events
from sfumato.model.time_grid import Clock
from sfumato_lab.studies.fleets import cab_source, read_fixes, taxi_source

CROWD = {10: 78.86, 19: 61.02}
"""Accuracy by number of points, 1,000 of their simulated people."""
CROWD_MEAN = 69.51
TAXIS = {5: 59.4, 10: 40.56}
"""Accuracy by number of points, 1,000 taxis of T-Drive."""
PROTECTED = (10.0, 20.0)
"""Range after any of their schemes, 19 points of the crowd, epsilon 0.1 to 1."""


READINGS = {
    "prediction by day": Method(solver=Solver.PEOPLE),
    "prediction by day, stay first": Method(solver=Solver.CELLS),
    "distance alone": Method(predict=False, solver=Solver.PEOPLE),
    "distance alone, stay first": Method(predict=False, solver=Solver.CELLS),
}
"""How the attack can be read; the first is Xu et al. (2017). *Stay first* breaks ties between
equally short plans in favour of people who stay."""


@dataclass(frozen=True, slots=True)
class Point:
    """Shares for one number of points: mean over crowds and seeds, and the range."""

    reading: str
    points: int
    greedy: float
    low: float
    high: float
    assignment: float
    best: float
    error_m: float
    people: int = 0


OTHERS = 20_000
"""People of the same town, not in any table, whom the baseline's average map is of."""


def truth_of(plan: crowd.CrowdPlan, others: int = OTHERS, days: int = 1) -> People:
    """The first days of a crowd as the attack's truth, and other people of the same town."""
    cell = np.arange(plan.cells)
    centres = np.column_stack([cell % plan.columns, cell // plan.columns]).astype(np.float64)
    clock = Clock.plain(days, plan.slots, plan.first_hour, plan.step_minutes / 60)
    # A person's way depends on the seed and their number alone, so the first stay who they are.
    whole = crowd.generate(replace(plan, people=plan.people + others)).cells[:, :days]
    cells = whole.reshape(len(whole), -1)
    known, rest = cells[: plan.people].copy(), cells[plan.people :].copy()
    return People(known, Ground(centres * plan.cell_m), clock, others=rest if others else None)


def first_points(people: People, points: int) -> People:
    """The same people, their first `points` slots."""
    rest = None if people.others is None else people.others[:, :points].copy()
    cells = people.cells[:, :points].copy()
    return replace(people, cells=cells, clock=people.clock.first(points), others=rest)


def score_readings(
    crowds: Sequence[People],
    lengths: Sequence[int],
    readings: dict[str, Method],
    *,
    seeds: int = 3,
    assignment_limit: int = 0,
    progress: Callable[[float], None] | None = None,
) -> list[Point]:
    """Every reading and baseline at every length, over crowds and tie-breaking seeds."""
    found = []
    for k, points in enumerate(lengths):
        scores: dict[str, list[dict[str, float]]] = {}
        for whole in crowds:
            people = first_points(whole, points)
            for name, method in readings.items():
                for seed in range(seeds):
                    got = recover(people.counts, people.ground, people.clock, method, seed=seed)
                    score = accuracy(
                        people.cells,
                        got.cells,
                        people.ground,
                        people.clock,
                        assignment_limit=assignment_limit,
                    )
                    scores.setdefault(name, []).append(score.as_dict())
            for name, values in score_baselines(people, people.counts, Method(), points)[0].items():
                scores.setdefault(f"baseline: {name}", []).append(values)
        found += [_point(name, points, rows, crowds) for name, rows in scores.items()]
        if progress is not None:
            progress((k + 1) / len(lengths))
    return found


def _point(name: str, points: int, rows: list[dict[str, float]], crowds: Sequence[People]) -> Point:
    def mean(key: str) -> float:
        return float(np.mean([row.get(key, float("nan")) for row in rows]))

    greedy = [row["greedy"] for row in rows]
    return Point(
        name,
        points,
        mean("greedy"),
        min(greedy),
        max(greedy),
        mean("assignment"),
        mean("best"),
        mean("error_m"),
        int(np.mean([len(people.cells) for people in crowds])),
    )


CELL_M = 500.0
SLOT_S = 1_800
_METRES = 111_195.0
"""A degree of latitude; good to a few metres over a city."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Where and when a fleet drives: public facts."""

    name: str
    west: float
    south: float
    east: float
    north: float
    tz: str
    day: str
    """Local date on which the windows begin."""
    source: Callable[[Path], Events]


CABSPOTTING = Fleet(
    "Cabspotting", -122.53, 37.59, -122.35, 37.83, "America/Los_Angeles", "2008-05-28",
    cab_source,
)  # fmt: skip
T_DRIVE = Fleet(
    "T-Drive", 116.14, 39.71, 116.66, 40.11, "Asia/Shanghai", "2008-02-04",
    taxi_source,
)  # fmt: skip


def read_fleet(fleet: Fleet, path: Path, slots: int = 58) -> tuple[NDArray[np.int32], Ground]:
    """Cab x slot cells of a day and the morning after, -1 without a fix; and the map."""
    start = int(np.datetime64(fleet.day, "s").astype(np.int64))
    noon = np.datetime64(f"{fleet.day}T12:00").astype("datetime64[s]").item()
    start -= int(ZoneInfo(fleet.tz).utcoffset(noon).total_seconds())  # type: ignore[union-attr]
    east = _METRES * np.cos(np.radians((fleet.south + fleet.north) / 2))
    columns = int(np.ceil((fleet.east - fleet.west) * east / CELL_M))
    rows = int(np.ceil((fleet.north - fleet.south) * _METRES / CELL_M))
    with duckdb.connect() as connection:
        connection.register("fixes", read_fixes(fleet.source(path))[0])
        found = connection.sql(
            f"WITH fix AS (SELECT *, (time - {start}000000) // {SLOT_S}000000 AS slot FROM fixes "
            f"WHERE time >= {start}000000) "
            "SELECT dense_rank() OVER (ORDER BY user) - 1 AS cab, slot, arg_max(lon, time) AS lon, "
            f"arg_max(lat, time) AS lat FROM fix WHERE slot < {slots} GROUP BY fix.user, slot"
        ).to_arrow_table()
    lon, lat, cab, slot = (found[name].to_numpy() for name in ("lon", "lat", "cab", "slot"))
    x = np.floor((lon - fleet.west) * east / CELL_M).astype(np.int64)
    y = np.floor((lat - fleet.south) * _METRES / CELL_M).astype(np.int64)
    inside = (x >= 0) & (y >= 0) & (x < columns) & (y < rows)
    cells = np.full((int(cab.max(initial=-1)) + 1, slots), -1, np.int32)
    cells[cab[inside], slot[inside]] = (y * columns + x)[inside]
    cell = np.arange(rows * columns)
    centres = np.column_stack([cell % columns, cell // columns]).astype(np.float64)
    return cells, Ground(centres * CELL_M)


def windows(
    cells: NDArray[np.int32],
    ground: Ground,
    hour: int,
    points: int,
    most: int,
    *,
    held: bool = False,
    seed: int = 0,
) -> People:
    """`points` slots of the taxis from an hour on; at most `most` of them."""
    first = hour * 3600 // SLOT_S
    if held:
        cells = fill(cells[(cells >= 0).any(axis=1)])
    part = cells[:, first : first + points]
    part = part[(part >= 0).all(axis=1)]
    if len(part) > most:
        part = np.random.default_rng(seed).choice(part, size=most, replace=False)
    hours = (hour + np.arange(points) * SLOT_S / 3600) % 24
    return People(part, ground, Clock(np.zeros(points, np.int64), hours < 6))


def taxi_study(
    cells: NDArray[np.int32],
    ground: Ground,
    readings: dict[str, Method],
    *,
    lengths: Sequence[int] = (5, 10),
    hours: Sequence[int] = tuple(range(24)),
    most: int = 1_000,
    held: bool = False,
    seeds: int = 1,
    progress: Callable[[float], None] | None = None,
) -> dict[int, list[Point]]:
    """Points by starting hour; an hour with fewer than two taxis is left out."""
    found = {}
    for k, hour in enumerate(hours):
        rows = []
        for points in lengths:
            people = windows(cells, ground, hour, points, most, held=held)
            if len(people.cells) > 1:
                rows += score_readings([people], [points], readings, seeds=seeds)
        if rows:
            found[hour] = rows
        if progress is not None:
            progress((k + 1) / len(hours))
    return found
