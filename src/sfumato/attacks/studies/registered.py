"""A crowd published by any registered scheme, for studies: the real pipeline, seeded noise.

Events go through the engine and the wall as in a release; only the noise is predictable, so
that a study can be repeated. Nothing here is charged and nothing can be published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.city import crowd
from sfumato.city.plane import Plane
from sfumato.density.layout import layout_of_zones
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.model.bound import WeightBound
from sfumato.model.events import EventColumns, Events, TableSource, TimeEncoding, UserEncoding
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid, zone
from sfumato.privacy.wall import Wall


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The public side of a crowd's first day: its cells and its slots."""

    plan: crowd.CrowdPlan
    places: Places = field(init=False)
    grid: TimeGrid = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        plane = Plane(plan.lon, plan.lat)
        metres = plane.to_metres(plan.centres())
        half = plan.cell_m / 2
        boxes = np.asarray(shapely.box(*(metres - half).T, *(metres + half).T), dtype=object)
        squares = plane.shapes_to_degrees(boxes)
        ids = [f"C{k:06d}" for k in range(plan.cells)]
        object.__setattr__(self, "places", Places.of(PlaceKind.ZONES, ids, np.asarray(squares)))
        day = plan.start
        first = datetime(day.year, day.month, day.day, plan.first_hour, tzinfo=zone(plan.tz))
        step = timedelta(minutes=plan.step_minutes)
        edges = int(first.timestamp()) + int(step.total_seconds()) * np.arange(plan.slots + 1)
        grid = TimeGrid(edges.astype(np.int64) * 1_000_000, step, plan.tz)
        object.__setattr__(self, "grid", grid)

    def events(self, rows: NDArray[np.int32]) -> Events:
        """People x slot cells as events in the middle of each slot."""
        people, slots = rows.shape
        middle = (self.grid.edges[:-1] + self.grid.edges[1:]) // 2
        table = pa.table(
            {
                "user": pa.array(np.repeat(np.arange(people), slots)),
                "time": pa.array(np.tile(middle, people)).cast(pa.timestamp("us", tz="UTC")),
                "place": pa.array(self.places.ids[rows.ravel()].tolist(), pa.string()),
            }
        )
        columns = EventColumns(user="user", time="time", place="place")
        return Events(TableSource(table), columns, TimeEncoding.INSTANT, UserEncoding.INTEGER)

    def published(
        self, scheme: str, rows: NDArray[np.int32], epsilon: float, delta: float, seed: int
    ) -> NDArray[np.float64]:
        """Cell x slot as the scheme would release it. Nobody is clipped: one visit a slot."""
        facts = PublicFacts(
            place_ids=self.places.ids,
            grid=self.grid,
            epsilon=epsilon,
            delta=delta,
            expected_users=len(rows),
            bound=WeightBound(math.sqrt(self.grid.slots)),
            layout=layout_of_zones(self.places),
        )
        source = LocalSource(self.events(rows), self.places, self.grid, threads=1)
        try:
            density = scheme_named(scheme).run(source, Wall.seeded(seed), facts)
        finally:
            source.close()
        return np.asarray(density.values, dtype=np.float64)
