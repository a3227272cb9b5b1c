"""The public calendar of a grid: hour of day, day, and kind of day of every slot.

Everything known about rhythms before any data is seen hangs on these: what repeats from
day to day, from weekday to weekday, from weekend to weekend.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """Arrays over slots. `hour` is the local hour of the slot's middle, 0 to 24."""

    hour: NDArray[np.float64]
    length: NDArray[np.float64]
    """Length of each slot in hours."""
    day: NDArray[np.int64]
    """Day of the period, from 0."""
    weekday: NDArray[np.int64]
    """Monday is 0."""
    at: NDArray[np.float64]
    """Hours since the start of the period, of the slot's middle."""

    @classmethod
    def of(cls, starts: list[datetime], ends: list[datetime]) -> Calendar:
        """From the local starts and ends of the slots."""
        first = starts[0]
        length = np.array(
            [(e - s).total_seconds() / 3600 for s, e in zip(starts, ends, strict=True)]
        )
        clock = np.array([s.hour + s.minute / 60 + s.second / 3600 for s in starts])
        return cls(
            hour=np.mod(clock + length / 2, 24.0),
            length=length,
            day=np.array([(s.date() - first.date()).days for s in starts]),
            weekday=np.array([s.weekday() for s in starts]),
            at=np.array([(s - first).total_seconds() / 3600 for s in starts]) + length / 2,
        )

    @property
    def weekend(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.weekday >= 5
        return found

    @property
    def slots_per_day(self) -> float:
        return float(24.0 / np.median(self.length))

    @property
    def same_time_of_day(self) -> NDArray[np.int64]:
        """A number for each slot, equal where the time of day and the kind of day are equal."""
        clock = np.rint(self.hour * 12).astype(np.int64)
        _, group = np.unique(clock + 10_000 * self.weekend, return_inverse=True)
        return np.asarray(group, dtype=np.int64)
