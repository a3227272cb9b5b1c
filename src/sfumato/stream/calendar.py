"""`Calendar`: which day each slot belongs to, where in the day it is, and whether that day is free.

All of it is public: it follows from the time grid alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.model.time_grid import TimeGrid


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """For every slot: `day` (0, 1, …), `phase` (slot of the day) and `free` (a weekend day)."""

    day: NDArray[np.int64]
    phase: NDArray[np.int64]
    free: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not self.day.size or not (self.day.shape == self.phase.shape == self.free.shape):
            raise UsageError("A calendar needs at least one slot.")
        for array in (self.day, self.phase, self.free):
            array.setflags(write=False)

    @classmethod
    def of(cls, grid: TimeGrid) -> Calendar:
        """The local days of a grid. Steps of a day or more are phase 0 throughout.

        Where a clock is set back over midnight, the grid's new day has begun at the first one
        and goes on: a day that came back would have its budget twice.
        """
        dates: list[date] = [start.date() for start in grid.starts()]
        read = np.array([(when - dates[0]).days for when in dates], dtype=np.int64)
        day = np.maximum.accumulate(read)
        first = np.searchsorted(day, day)
        free = (day + dates[0].weekday()) % 7 >= 5
        return cls(day, np.arange(day.size) - first, free)

    @classmethod
    def regular(cls, slots: int, per_day: int, first_weekday: int = 0) -> Calendar:
        """Days of equally many slots, the first one a Monday (0) unless said otherwise."""
        slot = np.arange(slots)
        day = slot // per_day
        return cls(day, slot % per_day, (day + first_weekday) % 7 >= 5)

    @property
    def slots(self) -> int:
        return int(self.day.size)

    @property
    def longest_day(self) -> int:
        """The most slots of any day."""
        return int(self.phase.max()) + 1
