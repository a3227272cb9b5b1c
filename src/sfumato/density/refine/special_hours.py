"""Small hours and one-off crowds: the hours in which a noisy table needs help. Post-processing.

**Small hours pooled over days** (`pool_nights`), where a night is too thin to have a map of its
own. Between midnight and seven a slot holds a tenth of a day slot's visits and the same noise.
People are where they sleep, and that is much the same on every night of like days and an hour
earlier or later. So each night slot's map is mixed with the pooled one; its total stays.

**Small hours smoothed with exponential curves** (Acs & Castelluccia 2014, section 5.4.2). Every
day, counts fall from midnight to about four and rise until six. Where they are
small, noise dominates, so each fall and each rise is replaced by the curve a * exp(b x)
that fits it best in least squares. All zones and days are fitted at once by a damped
Gauss-Newton iteration on 2 x 2 systems.

**One-off crowds**: a match, a march, a concert, and how much of them to believe. A crowd that comes
once is seen in the matrix only, and there at the weight of its members. If they are people like any
other, and not as often heavy callers as the visits of an ordinary hour
are, they are weighted down less than everybody around them, and the crowd comes out too large:
by an eighth to a fifth in trials. Scaling a whole row or column to its total repairs that at the
cost of the ordinary hours of the place. Instead the excess alone is scaled, by the factor that
brings the totals of its place and of its slots, which are measured apart and bounded far less,
into line; held back by what is possible at all: between 1 (the crowd is as active as anybody)
and the ratio of mean weights of visits and of people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.tiles import is_large, tiles
from sfumato.model.time_grid import HourCalendar

Table = NDArray[np.float64]
NIGHT_END = 7.0
OWN = 0.4
"""Weight of a slot's own map against the pooled one. Where pooling helps and where it no longer
does: docs/decisions/bayes.md, "Weak signals"."""


def pool_nights(
    table: Table, calendar: HourCalendar, own: float = OWN, out: Table | None = None
) -> Table:
    """Mix the map of each night slot with that of the same time, an hour around, on like days.

    `out` may be the table itself, whose other slots then stay where they are.
    """
    if is_large(table.shape):
        return _pool_tiles(table, calendar, own, np.empty_like(table) if out is None else out)
    totals = table.sum(axis=0)
    night = np.flatnonzero(calendar.hour < NIGHT_END)
    kinds = np.column_stack((calendar.hour, calendar.weekend))[night]
    mixed: list[tuple[NDArray[np.int64], Table]] = []
    # Slots of one time and kind of day have one pool: a year of hours has fourteen of them.
    for hour, weekend in np.unique(kinds, axis=0):
        apart = np.abs(hour - calendar.hour)
        near = np.minimum(apart, 24.0 - apart) <= 1.0 + 1e-9
        pooled = table[:, near & (calendar.weekend == weekend)].sum(axis=1)
        mass = pooled.sum()
        if mass > 0:
            slots = night[(kinds == (hour, weekend)).all(axis=1)]
            other = ((1 - own) * totals[slots]) * pooled[:, None] / mass
            mixed.append((slots, own * table[:, slots] + other))
    result = table.copy() if out is None else out
    for slots, maps in mixed:
        result[:, slots] = maps
    return result


def _pool_tiles(table: Table, calendar: HourCalendar, own: float, out: Table) -> Table:
    """The same tile by tile, as products: the pools of a place are its row times slots x kinds, and
    what they give to the night slots is that times kinds x slots."""
    night = np.flatnonzero(calendar.hour < NIGHT_END)
    stamps = np.column_stack((calendar.hour, calendar.weekend)).astype(np.float64)
    kinds, which = np.unique(stamps[night], axis=0, return_inverse=True)
    apart = np.abs(stamps[:, :1] - kinds[:, 0])
    near = np.minimum(apart, 24.0 - apart) <= 1.0 + 1e-9
    member = (near & (stamps[:, 1:] == kinds[:, 1])).astype(table.dtype)
    parts = tiles(table.shape)
    pools = np.concatenate([table[rows] @ member for rows in parts])
    totals = sum((table[rows][:, night].sum(axis=0) for rows in parts), np.zeros(night.size))
    mass = pools.sum(axis=0, dtype=np.float64)
    given = np.zeros((kinds.shape[0], night.size), dtype=table.dtype)
    mixed = mass[which.ravel()] > 0
    given[which.ravel(), np.arange(night.size)] = np.where(
        mixed, (1 - own) * totals / np.maximum(mass[which.ravel()], 1e-300), 0.0
    )
    kept = np.where(mixed, own, 1.0).astype(table.dtype)
    for rows in parts:
        maps = table[rows][:, night] * kept
        maps += pools[rows] @ given
        if out is not table:
            out[rows] = table[rows]
        out[rows, night] = maps
    return out


FALL = (0.0, 4.0)
RISE = (4.0, 6.0)
"""Local hours of slot starts, both ends included; where both claim a slot their mean counts."""
_STEEPEST = 4.0
"""Largest |b| of a curve a * exp(b x), so that the iteration cannot run away."""


def fit_exponentials(
    x: NDArray[np.float64], y: NDArray[np.float64], rounds: int = 40
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a and b of the best a * exp(b x) for each row of y, in least squares.

    Starts from the log-linear fit weighted by squared counts and never ends worse than
    it. Rows without a positive value get a = 0.
    """
    top = y.max(axis=1, initial=0.0)
    usable = top > 0
    scale = np.where(usable, top, 1.0)
    target = y / scale[:, None]
    floor = np.maximum(target, 1e-3)
    weight = np.square(floor)
    mean_x = (weight * x).sum(axis=1) / weight.sum(axis=1)
    log_y = np.log(floor)
    mean_y = (weight * log_y).sum(axis=1) / weight.sum(axis=1)
    away = x - mean_x[:, None]
    slope_below = np.maximum((weight * away * away).sum(axis=1), 1e-300)
    b = (weight * away * (log_y - mean_y[:, None])).sum(axis=1) / slope_below
    b = np.clip(b, -_STEEPEST, _STEEPEST)
    a = np.exp(mean_y - b * mean_x)
    damping = np.full(a.size, 1e-2)

    def loss(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        fitted = a[:, None] * np.exp(b[:, None] * x)
        result: NDArray[np.float64] = np.square(target - fitted).sum(axis=1)
        return result

    best = loss(a, b)
    for _ in range(rounds):
        curve = np.exp(b[:, None] * x)
        rest = target - a[:, None] * curve
        da, db = curve, a[:, None] * x * curve
        aa = (da * da).sum(axis=1) * (1 + damping)
        bb = (db * db).sum(axis=1) * (1 + damping) + 1e-12
        ab = (da * db).sum(axis=1)
        ra, rb = (da * rest).sum(axis=1), (db * rest).sum(axis=1)
        determinant = np.maximum(aa * bb - ab * ab, 1e-30)
        next_a = a + (bb * ra - ab * rb) / determinant
        next_b = np.clip(b + (aa * rb - ab * ra) / determinant, -_STEEPEST, _STEEPEST)
        next_a = np.clip(next_a, 0.0, 1e6)
        trial = loss(next_a, next_b)
        better = trial < best
        a, b = np.where(better, next_a, a), np.where(better, next_b, b)
        best = np.where(better, trial, best)
        damping = np.where(better, damping / 3, np.minimum(damping * 4, 1e8))
    return np.where(usable, a * scale, 0.0), np.where(usable, b, 0.0)


def smooth_nights(table: NDArray[np.float64], starts: list[datetime]) -> NDArray[np.float64]:
    """The table with each night's fall and rise replaced by fitted curves.

    `starts` are the local starts of the slots. A segment with fewer than three slots (a
    grid of long slots, or a night cut by the period) has nothing to smooth and stays.
    """
    hours = np.array([s.hour + s.minute / 60 + s.second / 3600 for s in starts])
    days = np.array([s.toordinal() for s in starts])
    replaced = np.zeros(table.shape)
    claims = np.zeros(table.shape[1])
    for low, high in (FALL, RISE):
        inside = (hours >= low) & (hours <= high)
        for columns in _segments(inside, days):
            x = hours[columns[0]] - low
            y = np.concatenate([table[:, c] for c in columns])
            a, b = fit_exponentials(x, y)
            fitted = a[:, None] * np.exp(b[:, None] * x)
            for piece, c in zip(np.split(fitted, len(columns)), columns, strict=True):
                replaced[:, c] += piece
                claims[c] += 1
    result: NDArray[np.float64] = np.where(claims > 0, replaced / np.maximum(claims, 1), table)
    return result


def _segments(inside: NDArray[np.bool_], days: NDArray[np.int64]) -> list[list[NDArray[np.int64]]]:
    """Slots of each day's segment, grouped so that days of one length are fitted together."""
    by_length: dict[int, list[NDArray[np.int64]]] = {}
    for day in np.unique(days[inside]):
        columns = np.flatnonzero(inside & (days == day))
        if columns.size >= 3:
            by_length.setdefault(columns.size, []).append(columns)
    return list(by_length.values())


Vector = NDArray[np.float64]
LEAST_DAYS = 4
"""Days needed to tell what is ordinary at a time of day."""
_SURE = 8.0
"""An excess counts as a crowd from this many standard deviations of its cell. Tempered, a match of
30,000 came out 6 % too large at epsilon 0.3 instead of 13 %, and 8 % at 1 instead of 20 %
(docs/decisions/bayes.md, "One-off crowds")."""
_LARGE = 1.5
"""… and from this multiple of the ordinary count."""
_DISAGREE = 0.05
"""Relative error of an ordinary total against the margins, from bounding alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Crowds:
    """The table with its crowds tempered, where they are, and the error left in them."""

    table: Table
    found: NDArray[np.bool_]
    sd: Table


def ordinary(table: Table, calendar: HourCalendar, totals: Vector | None = None) -> Table:
    """What a cell holds on other days at that time: the median of its share of the slot.

    `totals` are those of the slots, where the table is a part of them.
    """
    slots = np.maximum(table.sum(axis=0) if totals is None else totals, 1e-9)
    share = table / slots
    clock = np.rint(calendar.hour * 12).astype(np.int64)
    usual = np.empty_like(table)
    for time in np.unique(clock):
        same = clock == time
        usual[:, same] = np.median(share[:, same], axis=1, keepdims=True)
    usual *= slots
    return usual


def temper_crowds(
    table: NDArray[Any],
    sd: NDArray[Any],
    places: tuple[Vector, Vector],
    slots: tuple[Vector, Vector],
    calendar: HourCalendar,
    thinnest: Callable[[NDArray[np.bool_]], Vector],
) -> Crowds:
    """Scale the excess of one-off crowds to what the margins leave room for.

    `places` and `slots` are totals and their standard deviations; `thinnest` gives the
    factor of a crowd that came regardless of how active its members are, for these cells.
    """
    nothing = Crowds(table, np.zeros(table.shape, dtype=bool), np.zeros(table.shape))
    if np.unique(calendar.day).size < LEAST_DAYS:
        return nothing
    totals, found = table.sum(axis=0), nothing.found
    for rows in tiles(table.shape):
        usual = ordinary(table[rows], calendar, totals)
        excess = table[rows] - usual
        found[rows] = (excess > _SURE * sd[rows]) & (excess > _LARGE * usual)
    if not found.any():
        return nothing
    crowd = np.where(found, table - ordinary(table, calendar), 0.0)
    rest = table - crowd
    low = float(np.average(thinnest(found), weights=crowd[found]))
    factor = np.ones(table.shape)
    left = np.zeros(table.shape)
    evidence = [
        _room(places, crowd.sum(axis=1), rest.sum(axis=1)),
        _room(slots, crowd.sum(axis=0), rest.sum(axis=0)),
    ]
    precision = np.full(table.shape, 1.0 / max((1.0 - low) / 2, 1e-3) ** 2)
    centre = precision * (1.0 + low) / 2
    for (value, weight), axis in zip(evidence, (1, 0), strict=True):
        precision = precision + np.expand_dims(weight, axis)
        centre = centre + np.expand_dims(weight * value, axis)
    factor[found] = np.clip(centre[found] / precision[found], low, 1.0)
    left[found] = crowd[found] / np.sqrt(precision[found])
    return Crowds(rest + crowd * factor, found, left)


def _room(margin: tuple[Vector, Vector], crowd: Vector, rest: Vector) -> tuple[Vector, Vector]:
    """For each line: the factor at which it agrees with its total, and that factor's precision.

    Lines without a crowd say nothing. The rest of the table is brought to the margins' level by
    the lines that have none.
    """
    total, sd = margin
    plain = crowd == 0.0
    level = float(total[plain].sum() / max(float(rest[plain].sum()), 1e-9)) if plain.any() else 1.0
    size = np.maximum(crowd * level, 1e-9)
    value = (total - rest * level) / size
    error = np.hypot(sd, _DISAGREE * rest * level) / size
    return value, np.where(plain, 0.0, 1.0 / np.square(np.maximum(error, 1e-6)))
