"""`sfumato attack traces` writes internal files with every attack in them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.attacks.traces.reidentify import Globe
from sfumato.attacks.traces.run import attack_traces
from sfumato.cli.attack import DEFAULT, traces_app
from sfumato.cli.main import app
from sfumato.errors import InputError, UsageError
from sfumato.io.traces import read_traces
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap
from sfumato_lab.attacks.traces import classifier


def _walks(file: Path) -> None:
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
    ).to_parquet(file)


def test_the_command(tmp_path: Path) -> None:
    _walks(tmp_path / "traces.parquet")
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


def test_the_classifier_is_one_that_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it gives stands beside the other attacks; here it trains nothing."""
    keys = ("balanced", "chance", "nearest", "accuracy", "majority", "steps")
    results = {"no noise": dict.fromkeys(keys, 1)}
    monkeypatch.setattr(classifier, "classify", lambda *_, **__: results)
    _walks(tmp_path / "traces.parquet")
    out = tmp_path / "out"
    words = [str(tmp_path / "traces.parquet"), "--out", str(out), "--tz", "UTC", "--classifier"]
    done = CliRunner().invoke(traces_app, words)
    assert done.exit_code == 0, done.output
    assert json.loads((out / "traces-attack.internal.json").read_text())["classifier"] == results
    assert "recurrent classifier" in (out / "traces-attack.internal.html").read_text()


KINDS = {
    "independent": {"most_reports": 100},
    "printed-clock": {"most_reports": 100, "window": "5min"},
    "clock": {"window": "10min"},
}


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """True traces, and a ledger beside them."""
    _walks(tmp_path / "traces.parquet")
    book = sfumato.Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("walkers", Cap(epsilon=50.0, delta=0.0), Unit.parse("point:1m"))
    return tmp_path / "traces.parquet"


def _sanitised(truth: Path, **more: object) -> Path:
    settings: dict[str, object] = {
        "out": truth.parent / "sanitised", "dataset": "walkers", "start": "2008-11-01",
        "end": "2008-11-02", "expected_noise": "100m", "tz": "UTC",
        "ledger": truth.parent / "ledger.sqlite",
    }  # fmt: skip
    return sfumato.sanitise(truth, **(settings | more)).folder  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_sanitise_is_attacked_as_it_is(kind: str, truth: Path) -> None:
    """Under pseudonyms: each is found by instants and places, whatever the kind."""
    folder, out = _sanitised(truth, kind=kind, **KINDS[kind]), truth.parent / "out"
    run = [str(truth), "--release", str(folder), "--out", str(out), "--tz", "UTC"]
    done = CliRunner().invoke(traces_app, run)
    assert done.exit_code == 0, done.output
    found = json.loads((out / "traces-attack.internal.json").read_text())
    assert found["release"] == {"name": "sanitised", "kind": kind, "matched": 1.0}
    assert found["users"] == 8
    errors = {name: row["mean"] for name, row in found["position_error_m"].items()}
    assert 70 < errors.pop("as published") < 140  # of somebody else it would be kilometres
    assert min(errors.values()) < 140
    assert set(found["linkage"]) == {"no noise", "as published"}
    assert f"sanitised ({kind}); 100" in (out / "traces-attack.internal.html").read_text()


def test_what_is_no_target_is_refused_with_what_to_do(truth: Path) -> None:
    folder = _sanitised(truth, most_reports=100)
    run = [str(truth), "--release", str(folder), "--out", str(truth.parent / "out"), "--tz", "UTC"]
    for wrong, words in (
        ([str(folder), *run[3:]], f"--release {folder}"),
        ([*run, "--window", "5min"], "Leave out --expected-noise, --window"),
        ([*run[:2], str(truth.parent), *run[3:]], "sfumato release, stream or sanitise"),
    ):
        done = CliRunner().invoke(app, ["attack", "traces", *wrong])
        assert isinstance(done.exception, (UsageError, InputError))
        assert words in str(done.exception)
    later = pd.read_parquet(truth)
    later["datetime"] += pd.Timedelta(seconds=1)
    later.to_parquet(truth)
    done = CliRunner().invoke(traces_app, run)
    assert isinstance(done.exception, InputError)
    assert "was not made of these traces" in str(done.exception)
    assert not (truth.parent / "out").exists()


def test_help_has_the_options_of_the_default_command() -> None:
    """`attack RELEASE` is the default command: who asks `attack` for help sees how it is called."""
    text = CliRunner().invoke(app, ["attack", "--help"], env={"COLUMNS": "120"}).output
    own = CliRunner().invoke(app, ["attack", DEFAULT, "--help"], env={"COLUMNS": "120"}).output
    flags = {word for word in own.split() if word.startswith("--")}
    assert {"--events", "--suppress", "--solver"} <= flags
    assert flags <= set(text.split())


def test_every_stage_says_what_it_is(truth: Path) -> None:
    told: list[tuple[str, float]] = []
    read, _ = read_traces(truth, tz="UTC")
    attack_traces(read, 100.0, progress=lambda what, share: told.append((what, share)))
    stages = [what for what, _ in told]
    assert list(dict.fromkeys(stages)) == [
        "adding noise",
        "taking the noise off",
        "recognising people",
    ]
    assert [share for what, share in told if what == stages[-1]] == [0.0, 1 / 3, 2 / 3]


def _geolife(folder: Path, users: int, fixes: int) -> None:
    """A stand-in: the folders and the six lines above each file's rows are those of Geolife."""
    rng = np.random.default_rng(7)
    head = "Geolife trajectory\r\nWGS 84\r\nAltitude is in Feet\r\nReserved 3\r\n"
    head += "0,2,255,My Track,0,0,2,8421376\r\n0\r\n"
    for user in range(users):
        home = np.array([39.9, 116.4]) + rng.normal(0, 0.08, 2)
        inside = folder / "Data" / f"{user:03d}" / "Trajectory"
        inside.mkdir(parents=True)
        for trip in range(18):
            number = fixes // users // 18
            begun = datetime(2008, 4, 1) + timedelta(
                days=20 * trip, minutes=int(rng.integers(1440))
            )
            when = pd.date_range(begun, periods=number, freq="3s")
            at = home + rng.normal(0, 0.02, 2) + rng.normal(0, 3e-5, (number, 2)).cumsum(axis=0)
            days = (when - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)
            rows = zip(*at.T, days, when.strftime("%Y-%m-%d,%H:%M:%S"), strict=True)
            lines = (
                f"{lat:.6f},{lon:.6f},0,120,{day:.10f},{text}\r\n" for lat, lon, day, text in rows
            )
            (inside / f"{begun:%Y%m%d%H%M%S}.plt").write_text(head + "".join(lines))


@pytest.mark.slow
def test_four_million_fixes_of_geolife(tmp_path: Path) -> None:
    """It says what it does within two seconds of a quiet machine, and ends within five minutes."""
    _geolife(tmp_path, 180, 4_200_000)
    run = [sys.executable, "-m", "sfumato", "attack", "traces", str(tmp_path), "--out"]
    begun = time.monotonic()
    with subprocess.Popen([*run, str(tmp_path / "out")], stderr=subprocess.PIPE, text=True) as work:
        assert work.stderr is not None
        assert work.stderr.readline() == "reading traces …\n"
        first = time.monotonic() - begun
        rest = work.stderr.read()
    assert work.returncode == 0, rest
    assert first < 6
    assert time.monotonic() - begun < 300
    found = json.loads((tmp_path / "out" / "traces-attack.internal.json").read_text())
    assert found["fixes"] == 4_199_040
    assert found["users"] == 180


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
