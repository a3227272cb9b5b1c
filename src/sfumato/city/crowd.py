"""An urban crowd on a grid, after Chen et al. (section 7.1): continuous, regular and unique.

Their second data set is described in a paragraph: 130,000 people, about 8,000 cells of
500 m over Beijing, 19 hourly readings, at most 4 stays a day for 97.7 % of people and 2.1
on average, longer stays at night, and movement that is continuous, regular and unique as
Xu et al. (2017) found. This generator makes each of those true by construction:

* *stays* are places held for at least two readings; their number a day follows a fixed
  law through a Gaussian copula, so that outgoing people are outgoing every day;
* *continuous*: between stays people travel straight at no more than `speed_kmh`;
* *regular*: home at night, work at the usual hours on working days, a few favourites;
* *unique*: home, work and favourites are drawn for each person on their own.

Which 19 hours they read, and how far people go, they do not say; they validate their crowd by
how much of it the attack of Xu et al. recovers from counts. The first hour, the distances and
the speed here were chosen in the same way: 1,000 of these people give 82 % of 10 points and
57 % of 19 with the attack's prediction by day, 88 % and 72 % without (theirs: 78.86 % and
61.02 %).

`CrowdPlan` holds the choices; a compiled pass walks each person through their days.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from sfumato.city.map import Bumps, draw_character
from sfumato.city.people import below, mix, stream, unit
from sfumato.errors import UsageError
from sfumato.geography.projection import Plane
from sfumato.model.compiled import compiled, inlined
from sfumato.model.time_grid import zone

STAY_SHARES = (0.32, 0.40, 0.175, 0.082, 0.016, 0.007)
"""Share of people-days with 1, 2, ... 6 stays: mean 2.095, and 97.7 % have at most 4."""


@dataclass(frozen=True, slots=True)
class CrowdPlan:
    """The defaults are the scale of Chen et al., section 7.1, for eight days.

    A slot is one reading of everybody's cell, from `first_hour` on every `step_minutes`.
    """

    people: int = 130_000
    days: int = 8
    """Their dynamic scheme looks back on seven days."""
    slots: int = 19
    first_hour: int = 3
    step_minutes: int = 60
    columns: int = 90
    rows: int = 89
    cell_m: float = 500.0
    seed: int = 1
    start: date = date(2008, 2, 4)
    tz: str = "Asia/Shanghai"
    lon: float = 116.40
    lat: float = 39.91
    speed_kmh: float = 4.0
    """Nobody is ever faster, as the crow flies and from door to door."""

    def __post_init__(self) -> None:
        zone(self.tz)
        limits = {
            "people": (1, 5_000_000),
            "days": (1, 366),
            "slots": (8, 96),
            "step_minutes": (15, 60),
            "columns": (8, 2_000),
            "rows": (8, 2_000),
            "cell_m": (10, 10_000),
            "speed_kmh": (1, 200),
            "seed": (0, (1 << 63) - 1),
            "lon": (-179, 179),
            "lat": (-75, 75),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise UsageError(
                    f"{name.replace('_', '-')} is outside what a crowd can have.",
                    remedy=f"Take a value from {low} to {high}.",
                )
        if not 0 <= 60 * self.first_hour <= 1440 - self.slots * self.step_minutes:
            raise UsageError(
                "The slots of a day must fit between its first hour and midnight.",
                remedy="Take a smaller first hour or fewer slots.",
            )

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    def centres(self) -> NDArray[np.float64]:
        """Longitude and latitude of each cell's centre; cell = row * columns + column."""
        cell = np.arange(self.cells)
        east = (cell % self.columns + 0.5 - self.columns / 2) * self.cell_m
        north = (cell // self.columns + 0.5 - self.rows / 2) * self.cell_m
        return Plane(self.lon, self.lat).to_degrees(np.column_stack([east, north]))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PLACES = 7
"""Home, work and five favourites: enough for six stays whoever works or not."""
_SPOTS = 8
_SHORTEST = 2.1
"""Hours; so that a stay covers two readings and can be told from passing through."""


@inlined
def normal(word: np.uint64) -> float:
    """A standard normal number from a mixed word (Box & Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - unit(word)))
    return radius * math.cos(2.0 * math.pi * unit(mix(word + _GOLDEN)))


@compiled
def walk(
    key: np.uint64,
    columns: int,
    home_share: NDArray[np.float64],
    jobs: NDArray[np.float64],
    fun: NDArray[np.float64],
    reach: NDArray[np.float64],
    worker_share: float,
    stays: NDArray[np.float64],
    habit: float,
    free_days: NDArray[np.bool_],
    first_hour: float,
    step: float,
    cells_per_hour: float,
    out: NDArray[np.int32],
) -> None:
    """Cell of each person on each day every `step` hours. Distances are in cells."""
    people, days, slots = out.shape
    rows = home_share.size // columns
    place = np.empty(_PLACES, dtype=np.int64)
    px, py = np.empty(_PLACES), np.empty(_PLACES)
    route = np.empty(_PLACES + 1, dtype=np.int64)
    leave, arrive = np.empty(_PLACES + 1), np.empty(_PLACES + 1)
    last = first_hour + step * (slots - 1)
    for k in range(people):
        state = stream(key, k)
        state += _GOLDEN
        place[0] = below(home_share, unit(mix(state)))
        state += _GOLDEN
        px[0] = place[0] % columns + unit(mix(state))
        state += _GOLDEN
        py[0] = place[0] // columns + unit(mix(state))
        for p in range(1, _PLACES):
            # A few spots around home (or work, for some favourites), one of which is chosen in
            # proportion to what is there: the race of exponential clocks picks it.
            anchor = 1 if p in (3, 5) else 0
            best = np.inf
            tries = 0
            while tries < _SPOTS or best == np.inf:
                tries += 1
                state += _GOLDEN
                angle = 2.0 * math.pi * unit(mix(state))
                state += _GOLDEN
                luck = unit(mix(state))
                state += _GOLDEN
                apart = -math.log((1.0 - luck) * (1.0 - unit(mix(state)))) * reach[p]
                x = px[anchor] + apart * math.cos(angle)
                y = py[anchor] + apart * math.sin(angle)
                if x < 0.0 or y < 0.0 or x >= columns or y >= rows:
                    continue
                cell = int(y) * columns + int(x)
                fresh = True
                for q in range(p):
                    fresh = fresh and place[q] != cell
                state += _GOLDEN
                pull = jobs[cell] if p == 1 else fun[cell]
                bell = -math.log(1.0 - unit(mix(state))) / pull
                if fresh and bell < best:
                    best = bell
                    place[p], px[p], py[p] = cell, x, y
        state += _GOLDEN
        works = unit(mix(state)) < worker_share
        state += _GOLDEN
        outgoing = normal(mix(state))
        state += _GOLDEN
        usual_start = 8.4 + 0.9 * normal(mix(state))
        state += _GOLDEN
        usual_work = 9.3 + 0.8 * normal(mix(state))
        for day in range(days):
            # How many stays: a lasting inclination and today's mood; the law is `stays`.
            state += _GOLDEN
            score = habit * outgoing + math.sqrt(1.0 - habit * habit) * normal(mix(state))
            away = below(stays, 0.5 * math.erfc(-score / math.sqrt(2.0)))
            working = works and not free_days[day]
            # The favourite is the likeliest to be visited first; later ones follow in order.
            state += _GOLDEN
            turn = int(unit(mix(state)) ** 3 * (_PLACES - 2))
            route[0] = 0
            for a in range(1, away + 1):
                if working and a == 1:
                    route[a] = 1
                else:
                    route[a] = 2 + (turn + a - 1 - int(working)) % (_PLACES - 2)
            route[away + 1] = 0
            state += _GOLDEN
            start = usual_start + 0.35 * normal(mix(state))
            if not working:
                state += _GOLDEN
                start += 1.0 + 3.0 * unit(mix(state))
            spare = last - 1.1 * _SHORTEST * away
            for a in range(away + 1):
                here, there = route[a], route[a + 1]
                spare -= math.hypot(px[there] - px[here], py[there] - py[here]) / cells_per_hour
            start = max(first_hour + 1.01, min(start, spare))
            clock = start
            for a in range(1, away + 1):
                here, there = route[a - 1], route[a]
                leave[a - 1] = clock
                clock += math.hypot(px[there] - px[here], py[there] - py[here]) / cells_per_hour
                arrive[a] = clock
                state += _GOLDEN
                length = _SHORTEST - 0.9 * math.log(1.0 - unit(mix(state)))
                if working and a == 1:
                    state += _GOLDEN
                    length = usual_work + 0.4 * normal(mix(state))
                elif away == 1:
                    length += 2.0
                needed = _SHORTEST * (away - a)
                for b in range(a, away):
                    one, two = route[b], route[b + 1]
                    needed += math.hypot(px[two] - px[one], py[two] - py[one]) / cells_per_hour
                clock += max(_SHORTEST, min(length, last - needed - clock))
                leave[a] = clock
            if away > 0:
                here = route[away]
                home_at = clock + math.hypot(px[0] - px[here], py[0] - py[here]) / cells_per_hour
            else:
                leave[0], home_at = 1e9, 0.0
            leg = 0
            for slot in range(slots):
                now = first_hour + step * slot
                while leg < away and now >= arrive[leg + 1]:
                    leg += 1
                if now < leave[leg] or (leg == away and now >= home_at):
                    spot = route[leg] if now < leave[leg] else 0
                    out[k, day, slot] = place[spot]
                    continue
                here = route[leg]
                there = route[leg + 1] if leg < away else 0
                until = arrive[leg + 1] if leg < away else home_at
                part = (now - leave[leg]) / max(until - leave[leg], 1e-9)
                x = px[here] + part * (px[there] - px[here])
                y = py[here] + part * (py[there] - py[here])
                out[k, day, slot] = int(y) * columns + int(x)


_WORKERS = 0.72
_HABIT = 0.85
_WORK_REACH_KM = 0.7
_FUN_REACH_KM = 1.4


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Everybody's cell: `cells[person, day, slot]`, and each cell's centre in degrees."""

    plan: CrowdPlan
    cells: NDArray[np.int32]
    centres: NDArray[np.float64]


def generate(plan: CrowdPlan) -> Crowd:
    """The same plan gives the same crowd."""
    rng = np.random.default_rng([plan.seed, 11])
    half = np.array([plan.columns, plan.rows]) / 2
    character = draw_character(float(np.sqrt(plan.cells / np.pi)), rng)
    cell = np.arange(plan.cells)
    middle = np.column_stack([cell % plan.columns, cell // plan.columns]) + 0.5 - half

    def density(bumps: Bumps) -> NDArray[np.float64]:
        # Density falls off towards the rim, as it does from a city to its outskirts.
        fade = np.exp(-((middle / (0.75 * half)) ** 2).sum(axis=1))
        return np.asarray(bumps(middle) * (0.08 + fade), dtype=np.float64)

    homes = np.cumsum(density(character.homes))

    km = 1_000.0 / plan.cell_m
    reach = np.array([1.0, _WORK_REACH_KM, *[_FUN_REACH_KM] * 5]) * km
    days = [plan.start + timedelta(days=d) for d in range(plan.days)]
    cells = np.empty((plan.people, plan.days, plan.slots), dtype=np.int32)
    key = np.random.SeedSequence([plan.seed, 12]).generate_state(1, np.uint64)[0]
    walk(
        np.uint64(key),
        plan.columns,
        homes / homes[-1],
        density(character.offices),
        density(character.nightlife),
        reach,
        _WORKERS,
        np.cumsum(STAY_SHARES),
        _HABIT,
        np.array([day.weekday() >= 5 for day in days]),
        float(plan.first_hour),
        plan.step_minutes / 60,
        plan.speed_kmh * km,
        cells,
    )
    return Crowd(plan, cells, plan.centres())


def count_stays(cells: NDArray[np.int32]) -> NDArray[np.int64]:
    """Distinct cells that a person holds for at least two readings running, per person and day."""
    held = np.zeros(cells.shape, dtype=bool)
    same = cells[..., 1:] == cells[..., :-1]
    held[..., 1:] |= same
    held[..., :-1] |= same
    # A cell that nobody can be in marks the readings in passing; distinct others are stays.
    ranked = np.sort(np.where(held, cells, -1), axis=-1)
    new = np.diff(ranked, axis=-1, prepend=-1) > 0
    return np.asarray(new.sum(axis=-1), dtype=np.int64)
