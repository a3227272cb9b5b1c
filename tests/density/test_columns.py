"""A release with a median and one without intervals: every place where a table is published."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.density.baselines import Gaussian
from sfumato.density.scheme import Density
from sfumato.privacy.ledger import Cap, Ledger

BASE = Gaussian.run
KEYS = ["zone_id", "time_start", "time_end", "count"]
NOTE = "The level may be off, whatever else is said here."


def with_median(self: Gaussian, *given: object) -> Density:
    made = BASE(self, *given)  # type: ignore[arg-type]
    width = np.full(made.values.shape, 3.25)
    ends = {"lower": np.maximum(made.values - width, 0), "upper": made.values + width}
    median = np.maximum(made.values - 0.4, 0)
    return replace(made, **ends, coverage=0.9, median=median, remarks=(NOTE,))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three towers and zones in two districts, and a few records of one day."""
    begin = datetime(2024, 3, 4, 1)
    who, hours = np.arange(90), np.arange(90) % 20
    table = pa.table(
        {
            "user_id": who,
            "timestamp": [begin + timedelta(hours=int(h)) for h in hours],
            "cell_id": [f"t{k % 3}" for k in who],
        }
    )
    table.to_pandas().to_csv(tmp_path / "events.csv", index=False)
    (tmp_path / "towers.csv").write_text("cell_id,lon,lat\nt0,2.3,48.8\nt1,2.4,48.8\nt2,2.5,48.8\n")
    (tmp_path / "parents.csv").write_text("zone_id,parent_id\nz0,a\nz1,a\nz2,b\n")
    zones = [shapely.box(2.25 + k / 10, 48.7, 2.35 + k / 10, 48.9) for k in range(3)]
    frame = geopandas.GeoDataFrame({"zone_id": ["z0", "z1", "z2"]}, geometry=zones, crs=4326)
    frame.to_file(tmp_path / "zones.geojson")
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=50, delta=1e-4))
    return tmp_path


def command(home: Path, name: str, *flags: str) -> list[str]:
    return [
        "release", str(home / "events.csv"), "--towers", str(home / "towers.csv"),
        "--zones", str(home / "zones.geojson"),
        "--from", "2024-03-04", "--to", "2024-03-05", "--slot", "6h", "--tz", "UTC",
        "--dataset", "town", "--epsilon", "1", "--delta", "1e-6", "--expected-users", "90",
        "--scheme", "gaussian", "--ledger", str(home / "ledger.sqlite"),
        "--out", str(home / name), "--anyway", *flags,
    ]  # fmt: skip


def publish(home: Path, name: str, *flags: str) -> str:
    done = CliRunner().invoke(app, command(home, name, *flags))
    assert done.exit_code == 0, done.output
    return done.output


def test_a_median_stands_in_every_form_of_the_table(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gaussian, "run", with_median)
    told = publish(home, "day", "--hierarchy", str(home / "parents.csv"))
    made = sfumato.read_release(home / "day")
    assert made.manifest.scheme.median
    assert made.median is not None
    np.testing.assert_allclose(made.median, np.maximum(made.values - 0.4, 0))
    columns = [*KEYS, "median", "lower", "upper"]
    assert made.table().column_names == columns
    assert list(made.to_pandas()) == columns
    assert list(pd.read_csv(home / "day" / "density.csv")) == columns
    assert set(made.to_xarray().data_vars) == {"count", "median", "lower", "upper"}
    assert (made.to_geopandas()["median"].to_numpy() == made.median.ravel()).all()
    for level in ("districts", "city"):  # the median of a sum is not the sum of medians
        assert pd.read_parquet(home / "day" / f"density-{level}.parquet").columns[-1] == "count"
    readme = " ".join((home / "day" / "README.txt").read_text().split())
    assert "count, median, lower, upper." in readme
    assert "make sums, averages and shares from count" in readme
    assert "They carry no median: medians do not add up." in readme
    exported = sfumato.export(made, home / "flowkit", to="flowkit")
    assert exported[0].read_text().splitlines()[0].replace('"', "") == "pcod,date,hour,value"
    assert NOTE in " ".join(told.split())


def test_caveats_come_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the terminal, in the text, in the statement, on the page above the map, in notebooks."""
    monkeypatch.setattr(Gaussian, "run", with_median)
    told = publish(home, "day", "--bound", "sample:3").splitlines()
    at = told.index(f"Published: {home / 'day'}")
    assert told[at + 1 : at + 3] == ["Take note.", f"- {NOTE}"]
    manifest = json.loads((home / "day" / "manifest.json").read_text())
    assert manifest["caveats"][0] == NOTE
    assert "a forecast on made-up people" in manifest["caveats"][1]
    assert "thinned count" in manifest["caveats"][2]
    lines = (home / "day" / "README.txt").read_text().splitlines()
    assert lines[:5] == ["day", "===", "", "Take note.", f"- {NOTE}"]
    assert sum(NOTE in line for line in lines) == 1
    made = sfumato.read_release(home / "day")
    assert made.statement().startswith(f"Take note.\n- {NOTE}")
    page = (home / "day" / "index.html").read_text()
    assert page.index('<ul id="caveats">') < page.index('<div id="map"')
    assert NOTE in made._repr_html_()
    again = json.loads(publish(home, "day", "--bound", "sample:3", "--json"))
    assert (again["how"], again["caveats"]) == ("already", manifest["caveats"])


def test_whole_numbers_and_tables_without_intervals(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gaussian, "run", with_median)
    publish(home, "whole", "--integers", "--quiet")
    made = sfumato.read_release(home / "whole").table()
    assert [str(made.schema.field(name).type) for name in ("count", "median")] == ["int64"] * 2

    def bare(self: Gaussian, *given: object) -> Density:
        made = BASE(self, *given)  # type: ignore[arg-type]
        return replace(made, lower=None, upper=None, coverage=None)

    monkeypatch.setattr(Gaussian, "run", bare)
    publish(home, "bare", "--integers", "--quiet")
    found = sfumato.read_release(home / "bare")
    assert found.table().column_names == KEYS
    assert found.lower is None
    assert found.upper is None
    assert found.median is None
    scheme = json.loads((home / "bare" / "manifest.json").read_text())["scheme"]
    assert scheme["interval_coverage"] == 0
    assert scheme["median"] is False
    readme = " ".join((home / "bare" / "README.txt").read_text().split())
    assert "INTERVALS None are stated." in readme
    assert "No interval is stated for these numbers." in readme
