"""`CrowdPlan`: the choices behind an urban crowd on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from sfumato.city.plane import Plane
from sfumato.model.errors import UsageError
from sfumato.model.time_grid import zone

STAY_SHARES = (0.32, 0.40, 0.175, 0.082, 0.016, 0.007)
"""Share of people-days with 1, 2, ... 6 stays: mean 2.095, and 97.7 % have at most 4."""


@dataclass(frozen=True, slots=True)
class CrowdPlan:
    """The defaults are the scale of Chen et al., section 7.1, for eight days.

    A slot is one reading of everybody's cell, from `first_hour` on every `step_minutes`.
    """

    people: int = 130_000
    days: int = 8
    """Their dynamic scheme looks back on seven days."""
    slots: int = 19
    first_hour: int = 3
    step_minutes: int = 60
    columns: int = 90
    rows: int = 89
    cell_m: float = 500.0
    seed: int = 1
    start: date = date(2008, 2, 4)
    tz: str = "Asia/Shanghai"
    lon: float = 116.40
    lat: float = 39.91
    speed_kmh: float = 4.0
    """Nobody is ever faster, as the crow flies and from door to door."""

    def __post_init__(self) -> None:
        zone(self.tz)
        limits = {
            "people": (1, 5_000_000),
            "days": (1, 366),
            "slots": (8, 96),
            "step_minutes": (15, 60),
            "columns": (8, 2_000),
            "rows": (8, 2_000),
            "cell_m": (10, 10_000),
            "speed_kmh": (1, 200),
            "seed": (0, (1 << 63) - 1),
            "lon": (-179, 179),
            "lat": (-75, 75),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise UsageError(
                    f"{name.replace('_', '-')} is outside what a crowd can have.",
                    remedy=f"Take a value from {low} to {high}.",
                )
        if not 0 <= 60 * self.first_hour <= 1440 - self.slots * self.step_minutes:
            raise UsageError(
                "The slots of a day must fit between its first hour and midnight.",
                remedy="Take a smaller first hour or fewer slots.",
            )

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    def centres(self) -> NDArray[np.float64]:
        """Longitude and latitude of each cell's centre; cell = row * columns + column."""
        cell = np.arange(self.cells)
        east = (cell % self.columns + 0.5 - self.columns / 2) * self.cell_m
        north = (cell // self.columns + 0.5 - self.rows / 2) * self.cell_m
        return Plane(self.lon, self.lat).to_degrees(np.column_stack([east, north]))
