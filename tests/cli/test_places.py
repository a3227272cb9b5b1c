"""One way to say places: what a release was made with, every command takes in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import shapely
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger

PERIOD = ("--from", "2024-03-04", "--to", "2024-03-05", "--slot", "6h", "--tz", "Europe/Paris")
BOX = "2.300,48.840,2.340,48.870"
SAID = {
    "towers": ("--towers", "towers.csv"),
    "zones": ("--zones", "zones.geojson", "--zone-id", "beta", "--zone-name", "called"),
    "repaired zones": ("--zones", "crossing.geojson", "--zone-id", "beta", "--repair-zones"),
    "a layer": ("--zones", "areas.gpkg", "--layer", "wards", "--zone-id", "beta"),
    "squares": ("--grid", "1km", "--region", BOX),
    "squares elsewhere": ("--grid", "1km@EPSG:32631", "--region", "zones.geojson"),
    "hexagons": ("--grid", "h3:8", "--region", BOX),
    "geohashes": ("--grid", "geohash:6", "--region", BOX),
    "towers over zones": ("--towers", "towers.csv", "--zones", "zones.geojson",
                          "--zone-id", "beta"),
    "towers over squares": ("--towers", "bad.csv", "--drop-bad-towers", "--grid", "1km",
                            "--region", BOX),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty people between four towers and four zones, on one day."""
    import geopandas

    home = tmp_path_factory.mktemp("places")
    rng = np.random.default_rng(4)
    x, y = 2.305 + 0.03 * rng.random(900), 48.842 + 0.025 * rng.random(900)
    tower = (x > 2.32) + 2 * (y > 48.855)
    rows = [
        f"{k % 60},2024-03-04T{k % 24:02d}:10:00+01:00,{x[k]:.6f},{y[k]:.6f},t{tower[k]}"
        for k in range(900)
    ]
    (home / "points.csv").write_text(
        "user,time,lon,lat\n" + "".join(f"{row.rsplit(',', 1)[0]}\n" for row in rows)
    )
    (home / "named.csv").write_text(
        "user,time,tower\n"
        + "".join(",".join(np.array(row.split(","))[[0, 1, 4]]) + "\n" for row in rows)
    )
    masts = "t0,2.31,48.848\nt1,2.33,48.848\nt2,2.31,48.862\nt3,2.33,48.862\n"
    (home / "towers.csv").write_text(f"tower_id,lon,lat\n{masts}")
    (home / "bad.csv").write_text(f"tower_id,lon,lat\n{masts}lost,,\n")
    shapes = [
        shapely.box(2.30 + 0.02 * i, 48.84 + 0.015 * j, 2.32 + 0.02 * i, 48.855 + 0.015 * j)
        for j in range(2)
        for i in range(2)
    ]
    frame = geopandas.GeoDataFrame(
        {"alpha": [1, 1, 1, 1], "beta": list("abcd"), "called": ["A", "B", "C", "D"]},
        geometry=shapes, crs="EPSG:4326",
    )  # fmt: skip
    frame.to_file(home / "zones.geojson")
    frame.to_file(home / "areas.gpkg", layer="wards")
    frame.iloc[:1].to_file(home / "areas.gpkg", layer="other")
    crossing = shapely.Polygon([(2.30, 48.84), (2.34, 48.87), (2.34, 48.84), (2.30, 48.87)])
    bow = geopandas.GeoDataFrame({"beta": ["x"]}, geometry=[crossing], crs="EPSG:4326")
    bow.to_file(home / "crossing.geojson")
    ledger = Ledger(home / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=1000, delta=1e-3))
    ledger.add_dataset("town", Cap(epsilon=1000, delta=1e-3), Unit.parse("user-day"))
    return home


@pytest.mark.parametrize("said", SAID)
def test_what_was_made_in_these_words_is_used_in_these_words(
    said: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    places, events = SAID[said], "named.csv" if "towers" in said else "points.csv"
    name = said.replace(" ", "-")

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments), prog_name="sfumato")
        assert done.exit_code == 0, (arguments, done.output, done.exception)
        return done.stdout

    paid = ("--dataset", "town", "--epsilon", "50", "--ledger", "ledger.sqlite", "--quiet")
    people = ("--delta", "1e-4", "--expected-users", "60")
    noise = ("--scheme", "gaussian", *people)
    run("plan", *places, *PERIOD, "--epsilon", "1", *noise, "--no-rehearse")
    run("release", events, *places, *PERIOD, *paid, *noise, "--anyway",
        "--out", f"release-{name}")  # fmt: skip
    run("stream", events, *places, *PERIOD, *paid, "--scheme", "sample", "--out", f"stream-{name}",
        "--name", f"stream-{name}")  # fmt: skip
    run("inspect", events, *places)
    made = sfumato.read_release(f"release-{name}")
    assert made.manifest.released.kind == ("towers" if said == "towers" else "zones")
    for folder in (f"release-{name}", f"stream-{name}"):
        found = run("evaluate", folder, "--events", events, *places, "--json", "--no-earth-mover",
                    "--out", f"internal-{folder}")  # fmt: skip
        (figures,) = json.loads(found)["internal"]
        assert figures["mean_absolute_error"] < 30
        run("attack", folder, "--events", events, *places, "--quiet", "--seeds", "1",
            "--group", "0", "--out", f"internal-{folder}")  # fmt: skip
        run("report", folder, "--out", f"{folder}.html", "--quiet")
        run("export", folder, f"aggregates-{folder}", "--to", "flowkit", "--quiet")


def test_other_places_than_those_of_the_release_are_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    paid = ("--dataset", "town", "--epsilon", "50", "--ledger", "ledger.sqlite", "--quiet")
    noise = ("--scheme", "gaussian", "--delta", "1e-4", "--expected-users", "60")
    run = CliRunner().invoke
    done = run(app, ["release", "points.csv", *SAID["squares"], *PERIOD, *paid, *noise,
                     "--anyway", "--out", "other"])  # fmt: skip
    assert done.exit_code == 0, done.output
    for places in (SAID["hexagons"], SAID["zones"], ("--grid", "2km", "--region", BOX)):
        for command in ("evaluate", "attack"):
            refused = run(app, [command, "other", "--events", "points.csv", *places, "--quiet"])
            assert refused.exit_code != 0
            assert "places" in str(refused.exception)
