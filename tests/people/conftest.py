"""Two operators of a small made-up town, their releases, and tables of its people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.city import CityPlan, Fixes, write_city
from sfumato.privacy.ledger import Cap, Ledger

FIRST, LAST = "2024-03-04", "2024-03-05"


@dataclass(frozen=True)
class Town:
    """Where everything lies: releases `red` and `blue` of people, `visits` of red's visits."""

    folder: Path
    zones: geopandas.GeoDataFrame

    def __getattr__(self, name: str) -> Path:
        return self.folder / name

    @property
    def ids(self) -> list[str]:
        return [str(one) for one in self.zones["zone_id"]]


def publish(folder: Path, events: pa.Table, ledger: Ledger, **further: object) -> sfumato.Release:
    """A release of these events with what the town's have in common."""
    words = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "expected_users": 1_000,
        "start": FIRST,
        "end": LAST,
        "tz": "Europe/Paris",
        "count": "people",
        "anyway": True,
    }
    with pytest.MonkeyPatch.context() as patch:  # whether it is of use is tested elsewhere
        patch.setattr("sfumato.density.publish.checked_fitness", lambda *_: None)
        return sfumato.release(
            events,
            out=folder,
            ledger=ledger,
            **({"dataset": folder.name} | words | further),  # type: ignore[arg-type]
        )


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    folder = tmp_path_factory.mktemp("people")
    plan = CityPlan(
        users=1_600, towers=24, zones=16, area_km2=16, days=1, seed=9, start=date(2024, 3, 4),
        fixes=Fixes.GPS, mean_tower_hours=10,
    )  # fmt: skip
    write_city(plan, folder / "city")
    events = pq.read_table(folder / "city" / "events.parquet")
    zones = geopandas.read_file(folder / "city" / "zones.geojson")
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.initialise()
    half = np.asarray(events["user_id"].to_numpy()) % 2 == 0
    for name, rows, words in (
        ("red", half, {}),
        ("blue", ~half, {"epsilon": 3.0}),
        ("visits", half, {"count": "visits"}),
        ("plain", half, {"scheme": "laplace"}),
        ("slots", half, {"slot": "2h"}),
    ):
        ledger.add_dataset(name, Cap(epsilon=20, delta=1e-4))
        publish(folder / name, events.filter(pa.array(rows)), ledger, zones=zones, **words)
    return Town(folder, zones)


@pytest.fixture
def census(town: Town) -> pd.DataFrame:
    """People by zone."""
    return pd.DataFrame({"zone_id": town.ids, "people": np.linspace(100, 400, len(town.ids))})


@pytest.fixture
def shares(town: Town) -> pd.DataFrame:
    """Market shares by zone."""
    return pd.DataFrame({"zone_id": town.ids, "share": np.linspace(0.2, 0.5, len(town.ids))})
