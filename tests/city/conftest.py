"""A small city and its week, made once for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
import shapely
from numpy.typing import NDArray

from sfumato.city import City, CityPlan, build_city, generate_events


@dataclass(frozen=True)
class Week:
    """A city with its records as plain arrays."""

    city: City
    table: pa.Table

    @property
    def tower(self) -> NDArray[np.int64]:
        return np.asarray(self.table["tower"].combine_chunks().indices).astype(np.int64)

    @property
    def slot(self) -> NDArray[np.int64]:
        instants = np.asarray(self.table["timestamp"].cast(pa.int64()))
        return self.city.plan.grid.slot_of(instants).astype(np.int64)

    @property
    def user(self) -> NDArray[np.int64]:
        return np.asarray(self.table["user_id"])

    @property
    def label(self) -> NDArray[np.str_]:
        """Land use around each record's tower."""
        tree = shapely.STRtree(self.city.ground.zone_shapes)
        zone = np.asarray(tree.nearest(shapely.points(self.city.ground.tower_points)))
        return np.asarray(self.city.labels[zone][self.tower])


def _live(plan: CityPlan) -> Week:
    city = build_city(plan)
    return Week(city, pa.Table.from_batches(generate_events(city)))


@pytest.fixture(scope="session")
def live() -> Callable[[CityPlan], Week]:
    """Makes the city of a plan and lets its people live."""
    return _live


@pytest.fixture(scope="session")
def week() -> Week:
    """50,000 people on 300 towers and 200 zones."""
    return _live(CityPlan(users=50_000, towers=300, zones=200, seed=3, chunk_users=20_000))
