"""Small hours pooled over days: where a night is too thin to have a map of its own.

Between midnight and seven a slot holds a tenth of a day slot's visits and the same noise. People
are where they sleep, and that is much the same on every night of like days and an hour earlier or
later. So each night slot's map is mixed with the pooled one; its total stays. Post-processing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar

Table = NDArray[np.float64]
NIGHT_END = 7.0
OWN = 0.4
"""Weight of a slot's own map against the pooled one."""


def pool_nights(table: Table, calendar: Calendar, own: float = OWN) -> Table:
    """Mix the map of each night slot with that of the same time, an hour around, on like days."""
    totals = table.sum(axis=0)
    result = table.copy()
    apart = np.abs(calendar.hour[:, None] - calendar.hour[None])
    near = np.minimum(apart, 24.0 - apart) <= 1.0 + 1e-9
    alike = near & (calendar.weekend[:, None] == calendar.weekend[None])
    for slot in np.flatnonzero(calendar.hour < NIGHT_END):
        pooled = table[:, alike[slot]].sum(axis=1)
        mass = pooled.sum()
        if mass > 0:
            result[:, slot] = own * table[:, slot] + (1 - own) * totals[slot] * pooled / mass
    return result
