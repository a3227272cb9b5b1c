"""Known rhythms: an orthonormal basis of what a city is expected to do with the clock.

Weekday against weekend, single days that differ, and waves of the day (24 h, 12 h, …), the
same for all days and apart for weekends, each under the envelope of the city's own activity.
The basis is built from the public calendar and noisy totals; features that the period does
not have (no weekend in it, one slot a day) drop out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar

WAVES = 4
_INDEPENDENT = 1e-6


def rhythm_basis(calendar: Calendar, envelope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slots x features, orthonormal columns, at most half as many as there are slots."""
    slots = calendar.hour.size
    weekend = calendar.weekend.astype(np.float64)
    features = [weekend, calendar.weekday == 5, calendar.weekday == 4]
    waves = min(WAVES, int((calendar.slots_per_day - 1) // 2))
    for order in range(1, waves + 1):
        angle = 2 * np.pi * order * calendar.hour / 24
        for wave in (np.cos(angle), np.sin(angle)):
            features += [wave, weekend * wave]
    columns: list[NDArray[np.float64]] = []
    for feature in features:
        column = np.asarray(feature, dtype=np.float64) * envelope
        size = np.linalg.norm(column)
        for known in columns:  # Gram-Schmidt, twice is enough for rounding
            column = column - known * (known @ column)
        for known in columns:
            column = column - known * (known @ column)
        rest = np.linalg.norm(column)
        if size > 0 and rest > _INDEPENDENT * size and len(columns) < slots // 2:
            columns.append(column / rest)
    return np.column_stack(columns) if columns else np.zeros((slots, 0))
