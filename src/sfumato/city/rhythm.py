"""Rhythms of a synthetic population: when people are active, where they then are, and how often.

*When and where*: by kind of person, kind of day and hour. Everything is tabulated per slot of the
period, so clock changes need no care elsewhere: the slot's local hour and weekday decide.

*How many tower-hours a user has*: heavy-tailed, as Acs & Castelluccia 2014 report it. Their users
have 13.55 distinct (tower, hour) pairs a week on average, standard deviation
18.33, and 732 at most. A negative binomial with that mean and deviation (r = .569,
p = .0403) gives 16 % of users no record at all and, among two million, a maximum near
350. A log-normal rounded up to whole pairs and truncated at 732 gives everybody at least
one, both moments, and the maximum: that is what is drawn, with its two parameters solved
so that the *truncated, rounded* law has the mean and deviation exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root
from scipy.special import ndtr

from sfumato.model.time_grid import TimeGrid

WEEK_MEAN = 13.55
WEEK_SD = 18.33
WEEK_MAX = 732


def tower_hour_law(mean: float, slots: int, towers: int) -> NDArray[np.float64]:
    """Cumulative probabilities of 1, 2, ... tower-hours; deviation and cap follow the mean.

    Nobody has more than half of all pairs there are, nor more than 732 a week, pro rata.
    """
    most = min(WEEK_MAX * mean / WEEK_MEAN, WEEK_MAX * slots / 168, slots * towers / 2)
    cap = max(8, round(most))
    deviation = WEEK_SD * mean / WEEK_MEAN
    spread = math.sqrt(math.log1p((deviation / mean) ** 2))
    guess = np.array([math.log(mean) - spread**2 / 2, spread])

    def miss(parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        weights = np.diff(_law(parameters, cap), prepend=0.0)
        values = np.arange(1, cap + 1)
        centre = weights @ values
        return np.array([centre - mean, math.sqrt(weights @ (values - centre) ** 2) - deviation])

    found = root(miss, guess, tol=1e-10)
    return _law(found.x if found.success else guess, cap)


def _law(parameters: NDArray[np.float64], cap: int) -> NDArray[np.float64]:
    below = ndtr((np.log(np.arange(1, cap + 1)) - parameters[0]) / abs(parameters[1]))
    return np.asarray(below / below[-1], dtype=np.float64)


class Kind(IntEnum):
    WORKER = 0
    STUDENT = 1
    AT_HOME = 2
    NIGHT_WORKER = 3
    ROAMER = 4
    """Couriers and drivers: on the road all day, and most of the heaviest users."""


class Whereabouts(IntEnum):
    HOME = 0
    WORK = 1
    LEISURE = 2
    TRANSIT = 3
    ROAD = 4


KIND_SHARES = np.array([0.52, 0.19, 0.25, 0.03, 0.01])

# Relative activity from 00:00 to 23:00; least at 04:00.
_WEEKDAY = [.20, .12, .08, .06, .045, .07, .19, .48, .80, .92, .96, 1.02,
            1.08, 1.00, .96, .98, 1.04, 1.18, 1.30, 1.22, 1.06, .90, .66, .40]  # fmt: skip
_SATURDAY = [.34, .24, .16, .10, .05, .06, .10, .20, .38, .60, .80, .92,
             1.00, .98, .96, .98, 1.00, 1.04, 1.10, 1.06, .98, .90, .78, .60]  # fmt: skip
_SUNDAY = [.44, .32, .20, .11, .05, .055, .08, .14, .26, .44, .62, .76,
           .84, .80, .76, .78, .84, .92, 1.00, 1.02, .94, .78, .54, .32]  # fmt: skip

# Probability of being at work, out, and on the way, per hour of a weekday and of a weekend.
_WORK_DAY = [0] * 6 + [.03, .15, .48, .78, .84, .84, .62, .74, .84, .83, .74, .48, .22, .10,
                       .05, .03, .01, 0]  # fmt: skip
_WORK_WEEKEND = (
    [0] * 8 + [0.04, 0.08, 0.10, 0.10, 0.08, 0.09, 0.10, 0.10, 0.09, 0.06, 0.04, 0.02] + [0] * 4
)
_OUT_DAY = [.06, .04, .02, .01, 0, 0, 0, 0, .02, .03, .04, .06, .24, .14, .05, .05, .07,
            .13, .24, .32, .36, .32, .24, .13]  # fmt: skip
_OUT_SATURDAY = [.20, .16, .12, .06, .02, .01, 0, .01, .04, .12, .22, .30, .32, .34, .40, .44,
                 .44, .40, .38, .42, .48, .50, .46, .36]  # fmt: skip
_OUT_SUNDAY = [.30, .24, .16, .08, .02, .01, 0, .01, .03, .08, .16, .24, .28, .28, .32, .34,
               .32, .26, .20, .18, .16, .12, .08, .05]  # fmt: skip
_WAY_DAY = [.02, .01, 0, 0, .01, .04, .14, .34, .34, .12, .06, .05, .07, .07, .05, .06, .11,
            .27, .34, .20, .10, .07, .06, .04]  # fmt: skip
_WAY_WEEKEND = [.05, .04, .02, .01, .01, .01, .02, .03, .06, .09, .12, .13, .12, .12, .13, .13,
                .13, .14, .14, .12, .10, .08, .08, .07]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rhythm:
    """Per kind of person and slot: cumulative activity, and cumulative whereabouts."""

    when: NDArray[np.float64]
    """kinds x slots, each row rising to 1."""
    where: NDArray[np.float64]
    """kinds x slots x whereabouts, each rising to 1."""
    local_hour: NDArray[np.int64]
    day: NDArray[np.int64]
    """Day of the period, from 0."""


def rhythm_of(grid: TimeGrid) -> Rhythm:
    """The tables for the hourly slots of a grid in its own zone."""
    starts = grid.starts()
    hour = np.array([s.hour for s in starts])
    weekday = np.array([s.weekday() for s in starts])
    first = starts[0].date()
    day = np.array([(s.date() - first).days for s in starts])
    sort = np.where(weekday < 5, 0, weekday - 4)

    def pick(*tables: list[float]) -> NDArray[np.float64]:
        return np.asarray(np.array(tables)[sort, hour], dtype=np.float64)

    level = pick(_WEEKDAY, _SATURDAY, _SUNDAY)
    # Friday and Saturday evenings run late; the night after them belongs to the next day.
    level = np.where((weekday == 4) & (hour >= 21), level * 1.35, level)
    work = pick(_WORK_DAY, _WORK_WEEKEND, [0.6 * p for p in _WORK_WEEKEND])
    out = pick(_OUT_DAY, _OUT_SATURDAY, _OUT_SUNDAY)
    out = np.where((weekday == 4) & (hour >= 20), np.minimum(0.55, out * 1.5), out)
    way = pick(_WAY_DAY, _WAY_WEEKEND, _WAY_WEEKEND)
    school = np.where((hour >= 8) & (hour < 17), 1.08 * work, 0.25 * work)
    school = np.where(sort == 0, school, 0.0)
    idle_out = np.where((hour >= 9) & (hour < 19), 0.28, 0.4 * out)
    night = np.where((hour >= 22) | (hour < 6), 0.75, 0.06)
    night = np.where(sort == 2, 0.3 * night, night)

    when = np.empty((len(Kind), grid.slots))
    where = np.zeros((len(Kind), grid.slots, len(Whereabouts)))
    _fill(where, Kind.WORKER, work, out, way)
    _fill(where, Kind.STUDENT, school, 1.15 * out, way)
    _fill(where, Kind.AT_HOME, 0 * work, idle_out, 0.35 * way)
    _fill(where, Kind.NIGHT_WORKER, night, 0.5 * out, 0.5 * way)
    _fill(where, Kind.ROAMER, 0 * work, 0.5 * out, 0 * way)
    on_road = np.where((hour >= 6) & (hour < 23), 0.85, 0.25)
    where[Kind.ROAMER] *= (1 - on_road)[:, None]
    where[Kind.ROAMER, :, Whereabouts.ROAD] = on_road
    when[:] = level
    when[Kind.AT_HOME] = level * np.where((hour >= 7) & (hour < 21), 1.0, 0.7)
    when[Kind.NIGHT_WORKER] = level + 0.25
    when[Kind.ROAMER] = level + 0.15
    return Rhythm(
        when=np.cumsum(when, axis=1) / when.sum(axis=1, keepdims=True),
        where=np.cumsum(where, axis=2),
        local_hour=hour,
        day=day,
    )


def _fill(
    where: NDArray[np.float64],
    kind: Kind,
    work: NDArray[np.float64],
    out: NDArray[np.float64],
    way: NDArray[np.float64],
) -> None:
    """Being on the way comes first; work and leisure share what it leaves; the rest is home."""
    way = np.minimum(way, 0.9)
    away = np.maximum(1.0, work + out)
    where[kind, :, Whereabouts.TRANSIT] = way
    where[kind, :, Whereabouts.WORK] = (1 - way) * work / away
    where[kind, :, Whereabouts.LEISURE] = (1 - way) * out / away
    where[kind, :, Whereabouts.HOME] = 1 - where[kind].sum(axis=1)
