"""People living their days: records of who, when and where, a chunk of users at a time.

A compiled pass lives one user's period after another. Every user has a random stream of their own,
derived from the seed and the user's number, so neither chunks nor threads change what happens to
anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.city.layout import City
from sfumato.city.plan import Fixes, id_array
from sfumato.city.rhythm import KIND_SHARES, tower_hour_law
from sfumato.model.compiled import compiled, inlined

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / (1 << 53)

# Values of rhythm.Whereabouts and rhythm.Kind, repeated as plain integers for the compiler.
# Home and work are the places 0 and 1 as well.
_HOME, _WORK, _LEISURE, _TRANSIT = 0, 1, 2, 3
_AT_HOME, _STUDENT, _ROAMER = 2, 1, 4


@inlined
def mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _S30)) * _MIX1
    word = (word ^ (word >> _S27)) * _MIX2
    return word ^ (word >> _S31)


@inlined
def unit(word: np.uint64) -> float:
    """A mixed word as a number in [0, 1)."""
    return np.float64(word >> _S11) * _UNIT


@inlined
def stream(key: np.uint64, number: int) -> np.uint64:
    """The starting point of a user's own stream."""
    return mix(key + _GOLDEN * np.uint64(number + 1))


@inlined
def below(table: NDArray[np.float64], value: float) -> int:
    """First index whose cumulative share exceeds the value."""
    low, high = 0, table.size - 1
    while low < high:
        middle = (low + high) >> 1
        if table[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def settle(
    key: np.uint64,
    first: int,
    home_share: NDArray[np.float64],
    law: NDArray[np.float64],
    liveliness: NDArray[np.float64],
    strength: float,
    homes: NDArray[np.int32],
    wanted: NDArray[np.int32],
) -> None:
    """Home zone and number of tower-hours of each user of the chunk.

    Shares of the law are spread evenly over the users (a golden-ratio sequence), so that
    small cities too have its mean and deviation instead of one chance user with 700.
    With `strength` s the normal score of a user's activity is s times the field of the home
    zone plus sqrt(1 - s^2) times an own one: the law over all users stays what it is.
    """
    own = math.sqrt(1.0 - strength * strength)
    for k in range(homes.size):
        state = stream(key, first + k)
        homes[k] = below(home_share, unit(mix(state + _GOLDEN)))
        share = unit(key + _GOLDEN * np.uint64(first + k))
        if strength > 0.0:
            other = unit(mix(state + _GOLDEN * np.uint64(3)))
            radius = math.sqrt(-2.0 * math.log(1.0 - share))
            score = own * radius * math.cos(2.0 * math.pi * other) + strength * liveliness[homes[k]]
            share = 0.5 * math.erfc(-score / math.sqrt(2.0))
        wanted[k] = below(law, share) + 1


@compiled
def own_places(
    state: np.uint64,
    home: int,
    kind: int,
    site_start: NDArray[np.int64],
    sites: NDArray[np.float64],
    work_flow: NDArray[np.float32],
    school_flow: NDArray[np.float32],
    leisure_flow: NDArray[np.float32],
    hub_of: NDArray[np.int64],
    hubs: NDArray[np.float64],
    places: NDArray[np.float64],
) -> np.uint64:
    """Fill in a user's addresses: home, work or school, four for leisure, the two stations."""
    for p in range(6):
        state += _GOLDEN
        zone = home
        if p > 0:
            pick = unit(mix(state))
            if p > 1:
                zone = below(leisure_flow[home], pick)
            elif kind == _STUDENT:
                zone = below(school_flow[home], pick)
            else:
                zone = below(work_flow[home], pick)
        state += _GOLDEN
        span = site_start[zone + 1] - site_start[zone]
        at = site_start[zone] + int(unit(mix(state)) * span)
        places[p, 0], places[p, 1] = sites[at, 0], sites[at, 1]
        if p < 2:
            places[6 + p, 0] = hubs[hub_of[zone], 0]
            places[6 + p, 1] = hubs[hub_of[zone], 1]
    return state


@compiled
def position(
    doing: int,
    kind: int,
    moment: np.uint64,
    next_moment: np.uint64,
    luck: float,
    places: NDArray[np.float64],
) -> tuple[float, float]:
    """Where the user is: at a place, at a station, or somewhere on the line between two."""
    if doing <= _WORK:
        return places[doing, 0], places[doing, 1]
    if doing == _LEISURE:
        choice = 2 + int(unit(mix(moment)) ** 1.6 * 4.0)
        return places[choice, 0], places[choice, 1]
    if doing == _TRANSIT:
        if luck < 0.45:
            station = 6 + int(luck > 0.22)
            return places[station, 0], places[station, 1]
        a, b = 0, 2 if kind == _AT_HOME else 1
        part = (luck - 0.45) / 0.55
    else:
        # On the road: from one errand to the next hour's.
        a, b = int(unit(mix(moment)) * 6.0), int(unit(mix(next_moment)) * 6.0)
        part = luck
    return (
        places[a, 0] + part * (places[b, 0] - places[a, 0]),
        places[a, 1] + part * (places[b, 1] - places[a, 1]),
    )


@compiled
def live(
    key: np.uint64,
    first: int,
    homes: NDArray[np.int32],
    wanted: NDArray[np.int32],
    kinds: NDArray[np.float64],
    when: NDArray[np.float64],
    where: NDArray[np.float64],
    day: NDArray[np.int64],
    site_start: NDArray[np.int64],
    sites: NDArray[np.float64],
    work_flow: NDArray[np.float32],
    school_flow: NDArray[np.float32],
    leisure_flow: NDArray[np.float32],
    hub_of: NDArray[np.int64],
    hubs: NDArray[np.float64],
    origin: NDArray[np.float64],
    step: float,
    nearest: NDArray[np.int32],
    reach: NDArray[np.float64],
    towers: int,
    match_share: float,
    match_slots: NDArray[np.bool_],
    stadium: NDArray[np.float64],
    strike: int,
    out_user: NDArray[np.int32],
    out_slot: NDArray[np.int32],
    out_tower: NDArray[np.int32],
    out_x: NDArray[np.float32],
    out_y: NDArray[np.float32],
) -> int:
    """Fill the rows with each user's distinct (slot, tower) pairs; return how many there are."""
    slots = when.shape[1]
    rows, columns, ranks = nearest.shape
    seen = np.zeros(slots * towers, dtype=np.int32)
    places = np.empty((8, 2), dtype=np.float64)
    row = 0
    for k in range(homes.size):
        state = stream(key, first + k)
        habit = mix(state + _GOLDEN * np.uint64(5))
        state = state + _GOLDEN * np.uint64(16)
        n, home = wanted[k], homes[k]
        kind = below(kinds, unit(mix(state)))
        if n > 110 and unit(mix(habit)) < 0.85:
            kind = _ROAMER
        state = own_places(
            state, home, kind, site_start, sites, work_flow, school_flow, leisure_flow,
            hub_of, hubs, places,
        )  # fmt: skip
        state += _GOLDEN
        shift = int(unit(mix(state)) * 3.0) - 1
        state += _GOLDEN
        fan = unit(mix(state)) < match_share
        state += _GOLDEN
        walks_out = strike >= 0 and unit(mix(state)) < 0.75

        done, tries = 0, 0
        slot, at_match = 0, -1
        while done < n:
            tries += 1
            if fan and at_match < slots - 1:
                # A fan's evening comes first: an event in most of the match's hours.
                at_match += 1
                while at_match < slots and not match_slots[at_match]:
                    at_match += 1
                if at_match == slots:
                    continue
                slot = at_match
                if unit(mix(habit ^ np.uint64(slot + 77_777))) > 0.8:
                    continue
            elif tries > 30 * n + 200:
                slot = tries % slots
            else:
                state += _GOLDEN
                slot = below(when[kind], unit(mix(state)))
            # Whereabouts are a habit of user and slot: one hour, one place, save for hand-over.
            hour = slot - shift
            if hour < 0 or hour >= slots:
                hour = slot
            moment = mix(habit + _GOLDEN * np.uint64(slot + 1))
            doing = below(where[kind, hour], unit(moment))
            if walks_out and day[slot] == strike and doing in (_WORK, _TRANSIT):
                doing = _HOME
            if fan and match_slots[slot]:
                x, y = stadium[0], stadium[1]
            else:
                state += _GOLDEN
                after = mix(habit + _GOLDEN * np.uint64(slot + 2))
                x, y = position(doing, kind, moment, after, unit(mix(state)), places)
            state += _GOLDEN
            column = min(max(int((x - origin[0]) / step), 0), columns - 1)
            line = min(max(int((y - origin[1]) / step), 0), rows - 1)
            rank = below(reach, unit(mix(state)))
            while rank < ranks and seen[slot * towers + nearest[line, column, rank]] == k + 1:
                rank += 1
            if rank >= ranks:
                # All is taken here: after many failures any free tower of the hour will do.
                if tries < 60 * n + 400:
                    continue
                tower = (tries // slots) % towers
                if seen[slot * towers + tower] == k + 1:
                    continue
            else:
                tower = nearest[line, column, rank]
            seen[slot * towers + tower] = k + 1
            out_user[row], out_slot[row], out_tower[row] = k, slot, tower
            out_x[row], out_y[row] = x, y
            row += 1
            done += 1
    return row


@compiled
def burst(key: np.uint64, repeats: float, copies: NDArray[np.int64]) -> None:
    """Records of each tower-hour: one, and a geometric number of further ones."""
    odds = repeats / (1.0 + repeats)
    for row in range(copies.size):
        luck = unit(mix(key + _GOLDEN * np.uint64(row + 1)))
        copies[row] = 1 + int(math.log(1.0 - luck) / math.log(odds)) if odds > 0 else 1


@compiled
def clock(
    key: np.uint64,
    slot: NDArray[np.int32],
    edges: NDArray[np.int64],
    time: NDArray[np.int64],
) -> None:
    """A whole second inside each row's slot, as epoch microseconds."""
    for row in range(slot.size):
        seconds = (edges[slot[row] + 1] - edges[slot[row]]) // 1_000_000
        luck = unit(mix(key + _GOLDEN * np.uint64(row + 1)))
        time[row] = edges[slot[row]] + int(luck * seconds) * 1_000_000


@compiled
def wobble(key: np.uint64, metres: float, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
    """Move each fix by a Gaussian step, as a receiver among houses does."""
    for row in range(x.size):
        word = mix(key + _GOLDEN * np.uint64(row + 1))
        length = metres * math.sqrt(-2.0 * math.log(1.0 - unit(word)))
        angle = 2.0 * math.pi * unit(mix(word))
        x[row] += length * math.cos(angle)
        y[row] += length * math.sin(angle)


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
    settle(key, first, areas.home_share, law, areas.liveliness, plan.place_activity, homes, wanted)
    n = int(wanted.sum(dtype=np.int64))
    user, slot, tower = (np.empty(n, np.int32) for _ in range(3))
    x, y = np.empty(n, np.float32), np.empty(n, np.float32)
    match_share, match_slots = _match(city)
    ranks = raster.nearest.shape[2]
    reach = _REACH[:ranks].copy()
    reach[-1] = 1.0
    live(
        key, first, homes, wanted, np.cumsum(KIND_SHARES), rhythm.when, rhythm.where, rhythm.day,
        areas.site_start, areas.sites, areas.work_flow, areas.school_flow, areas.leisure_flow,
        areas.hub_of, city.ground.character.hubs, raster.origin, raster.step, raster.nearest,
        reach, len(city.towers), match_share, match_slots, city.ground.character.stadium,
        -1 if plan.strike_day is None else plan.strike_day, user, slot, tower, x, y,
    )  # fmt: skip
    inside = int(city.tower_inside[tower].sum())
    if plan.repeats > 0:
        copies = np.empty(n, np.int64)
        burst(_key(plan.seed, 4) ^ np.uint64(first), plan.repeats, copies)
        user, slot, tower = (np.repeat(c, copies) for c in (user, slot, tower))
        x, y = np.repeat(x, copies), np.repeat(y, copies)
    time = np.empty(len(user), np.int64)
    clock(_key(plan.seed, 5) ^ np.uint64(first), slot, plan.grid.edges, time)
    order = np.argsort(time, kind="stable")
    ids = id_array(np.arange(first, first + users), plan.seed, plan.id_kind)
    columns = {
        "user_id": ids.take(pa.array(user[order])),
        "timestamp": pa.array(time[order], pa.int64()).view(_TIME),
    }
    if plan.fixes is Fixes.GPS:
        wobble(_key(plan.seed, 6) ^ np.uint64(first), _GPS_M, x, y)
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
