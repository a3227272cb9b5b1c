"""A small town: six towers, four zones, two days of hours, 3,000 made-up people."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import shapely

from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import Layout, Overlay, exact_shares
from sfumato.io.events import read_events
from sfumato.model.counts import WeightBound
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

SHARES = np.array(
    [
        [0.5, 0.5, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.25, 0.25, 0.5, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


class Town:
    """The source, its facts and the true tower x slot counts (made up, so not private)."""

    def __init__(self) -> None:
        self.grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 6), "1h", "Europe/Paris")
        ids = [f"t{i}" for i in range(6)]
        self.towers = Places.of(
            PlaceKind.TOWERS, ids, [shapely.Point(2 + i / 100, 48) for i in range(6)]
        )
        rng = np.random.default_rng(5)
        user = np.repeat(np.arange(3000), 6)
        day = np.concatenate((np.arange(48), np.arange(8, 22), np.arange(32, 46)))
        slot = rng.choice(day, user.size)
        tower = np.minimum(rng.geometric(0.3, user.size) - 1, 5)
        keep = np.unique(np.column_stack((user, slot, tower)), axis=0)
        user, slot, tower = keep.T
        self.truth = np.zeros((6, 48))
        np.add.at(self.truth, (tower, slot), 1)
        table = pa.table(
            {
                "user_id": user,
                "timestamp": pa.array(self.grid.edges[slot], pa.timestamp("us", tz="UTC")),
                "cell_id": np.array(ids)[tower],
            }
        )
        self.source = LocalSource(read_events(table), self.towers, self.grid, threads=1)
        self.overlay = Overlay(
            self.towers.ids,
            np.array([f"z{i}" for i in range(4)]),
            exact_shares(sp.csr_array(SHARES)),
        )

    def facts(self, epsilon: float = 1.0, **parameters: object) -> PublicFacts:
        return PublicFacts(
            self.towers.ids,
            self.grid,
            epsilon,
            1e-6,
            bound=WeightBound(4.0),  # nobody here has more than six visits, mostly apart
            overlay=self.overlay,
            parameters=parameters,  # type: ignore[arg-type]
            layout=Layout(np.column_stack((np.arange(6) * 500.0, np.zeros(6))), np.ones(6)),
            zone_layout=Layout(np.column_stack((np.arange(4) * 700.0, np.zeros(4))), np.ones(4)),
        )


@pytest.fixture(scope="session")
def town() -> Town:
    return Town()
