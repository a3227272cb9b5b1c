"""`sfumato attack traces` writes internal files with every attack in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from sfumato.attacks.traces.reidentify import Globe
from sfumato.cli.attack import traces_app


def test_the_command(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(8), 120)
    seconds = np.tile(np.arange(120) * 60, 8)
    pd.DataFrame(
        {
            "uid": user,
            "datetime": pd.to_datetime("2008-11-01") + pd.to_timedelta(seconds, "s"),
            "lat": 39.9 + 0.02 * user / 8 + rng.normal(0, 1e-4, user.size).cumsum() * 0.1,
            "lng": 116.3 + 0.03 * (user % 3),
        }
    ).to_parquet(tmp_path / "traces.parquet")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        traces_app, [str(tmp_path / "traces.parquet"), "--out", str(out), "--tz", "UTC"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads((out / "traces-attack.internal.json").read_text())
    errors = {name: row["mean"] for name, row in found["position_error_m"].items()}
    assert 80 < errors["independent noise, as published"] < 120
    assert errors["plain average of 9 reports"] < 60
    assert found["stationary_error_m"]["1000"] < 3
    assert set(found["linkage"]) == {"no noise", "independent", "windows"}
    page = (out / "traces-attack.internal.html").read_text()
    assert "INTERNAL" in page
    assert 'src="data:image/png;base64,' in page
    assert (out / "traces-attack.internal.png").stat().st_size > 10_000
    shown = found["shown"]
    assert all(len(axis) == 60 for line in shown.values() for axis in line)
    steps = [np.hypot(*np.diff(np.array(shown[name]))) for name in ("true", "published")]
    assert steps[0].mean() < 30 < 60 < steps[1].mean()  # metres: the noise is what is seen
    assert (out / "traces-attack.internal.html").stat().st_mode & 0o077 == 0


def _on_three_continents(file: Path) -> None:
    rng = np.random.default_rng(2)
    user = np.repeat(np.arange(9), 120)
    cities = np.array([[116.4, 39.9], [2.35, 48.86], [-122.33, 47.6]])
    home = cities[np.arange(9) % 3] + 0.02 * (np.arange(9) // 3)[:, None]
    lon, lat = (home[user] + rng.normal(0, 0.002, (user.size, 2))).T
    when = pd.to_datetime("2009-01-01") + pd.to_timedelta(np.tile(np.arange(120) * 600, 9), "s")
    pd.DataFrame({"user": user, "time": when, "lon": lon, "lat": lat}).to_csv(file, index=False)


def test_people_on_several_continents_are_recognised_without_a_region(tmp_path: Path) -> None:
    _on_three_continents(tmp_path / "world.csv")
    run = [str(tmp_path / "world.csv"), "--out", str(tmp_path / "out"), "--tz", "UTC"]
    done = CliRunner().invoke(traces_app, run)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out" / "traces-attack.internal.json").read_text())
    assert found["region"] == "the globe"
    assert found["linkage"]["no noise"] == 1.0
    assert found["linkage_by_chance"] == 1 / 9
    assert "the globe" in (tmp_path / "out" / "traces-attack.internal.html").read_text()


def test_a_region_as_large_is_refused_with_what_to_do(tmp_path: Path) -> None:
    _on_three_continents(tmp_path / "world.csv")
    run = [str(tmp_path / "world.csv"), "--out", str(tmp_path / "out"), "--tz", "UTC"]
    done = CliRunner().invoke(traces_app, [*run, "--region", "-130,30,120,50"])
    assert done.exit_code != 0
    assert "smaller" in done.exception.remedy  # type: ignore[union-attr]
    assert not (tmp_path / "out").exists()


def test_cells_of_the_globe_are_alike_everywhere() -> None:
    globe = Globe()
    for lat in (-54.8, 0.0, 1.3, 59.9):
        metres = np.arange(0, 80_000, 10.0)  # eastwards along the parallel
        lon = 10 + np.degrees(metres / (6_371_000 * np.cos(np.radians(lat))))
        seen = np.unique(globe.index(lon, np.full(lon.size, lat))).size
        assert 99 <= seen <= 103
    lon, lat = np.array([180.0, -180.0, 0.0]), np.array([10.0, 10.0, 90.0])
    assert globe.index(lon, lat)[0] == globe.index(lon, lat)[1]
    assert (globe.index(lon, lat) < globe.size).all()
