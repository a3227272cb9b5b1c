"""People published again for studies: by any density scheme, or slot by slot by a stream.

The real pipeline with seeded noise. Events go through the engine and the wall as in a release; only
the noise is predictable, so that a study can be repeated. Nothing here is charged and nothing can
be published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.attacks.trajectories import counts_of
from sfumato.city import crowd
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Parameter, PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import layout_of_zones
from sfumato.geography.projection import Plane
from sfumato.model.counts import Bound, WeightBound
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid, zone
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import DEFAULT, stream_scheme
from sfumato.streams.replay import run_scheme


@dataclass(frozen=True, slots=True)
class StreamStage:
    """The public side of a stream on a grid: cells in rows of `columns`, slots a day."""

    cells: int
    columns: int | None
    slots_a_day: int
    first_weekday: int = 0
    unit: str = "user-day"

    def published(
        self,
        rows: NDArray[np.int32],
        epsilon: float,
        delta: float,
        seed: int,
        *,
        scheme: str = DEFAULT,
        expected: int | None = None,
    ) -> NDArray[np.float64]:
        """Cell x slot of whole days of `rows`, people x slot; `expected` people are known."""
        counts = np.ascontiguousarray(counts_of(rows, self.cells).T)
        facts = StreamFacts(
            self.cells,
            Calendar.regular(len(counts), self.slots_a_day, self.first_weekday),
            epsilon,
            delta,
            Unit.parse(self.unit),
            len(rows) if expected is None else expected,
            self.columns,
        )
        return np.ascontiguousarray(run_scheme(stream_scheme(scheme), facts, counts, seed).values.T)


Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The public side: the places and the slots that people are counted in."""

    places: Places
    grid: TimeGrid

    @classmethod
    def of_crowd(cls, plan: crowd.CrowdPlan) -> Stage:
        """The cells of a crowd and the slots of its first day."""
        plane = Plane(plan.lon, plan.lat)
        metres = plane.to_metres(plan.centres())
        half = plan.cell_m / 2
        boxes = np.asarray(shapely.box(*(metres - half).T, *(metres + half).T), dtype=object)
        squares = plane.shapes_to_degrees(boxes)
        ids = [f"C{k:06d}" for k in range(plan.cells)]
        day = plan.start
        first = datetime(day.year, day.month, day.day, plan.first_hour, tzinfo=zone(plan.tz))
        step = timedelta(minutes=plan.step_minutes)
        edges = int(first.timestamp()) + int(step.total_seconds()) * np.arange(plan.slots + 1)
        grid = TimeGrid(edges.astype(np.int64) * 1_000_000, step, plan.tz)
        return cls(Places.of(PlaceKind.ZONES, ids, np.asarray(squares)), grid)

    def events(self, rows: Rows) -> Events:
        """People x slot places as events in the middle of each slot; negative is no event."""
        person, slot = np.nonzero(rows >= 0)
        middle = (self.grid.edges[:-1] + self.grid.edges[1:]) // 2
        table = pa.table(
            {
                "user": pa.array(person),
                "time": pa.array(middle[slot]).cast(pa.timestamp("us", tz="UTC")),
                "place": pa.array(self.places.ids[rows[person, slot]].tolist(), pa.string()),
            }
        )
        columns = EventColumns(user="user", time="time", place="place")
        return Events.of_table(table, columns, TimeEncoding.INSTANT, UserEncoding.INTEGER)

    def published(
        self,
        scheme: str,
        rows: Rows,
        epsilon: float,
        delta: float,
        seed: int,
        *,
        bound: Bound | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        expected: int | None = None,
    ) -> NDArray[np.float64]:
        """Place x slot as the scheme would release it; `expected` people are publicly known.

        Without a bound nobody is clipped: one visit a slot.
        """
        facts = PublicFacts(
            place_ids=self.places.ids,
            grid=self.grid,
            epsilon=epsilon,
            delta=delta,
            expected_users=len(rows) if expected is None else expected,
            bound=bound or WeightBound(math.sqrt(self.grid.slots)),
            parameters=parameters or {},
            layout=layout_of_zones(self.places),
        )
        source = LocalSource(self.events(rows), self.places, self.grid, threads=1)
        try:
            with threadpool_limits(1):  # the same table on every machine
                density = scheme_named(scheme).run(source, Wall.seeded(seed), facts)
        finally:
            source.close()
        return np.asarray(density.values, dtype=np.float64)
