"""One-off crowds: a match, a march, a concert, and how much of them to believe.

A crowd that comes once is seen in the matrix only, and there at the weight of its members. If
they are people like any other, and not as often heavy callers as the visits of an ordinary hour
are, they are weighted down less than everybody around them, and the crowd comes out too large:
by an eighth to a fifth in trials. Scaling a whole row or column to its total repairs that at the
cost of the ordinary hours of the place. Instead the excess alone is scaled, by the factor that
brings the totals of its place and of its slots, which are measured apart and bounded far less,
into line; held back by what is possible at all: between 1 (the crowd is as active as anybody)
and the ratio of mean weights of visits and of people. Post-processing of noisy numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar

Table = NDArray[np.float64]
Vector = NDArray[np.float64]
LEAST_DAYS = 4
"""Days needed to tell what is ordinary at a time of day."""
_SURE = 8.0
"""An excess counts as a crowd from this many standard deviations of its cell."""
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


def ordinary(table: Table, calendar: Calendar) -> Table:
    """What a cell holds on other days at that time: the median of its share of the slot."""
    slots = np.maximum(table.sum(axis=0), 1e-9)
    share = table / slots
    clock = np.rint(calendar.hour * 12).astype(np.int64)
    usual = np.empty_like(table)
    for time in np.unique(clock):
        same = clock == time
        usual[:, same] = np.median(share[:, same], axis=1, keepdims=True)
    usual *= slots
    return usual


def temper_crowds(
    table: Table,
    sd: Table,
    places: tuple[Vector, Vector],
    slots: tuple[Vector, Vector],
    calendar: Calendar,
    thinnest: Table,
) -> Crowds:
    """Scale the excess of one-off crowds to what the margins leave room for.

    `places` and `slots` are totals and their standard deviations; `thinnest` is the factor of
    a crowd that came regardless of how active its members are, for each cell.
    """
    nothing = Crowds(table, np.zeros(table.shape, dtype=bool), np.zeros(table.shape))
    if np.unique(calendar.day).size < LEAST_DAYS:
        return nothing
    usual = ordinary(table, calendar)
    excess = table - usual
    found = (excess > _SURE * sd) & (excess > _LARGE * usual)
    if not found.any():
        return nothing
    crowd = np.where(found, excess, 0.0)
    rest = table - crowd
    low = float(np.average(thinnest[found], weights=crowd[found]))
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
