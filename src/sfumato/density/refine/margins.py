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


def clean_places(noisy: Vector, noise_variance: float, places: SpatialFilter) -> Vector:
    """Place totals around their mean through the filter, at least `PLACE_FLOOR` of the mean."""
    mean = max(float(noisy.mean()), 1e-9)
    found = mean + places.apply(noisy - mean, noise_variance).mean
    return np.maximum(found, PLACE_FLOOR * mean)


def clean_slots(noisy: Vector, noise_variance: float, calendar: Calendar) -> Vector:
    """Slot totals drawn towards the mean of their time of day and kind of day.

    The variance within a group beyond that of the noise is real; James and Stein's estimate
    of it, pooled over all groups relative to their level, decides how far each slot moves.
    """
    group = calendar.same_time_of_day
    size = np.bincount(group).astype(np.float64)
    mean = np.bincount(group, noisy) / size
    away = noisy - mean[group]
    level = np.square(np.maximum(mean, SLOT_FLOOR * max(float(noisy.mean()), 1e-9)))[group]
    spare = float((1 - 1 / size[group]).sum())
    if spare > 0:
        excess = float((np.square(away) - noise_variance * (1 - 1 / size[group])).sum())
        relative = max(excess, 0.0) / max(float((level * (1 - 1 / size[group])).sum()), 1e-300)
        away = away * (relative * level) / (relative * level + noise_variance)
    floor = SLOT_FLOOR * max(float(noisy.mean()), 1e-9)
    return np.maximum(mean[group] + away, floor)
