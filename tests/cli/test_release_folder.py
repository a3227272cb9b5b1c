"""What a release folder holds beside the table: outlines, page, levels, whole numbers, words."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.city import CityPlan, write_city
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.manifest import MANIFEST_NAME, read_manifest
from sfumato.published.tables import readme


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small town's records, its ledger, and a configuration file for its releases."""
    folder = tmp_path_factory.mktemp("town")
    plan = CityPlan(users=2000, towers=12, zones=9, area_km2=4, days=2, seed=3)
    write_city(plan, folder / "city")
    ledger = Ledger(folder / "books" / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=20, delta=1e-4))
    (folder / "sfumato.toml").write_text(
        f"""
        dataset = "town"
        ledger = "{folder / "books" / "ledger.sqlite"}"
        towers = "{folder / "city" / "towers.csv"}"
        zones = "{folder / "city" / "zones.geojson"}"
        tz = "Europe/Paris"
        from = 2007-09-10
        to = 2007-09-12
        slot = "6h"
        epsilon = 2
        delta = 1e-5
        expected-users = 2000

        [release]
        events = "{folder / "city" / "events.parquet"}"
        hierarchy-column = "district"
        integers = true
        anyway = true
        """
    )
    return folder


def run(home: Path, *flags: str) -> str:
    arguments = ["release", "--config", str(home / "sfumato.toml"), *flags]
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(home: Path) -> Path:
    """A release by the default scheme, all its options from the file but one."""
    out = home / "out" / "days"
    run(home, "--out", str(out), "--quiet")
    return out


def test_the_folder_is_complete_and_its_digests_are_listed(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    assert manifest["files"] == found
    assert set(found) == {
        *("density.parquet", "density.csv", "density-districts.parquet", "density-city.parquet"),
        *("zones.geojson", "zones.parquet", "README.txt", "index.html", "measurements.npz"),
        "posterior.npz",
    }
    assert manifest["scheme"]["name"] == "bayes"
    assert "totals per place" in manifest["privacy"]["bound"]


def test_levels_are_exact_sums_of_whole_non_negative_zones(folder: Path, home: Path) -> None:
    zones = pq.read_table(folder / "density.parquet").to_pandas()
    assert zones["count"].dtype == np.int64
    assert (zones["count"] >= 0).all()
    assert (zones["lower"] <= zones["count"]).all()
    assert (zones["count"] <= zones["upper"]).all()
    city = json.loads((home / "city" / "zones.geojson").read_text())
    district = {f["properties"]["zone_id"]: f["properties"]["district"] for f in city["features"]}
    sums = zones.groupby([zones["zone_id"].map(district), "time_start"])["count"].sum()
    districts = pq.read_table(folder / "density-districts.parquet").to_pandas()
    assert list(districts) == ["district_id", "time_start", "time_end", "count"]
    assert (districts.set_index(["district_id", "time_start"])["count"] == sums).all()
    whole = pq.read_table(folder / "density-city.parquet").to_pandas()
    assert len(whole) == 8
    assert whole["count"].tolist() == zones.groupby("time_start")["count"].sum().tolist()


def test_outlines_carry_ids_and_districts(folder: Path) -> None:
    frame = geopandas.read_parquet(folder / "zones.parquet")
    features = json.loads((folder / "zones.geojson").read_text())["features"]
    assert frame["zone_id"].tolist() == [f["properties"]["zone_id"] for f in features]
    assert frame["district"].tolist() == [f["properties"]["district"] for f in features]
    assert frame.crs.to_epsg() in (4326, None)
    assert frame.geometry.is_valid.all()


def test_the_readme_tells_users_what_they_need(folder: Path) -> None:
    text = " ".join((folder / "README.txt").read_text().split())
    for part in ("WHAT A ROW IS", "UNITS", "INTERVALS", "LEVELS", "PRIVACY", "HOW TO CITE"):
        assert part in text
    assert "90 % of cases" in text
    assert "density-districts.parquet" in text
    assert "What is promised." in text


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (1, "lasts 1 hour; where clocks change, a day has an hour more or less."),
        (5, "lasts 5 hours; the last slot of a day is shorter; where clocks change"),
        (3, "later slots of that day begin an hour earlier or later, and its last ends at"),
        (24, "lasts 1 day; where clocks change, a day has an hour more or less."),
    ],
)
def test_slots_that_do_not_fill_a_day_are_said_to_be_cut(
    folder: Path, hours: int, said: str
) -> None:
    manifest = read_manifest(folder / MANIFEST_NAME)
    grid = manifest.grid.model_copy(update={"step_seconds": 3600.0 * hours})
    text = readme(manifest.model_copy(update={"grid": grid}), [])
    assert said in " ".join(text.split())
    assert ("the last slot of a day" in text) == (hours == 5)


