"""The small made-up world in which schemes are audited: three towers and one day.

Small on purpose: the promise does not depend on the size of the city, and a test on few
numbers needs few runs. The day has enough slots that a user who is always there reaches the
contribution bound: twice l slots for a sample, twice C^2 for weights, so that a bound which is
set too high shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import shapely

from sfumato.model.bound import Bound, SampleBound
from sfumato.model.errors import UsageError
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.audit.pairs import TablePair, table_pairs

_STEPS = (120, 60, 30, 15, 10, 5)  # minutes
_DAY = 24 * 60


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Public towers, zones and slots, and how many slots a sampling bound keeps."""

    places: Places
    grid: TimeGrid
    limit: int
    zones: Places

    @classmethod
    def for_bound(cls, bound: Bound) -> Stage:
        """A day in which the bound bites."""
        wanted = 2 * bound.slots if isinstance(bound, SampleBound) else 2 * bound.limit**2
        step = next((m for m in _STEPS if _DAY // m >= wanted), None)
        if step is None:
            raise UsageError(
                "The contribution bound is too large for the audit's one day.",
                remedy=f"Audit with at most sample:{_DAY // _STEPS[-1] // 2} or weight:12.",
            )
        day = date(2024, 1, 15)
        grid = TimeGrid.between(day, day + timedelta(days=1), timedelta(minutes=step), "UTC")
        ids = ["north", "south", "west"]
        points: list[shapely.Geometry] = [shapely.Point(2.35 + 0.01 * i, 48.85) for i in range(3)]
        limit = bound.slots if isinstance(bound, SampleBound) else grid.slots
        zones: list[shapely.Geometry] = [
            shapely.box(2.34 + 0.01 * i, 48.84, 2.35 + 0.01 * i, 48.86) for i in range(3)
        ]
        return cls(
            Places.of(PlaceKind.TOWERS, ids, points),
            grid,
            limit,
            Places.of(PlaceKind.ZONES, ["inner", "middle", "outer"], zones),
        )

    def pairs(self, crowd: int) -> list[TablePair]:
        """All neighbouring tables on this stage; `crowd` people in every cell at most."""
        return list(table_pairs(self.places.ids.tolist(), self.grid, limit=self.limit, crowd=crowd))
