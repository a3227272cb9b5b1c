"""A small town for the engines: towers t0, t1, … and days of hours, told as plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from numpy.typing import NDArray
from tests.engine.reference import RelationalSource

from sfumato.engine.local import LocalSource
from sfumato.model.counts import Counting, Counts, SampleBound, WeightBound
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid

START = datetime(2024, 1, 1, tzinfo=UTC)
KEY = bytes(range(32))
Row = tuple[Any, float, Any]
"""User, hours since the start, tower."""


class Town:
    """Makers of events, places and grids, and of every question at once."""

    key = KEY
    start = START

    @staticmethod
    def grid(days: int = 1, step: str = "1h", tz: str = "UTC") -> TimeGrid:
        first = date(2024, 1, 1)
        return TimeGrid.between(first, first + timedelta(days=days), step, tz)

    @staticmethod
    def towers(n: int) -> Places:
        points = [shapely.Point(2.0 + k / 100, 48.0) for k in range(n)]
        return Places.of(PlaceKind.TOWERS, [f"t{k}" for k in range(n)], points)

    @staticmethod
    def table(rows: Sequence[Row], user: pa.DataType | None = None) -> pa.Table:
        instants = [START + timedelta(hours=float(row[1])) for row in rows]
        return pa.table(
            {
                "user": pa.array([row[0] for row in rows], user or pa.int64()),
                "time": pa.array(instants, pa.timestamp("us", "UTC")),
                "tower": pa.array([row[2] for row in rows], pa.string()),
            }
        )

    @staticmethod
    def described(table: pa.Table, user: UserEncoding = UserEncoding.INTEGER) -> Events:
        columns = EventColumns("user", "time", "tower")
        return Events.of_table(table, columns, TimeEncoding.INSTANT, user)

    def events(self, rows: Sequence[Row]) -> Events:
        return self.described(self.table(rows))

    def local(self, rows: Sequence[Row], towers: int, days: int = 1, **options: Any) -> LocalSource:
        return LocalSource(self.events(rows), self.towers(towers), self.grid(days), **options)

    def relational(self, rows: Sequence[Row], towers: int, days: int = 1) -> RelationalSource:
        return RelationalSource(self.events(rows), self.towers(towers), self.grid(days))

    @staticmethod
    def opened(private: Private[Counts]) -> Counts:
        return private._through_the_door()

    def answers(self, source: Source, norms: NDArray[np.int64] | None = None) -> dict[str, Counts]:
        """Every question a scheme can ask, small limits so that every bound bites."""
        shape = (source.place_ids.size, source.grid.slots)
        if norms is None:
            norms = (np.indices(shape).sum(axis=0) * 37 % 700).astype(np.int64)
        found = {
            "sampled 1": source.sampled(SampleBound(1), KEY),
            "sampled 3": source.sampled(SampleBound(3), KEY),
        }
        for counting in Counting:
            most = {Counting.VISITS: 1.0, Counting.PEOPLE: 0.3}[counting]
            found |= {
                f"exact {counting}": source.exact(counting),
                f"weighted {counting}": source.weighted(WeightBound(1.7), counting),
                f"norms {counting}": source.weighted(WeightBound(2.3, 1.7), counting, norms),
                f"places {counting}": source.place_totals(WeightBound(1.3, most), counting),
                f"slots {counting}": source.slot_totals(WeightBound(1.9, 2 * most), counting),
                f"capped {counting}": source.capped_total(4, counting),
                f"ladder {counting}": source.ladder((1, 2, 5, 9), counting),
            }
        for measure, cap in ((Measure.VISITS, 3), (Measure.UNIQUE_PEOPLE, 1)):
            one, many = (Masks.of(*shape, [asked(shape, k) for k in range(n)]) for n in (1, 70))
            found[f"answer {measure}"] = source.answers(one, measure, cap)
            found[f"answers {measure}"] = source.answers(many, measure, WeightBound(9.5, 0.9))
        return {name: self.opened(private) for name, private in found.items()}


def asked(shape: tuple[int, int], k: int) -> tuple[list[int], list[int]]:
    """Places and slots of a question that overlaps with the others."""
    rng = np.random.default_rng(k)
    some = [np.flatnonzero(rng.random(size) < rng.random()).tolist() for size in shape]
    return some[0] or [0], some[1] or [k % shape[1]]


@pytest.fixture(scope="session")
def town() -> Town:
    return Town()