def test_a_rerun_finds_it_and_another_hierarchy_is_refused(folder: Path, home: Path) -> None:
    assert json.loads(run(home, "--out", str(folder), "--json"))["how"] == "already"
    table = home / "parents.csv"
    ids = sorted(geopandas.read_parquet(folder / "zones.parquet")["zone_id"])
    table.write_text("zone_id,parent_id\n" + "".join(f"{zone},all\n" for zone in ids[:-1]))
    config = home / "sfumato.toml"
    without = home / "other.toml"
    text = config.read_text().replace('hierarchy-column = "district"', "")
    without.write_text(text.replace("integers = true", f'hierarchy = "{table}"'))
    with pytest.raises(UsageError, match="has no parent"):
        run(home, "--out", str(home / "out" / "x"), "--config", str(without))
    table.write_text(table.read_text() + f"{ids[-1]},all\n")
    out = home / "out" / "gaussian"
    run(home, "--config", str(without), "--out", str(out), "--scheme", "gaussian", "--quiet")
    districts = pq.read_table(out / "density-districts.parquet")["count"].to_numpy()
    zones = pq.read_table(out / "density.parquet")["count"].to_numpy().reshape(-1, 8)
    assert districts == pytest.approx(zones.sum(axis=0), abs=1e-9)
    assert (np.round(districts, 3) == districts).all()


def test_what_bayes_needs_and_does_not_take(home: Path) -> None:
    with pytest.raises(UsageError, match="own bounds"):
        run(home, "--out", str(home / "out" / "y"), "--bound", "weight:2")
    text = (home / "sfumato.toml").read_text().replace("expected-users = 2000", "")
    (home / "blind.toml").write_text(text)
    with pytest.raises(UsageError, match="rough number of people"):
        run(home, "--config", str(home / "blind.toml"), "--out", str(home / "out" / "z"))


def test_the_release_as_frames_and_figures(folder: Path) -> None:
    made = sfumato.read_release(folder)
    frame = made.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert str(frame["time_start"].dt.tz) == "Europe/Paris"
    shaped = made.to_geopandas()
    assert len(shaped) == len(frame)
    assert shaped.geometry.notna().all()
    assert made.plot("map", slot=1).axes


def test_the_release_as_an_array_with_names(folder: Path) -> None:
    pytest.importorskip("xarray", reason="xarray, of the dev extra, is not installed")
    made = sfumato.read_release(folder)
    array, frame = made.to_xarray(), made.to_pandas()
    assert dict(array.sizes) == {"zone_id": 9, "time_start": 8}
    assert array.attrs == {"tz": "Europe/Paris", "epsilon": made.manifest.privacy.epsilon}
    row = frame.iloc[11]
    there = {"zone_id": row["zone_id"], "time_start": row["time_start"].tz_convert(None)}
    for name in ("count", "lower", "upper"):
        assert float(array[name].sel(there)) == row[name]
        assert float(array[name].sum()) == pytest.approx(frame[name].sum())


def test_without_xarray_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(UsageError, match="needs xarray, which is not installed"):
        sfumato.read_release(folder).to_xarray()
