"""Real records: taxis of San Francisco to census tracts, call records of Hangzhou to stations."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting, SampleBound
from sfumato.model.time_grid import TimeGrid

DATA = Path(os.environ.get("SFUMATO_DATA") or "nowhere")
pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not DATA.is_dir(), reason="SFUMATO_DATA does not point to the data sets"),
]


def test_cabs_count_once_per_tract_and_hour(town: Any) -> None:
    cabs = DATA / "cabspotting_sf"
    events = read_events(cabs / "cabspotting_sf_2008.parquet", columns={"user": "cab"})
    zones = read_zones(cabs / "sf_tracts_2010.geojson")
    grid = TimeGrid.between(date(2008, 5, 19), date(2008, 5, 26), "1h", "America/Los_Angeles")
    source = LocalSource(events, zones, grid)
    visits = town.opened(source.exact(Counting.VISITS)).values
    assert visits.shape == (195, 168)
    assert visits.max() <= 537
    people = town.opened(source.exact(Counting.PEOPLE)).values
    sampled = town.opened(source.sampled(SampleBound(168), town.key)).values
    cabs_per_hour = sampled.sum(axis=0)
    assert cabs_per_hour.max() <= 537
    # With l = all slots sampling keeps one unit per cab and hour: the mass of `people`.
    assert np.allclose(people.sum(axis=0) / (1 << 16), cabs_per_hour, rtol=1e-3)
    assert source.drops.rows == 11_220_058


def test_calls_count_as_the_obvious_query_does(town: Any) -> None:
    folder = DATA / "hangzhou_cdr"
    path = folder / "hangzhou_movr_100users.parquet"
    events = read_events(path)
    stations = folder / "hangzhou_basestations.parquet"
    towers = read_towers(stations, drop_bad=True, keep_far=True)
    grid = TimeGrid.between(date(2012, 8, 1), date(2012, 11, 1), "1d", "Asia/Shanghai")
    source = LocalSource(events, towers, grid)
    visits = town.opened(source.exact(Counting.VISITS)).values
    known = "(" + ", ".join(f"'{name}'" for name in towers.ids) + ")"
    day = f"(epoch_us(time_utc) - {grid.edges[0]}) // {86_400 * 10**6}"
    sql = (
        f"SELECT COUNT(DISTINCT (user, CAST(bs AS VARCHAR), {day})) FROM '{path}' "
        f"WHERE CAST(bs AS VARCHAR) IN {known} AND epoch_us(time_utc) "
        f"BETWEEN {grid.edges[0]} AND {grid.edges[-1] - 1}"
    )
    expected = duckdb.connect().execute(sql).fetchone()
    assert expected is not None
    assert visits.sum() == expected[0] > 5_000
