"""People living their days: records of who, when and where, a chunk of users at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.city import kernels
from sfumato.city.activity import tower_hour_law
from sfumato.city.ids import id_array
from sfumato.city.layout import City
from sfumato.city.plan import Fixes
from sfumato.city.rhythm import KIND_SHARES

_TIME = pa.timestamp("us", tz="UTC")
_GPS_M = 25.0
# Chance of each further tower to take the call: hand-over and overlapping cells.
_REACH = np.array([0.70, 0.86, 0.94, 0.975, 0.99, 0.996, 0.999, 1.0])


@dataclass(frozen=True, slots=True)
class Chunk:
    """One batch of records and the tower-hours of each of its users, for statistics."""

    batch: pa.RecordBatch
    tower_hours: NDArray[np.int32]
    inside: int
    """How many of the tower-hours are at towers inside the region."""


def generate_events(
    city: City, progress: Callable[[int], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Records in batches of `plan.chunk_users` users, in order of time within a batch.

    Columns `user_id`, `timestamp` (UTC) and `tower`, or `lon` and `lat` for GPS fixes.
    `progress` is told how many users each batch held.
    """
    for chunk in generate_chunks(city):
        yield chunk.batch
        if progress is not None:
            progress(len(chunk.tower_hours))


def generate_chunks(city: City) -> Iterator[Chunk]:
    """As `generate_events`, with each user's tower-hours beside the records."""
    plan = city.plan
    law = tower_hour_law(plan.tower_hours, plan.grid.slots, len(city.towers))
    for first in range(0, plan.users, plan.chunk_users):
        yield _chunk(city, law, first, min(plan.chunk_users, plan.users - first))


def _key(seed: int, label: int) -> np.uint64:
    return np.uint64(np.random.SeedSequence([seed, label]).generate_state(1, np.uint64)[0])


def _chunk(city: City, law: NDArray[np.float64], first: int, users: int) -> Chunk:
    plan, areas, raster, rhythm = city.plan, city.areas, city.raster, city.rhythm
    key = _key(plan.seed, 3)
    homes, wanted = np.empty(users, np.int32), np.empty(users, np.int32)
    kernels.settle(
        key, first, areas.home_share, law, areas.liveliness, plan.place_activity, homes, wanted
    )
    n = int(wanted.sum(dtype=np.int64))
    user, slot, tower = (np.empty(n, np.int32) for _ in range(3))
    x, y = np.empty(n, np.float32), np.empty(n, np.float32)
    match_share, match_slots = _match(city)
    ranks = raster.nearest.shape[2]
    reach = _REACH[:ranks].copy()
    reach[-1] = 1.0
    kernels.live(
        key, first, homes, wanted, np.cumsum(KIND_SHARES), rhythm.when, rhythm.where, rhythm.day,
        areas.site_start, areas.sites, areas.work_flow, areas.school_flow, areas.leisure_flow,
        areas.hub_of, city.ground.character.hubs, raster.origin, raster.step, raster.nearest,
        reach, len(city.towers), match_share, match_slots, city.ground.character.stadium,
        -1 if plan.strike_day is None else plan.strike_day, user, slot, tower, x, y,
    )  # fmt: skip
    inside = int(city.tower_inside[tower].sum())
    if plan.repeats > 0:
        copies = np.empty(n, np.int64)
        kernels.burst(_key(plan.seed, 4) ^ np.uint64(first), plan.repeats, copies)
        user, slot, tower = (np.repeat(c, copies) for c in (user, slot, tower))
        x, y = np.repeat(x, copies), np.repeat(y, copies)
    time = np.empty(len(user), np.int64)
    kernels.clock(_key(plan.seed, 5) ^ np.uint64(first), slot, plan.grid.edges, time)
    order = np.argsort(time, kind="stable")
    ids = id_array(np.arange(first, first + users), plan.seed, plan.id_kind)
    columns = {
        "user_id": ids.take(pa.array(user[order])),
        "timestamp": pa.array(time[order], pa.int64()).view(_TIME),
    }
    if plan.fixes is Fixes.GPS:
        kernels.wobble(_key(plan.seed, 6) ^ np.uint64(first), _GPS_M, x, y)
        metres = np.column_stack([x, y])[order].astype(np.float64)
        degrees = np.round(city.ground.plane.to_degrees(metres), 6)
        columns |= {"lon": pa.array(degrees[:, 0]), "lat": pa.array(degrees[:, 1])}
    else:
        columns["tower"] = pa.DictionaryArray.from_arrays(
            pa.array(tower[order]), pa.array(city.ground.tower_ids.tolist(), pa.string())
        )
    return Chunk(pa.RecordBatch.from_pydict(columns), wanted, inside)


def _match(city: City) -> tuple[float, NDArray[np.bool_]]:
    """Share of users who go, and the slots of the match."""
    match, rhythm = city.plan.match, city.rhythm
    if match is None:
        return 0.0, np.zeros(rhythm.day.size, dtype=bool)
    hours = (rhythm.local_hour >= match.hour) & (rhythm.local_hour < match.hour + match.hours)
    return match.people / city.plan.users, hours & (rhythm.day == match.day)
