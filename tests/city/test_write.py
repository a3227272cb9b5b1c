from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import geopandas as gpd
import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from sfumato.city import CityPlan, write_city
from sfumato.errors import InputError

TOY = CityPlan(users=2_000, towers=60, zones=40, seed=7)


def digests(folder: Path) -> dict[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.iterdir())}


def test_the_same_plan_writes_the_same_bytes(tmp_path: Path) -> None:
    write_city(TOY, tmp_path / "one")
    write_city(TOY, tmp_path / "two")
    write_city(replace(TOY, seed=8), tmp_path / "three")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert (
        digests(tmp_path / "one")["events.parquet"] != digests(tmp_path / "three")["events.parquet"]
    )


def test_the_files_agree_with_each_other(tmp_path: Path) -> None:
    said = write_city(replace(TOY, chunk_users=900), tmp_path)
    events = pq.read_table(tmp_path / "events.parquet")
    towers = pa_csv.read_csv(tmp_path / "towers.csv")
    zones = gpd.read_file(tmp_path / "zones.geojson")
    assert events.schema.field("timestamp").type.tz == "UTC"
    assert towers.column_names == ["tower_id", "lon", "lat"]
    assert len(towers) == 60
    assert set(events["tower"].to_pylist()) <= set(towers["tower_id"].to_pylist())
    assert len(zones) == 40
    assert {"zone_id", "name", "district", "land_use", "residents"} <= set(zones.columns)
    assert zones.geometry.is_valid.all()
    assert zones.crs.to_epsg() == 4326
    statement = json.loads((tmp_path / "city.json").read_text())
    assert statement == said
    scale = statement["scale"]
    _, each = np.unique(np.asarray(events["user_id"]), return_counts=True)
    assert scale["users"] == each.size == 2_000
    assert scale["events"] == len(events) == each.sum()
    assert scale["mean_tower_hours"] == pytest.approx(each.mean(), abs=1e-3)
    assert scale["sd_tower_hours"] == pytest.approx(each.std(), abs=1e-3)
    assert scale["max_tower_hours"] == each.max()
    assert scale["visits_per_zone_hour"] == pytest.approx(len(events) / (40 * 168), abs=1e-3)
    assert statement["plan"]["seed"] == 7


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file"):
        write_city(TOY, tmp_path / "file" / "city")
