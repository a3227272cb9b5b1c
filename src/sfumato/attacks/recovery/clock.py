"""`Clock`: to which day each slot belongs, and whether it is night.

Night is midnight to six by the local clock (Xu et al. 2017): people stay then, and a step is
judged by its distance alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.model.time_grid import TimeGrid

NIGHT_ENDS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """`day[t]` counts up from 0; `night[t]` says whether slot t begins before six."""

    day: NDArray[np.int64]
    night: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.day.shape != self.night.shape or not self.day.size:
            raise UsageError("A clock has a day and a night flag for every slot.")
        if self.day[0] != 0 or not np.isin(np.diff(self.day), (0, 1)).all():
            raise UsageError("Days count up from the first slot, without gaps.")

    @classmethod
    def of(cls, grid: TimeGrid) -> Clock:
        """The clock of a grid, by its own time zone."""
        starts = grid.starts()
        _, day = np.unique([start.toordinal() for start in starts], return_inverse=True)
        hours = np.array([start.hour for start in starts])
        return cls(day.astype(np.int64), hours < NIGHT_ENDS)

    @classmethod
    def plain(cls, days: int, slots: int, first_hour: float = 0.0, step: float = 1.0) -> Clock:
        """`days` days of `slots` readings each, `step` hours apart from `first_hour` on."""
        hours = np.tile(first_hour + step * np.arange(slots), days) % 24
        return cls(np.repeat(np.arange(days), slots), hours < NIGHT_ENDS)

    @property
    def slots(self) -> int:
        return int(self.day.size)

    @property
    def days(self) -> list[NDArray[np.int64]]:
        """The slots of each day."""
        return np.split(np.arange(self.slots), np.flatnonzero(np.diff(self.day)) + 1)

    def first(self, slots: int) -> Clock:
        """The clock of the first slots only."""
        return Clock(self.day[:slots], self.night[:slots])
