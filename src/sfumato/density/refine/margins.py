"""Margins: totals of places and of slots, cleaned before anything is built on them.

Both are noisy and cheap to measure well. Place totals go through the spatial filter; slot
totals are drawn towards the mean of the same time of day on days of the same kind, as far
as their noise asks for it. Floors are public levels, so that no power of a noisy total
explodes. Post-processing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar
from sfumato.density.refine.spatial import SpatialFilter

Vector = NDArray[np.float64]
PLACE_FLOOR = 0.02
SLOT_FLOOR = 0.001
"""Least total of a place and of a slot, as a share of the mean."""


def clean_places(
    noisy: Vector, noise_variance: float, places: SpatialFilter, shares: Vector | None = None
) -> Vector:
    """Place totals around what is expected through the filter, at least `PLACE_FLOOR` of the mean.

    Expected is the mean, or the `shares` of each place that earlier releases found.
    """
    mean = max(float(noisy.mean()), 1e-9)
    expected = np.full(noisy.size, mean) if shares is None else shares * (mean * noisy.size)
    found = expected + places.apply(noisy - expected, noise_variance).mean
    return np.maximum(found, PLACE_FLOOR * mean)


def clean_slots(
    noisy: Vector, noise_variance: float, calendar: Calendar, shares: Vector | None = None
) -> Vector:
    """Slot totals drawn towards the mean of their time of day and kind of day, or towards the
    `shares` of each slot that earlier releases found.

    The variance around it beyond that of the noise is real; James and Stein's estimate of it,
    pooled over all slots relative to their level, decides how far each slot moves.
    """
    floor = SLOT_FLOOR * max(float(noisy.mean()), 1e-9)
    if shares is not None:
        expected = shares * max(float(noisy.sum()), 1e-9)
        free = np.full(noisy.size, 1.0 - 1.0 / noisy.size)
    else:
        group = calendar.same_time_of_day
        size = np.bincount(group).astype(np.float64)
        expected = (np.bincount(group, noisy) / size)[group]
        free = 1.0 - 1.0 / size[group]
    away = noisy - expected
    level = np.square(np.maximum(expected, floor))
    if float(free.sum()) > 0:
        excess = float((np.square(away) - noise_variance * free).sum())
        relative = max(excess, 0.0) / max(float((level * free).sum()), 1e-300)
        away = away * (relative * level) / (relative * level + noise_variance)
    return np.maximum(expected + away, floor)
