"""The people that forecasts are judged on: taxis and check-ins, made up, and real ones.

Made on cells of one kilometre, drawn by arrays from one seed:

* *taxis*, as in T-Drive: hours with a fix by the law of real cabs (`_levels_people.CAB_HOURS`); in
  an hour one place and a Poisson number of further ones, near a first place whose draw thins out
  from the centre, unevenly: totals of places have a deviation of about 1 in their logarithm, where
  those of 516 real cabs in 41 and in 195 zones have 1.3 and 1.4; the least hour of the week is a
  fifth of the mean, where cabs have 0.17 and 0.12. A few hundred visits of each in a week.
* *check-ins*, as in Foursquare: few and uneven. `zipf` is the law of docs/benchmarks/levels.md
  (P(at least k) = k^-1.25); `log-normal` has a deviation of 1.5 in its logarithm, which has as many
  very active people, and more in between. Places by Zipf's law, three in five visits at a person's
  own three.

Check-ins by `zipf` and taxis that were spread more evenly, at other seeds, were looked at when the
rules were chosen; the others had no part in it.
"""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import shapely
from benchmarks._levels_people import CAB_DAY, CAB_HOURS, Population, in_zones

from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

START = date(2008, 2, 4)
TZ = "Asia/Shanghai"
WEST, SOUTH, EAST_STEP, NORTH_STEP = 116.2, 39.75, 0.0117, 0.009
"""Cells of about a kilometre around Beijing."""


def slots_of(days: int, slot: str = "1h") -> TimeGrid:
    """So many days from a Monday."""
    return TimeGrid.between(START, START + timedelta(days=days), slot, TZ)


def cells(side: int) -> Places:
    """A square of so many cells a side."""
    at = [(i, j) for i in range(side) for j in range(side)]
    boxes = [
        shapely.box(
            WEST + i * EAST_STEP,
            SOUTH + j * NORTH_STEP,
            WEST + (i + 1) * EAST_STEP,
            SOUTH + (j + 1) * NORTH_STEP,
        )
        for i, j in at
    ]
    return Places.of(PlaceKind.ZONES, [f"c{i:03d}-{j:03d}" for i, j in at], np.array(boxes))


def taxis(
    people: int, side: int, seed: int, grid: TimeGrid | None = None, further: float = 4.0
) -> Population:
    """Few people who are seen all day, at many places an hour."""
    rng, grid = np.random.default_rng([seed, 77]), grid or slots_of(7)
    at = np.stack(np.divmod(np.arange(side * side), side)) - (side - 1) / 2
    weight = np.exp(-3.0 * np.hypot(*at) / (side / 2) + 1.5 * rng.standard_normal(side * side))
    share = np.interp(rng.random(people), np.linspace(0, 1, len(CAB_HOURS)), CAB_HOURS) / 168
    hours = (grid.edges[:-1] - grid.edges[0]) // 3_600_000_000
    on = rng.random((people, grid.slots)) < np.array(CAB_DAY)[hours % 24] * share[:, None]
    user, slot = np.nonzero(on)
    length = float(grid.edges[1] - grid.edges[0]) / 3.6e9
    busy = np.square(np.array(CAB_DAY))[hours % 24]
    seen = 1 + rng.poisson(further * length * busy[slot])
    first = np.repeat(rng.choice(weight.size, user.size, p=weight / weight.sum()), seen)
    steps = np.rint(rng.normal(0.0, 1.5, (2, first.size))).astype(np.int64)
    row, column = (
        np.clip(one + step, 0, side - 1)
        for one, step in zip(np.divmod(first, side), steps, strict=True)
    )
    user, slot = np.repeat(user, seen), np.repeat(slot, seen)
    return in_zones("taxis", cells(side), grid, user, slot, row * side + column)


def check_ins(
    people: int,
    side: int,
    seed: int,
    grid: TimeGrid | None = None,
    law: str = "zipf",
    mean: float = 3.8,
) -> Population:
    """Many people who are seen hardly ever, and a few who are seen often."""
    rng, grid = np.random.default_rng([seed, 78]), grid or slots_of(7)
    luck = rng.random(people)
    if law == "zipf":
        many = np.minimum((1.0 - luck) ** (-1 / 1.25), 400.0) * mean / 3.8
    else:
        many = np.exp(np.log(mean) - 1.5**2 / 2 + 1.5 * rng.standard_normal(people))
    visits = np.maximum(np.floor(many + rng.random(people)), 1).astype(np.int64)
    zipf = 1.0 / (1.0 + rng.permutation(side * side))
    zipf /= zipf.sum()
    own = rng.choice(zipf.size, (people, 3), p=zipf)
    user = np.repeat(np.arange(people), visits)
    habit = own[user, rng.integers(0, 3, user.size)]
    elsewhere = rng.choice(zipf.size, user.size, p=zipf)
    place = np.where(rng.random(user.size) < 0.6, habit, elsewhere)
    hour = np.arange(24)
    day = 0.03 + np.exp(-np.square((hour - 13) / 2.5)) + 1.5 * np.exp(-np.square((hour - 19) / 3.0))
    at = (grid.edges[:-1] - grid.edges[0]) // 3_600_000_000
    rhythm = day[at % 24] * np.array((0.8, 0.8, 0.9, 1.0, 1.4, 1.6, 1.2))[(at // 24) % 7]
    slot = rng.choice(grid.slots, user.size, p=rhythm / rhythm.sum())
    return in_zones("check-ins", cells(side), grid, user, slot.astype(np.int64), place)
