"""Uses of published traces: they read what was published, say what they do not know, and fit it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.release import Release

DAY_S = 1_211_155_200
SPOTS = ((-122.42, 37.77, 9), (-122.40, 37.78, 5), (-122.44, 37.76, 3))


def fixes(users: int = 12) -> pa.Table:
    """Users stay at three places in turn, at the first for longest; all meet there at 12 past."""
    rows: dict[str, list[Any]] = {"user": [], "time": [], "lon": [], "lat": []}
    for user in range(users):
        minute = 0
        for lon, lat, minutes in SPOTS:
            for _ in range(minutes):
                rows["user"].append(f"u{user:02d}")
                rows["time"].append(DAY_S + 60 * minute)
                rows["lon"].append(lon)
                rows["lat"].append(lat)
                minute += 1
    rows["time"] = pa.array(rows["time"], pa.timestamp("s", "UTC"))
    return pa.table(rows)


def published(folder: Path, traces: pa.Table, **words: Any) -> Path:
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("cabs", Cap(epsilon=4000, delta=1e-5), Unit.parse("point:200m"))
    asked: dict[str, Any] = {"expected_noise": "60m", "most_reports": 60} | words
    sfumato.sanitise(
        traces, out=folder / "out", dataset="cabs", start="2008-05-19", end="2008-05-20",
        ledger=ledger, **asked,
    )  # fmt: skip
    return folder / "out"


@pytest.fixture(scope="module")
def cabs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("cabs"), fixes(40))


def test_the_busiest_places_are_found_through_the_noise(cabs: Path) -> None:
    found = sfumato.hotspots(cabs, number=3, side="150m", region="-122.46,37.75,-122.38,37.79")
    assert found.steps > 0
    assert [one.rank for one in found.cells] == [1, 2, 3]
    best = found.cells[0]
    metres = np.hypot((best.lon + 122.42) * 88_000, (best.lat - 37.77) * 111_200)
    assert metres < 200
    plain = sfumato.hotspots(
        cabs, number=3, side="150m", region="-122.46,37.75,-122.38,37.79", steps=0
    )
    assert plain.steps == 0
    assert found.cells[0].share > plain.cells[0].share  # noise had spread it over neighbours
    assert 0 < found.covered <= 1 + 1e-9
    assert list(found.to_pandas().columns) == ["rank", "lon", "lat", "share", "reports"]


def test_cells_that_reach_people(cabs: Path) -> None:
    found = sfumato.hotspots(cabs, number=50, by="people", side="400m")
    shares = [one.share for one in found.cells]
    assert shares == sorted(shares)
    assert found.covered == pytest.approx(shares[-1])
    assert found.covered <= 1
    assert found.steps == 0


def test_a_message_spreads_over_contacts(cabs: Path) -> None:
    wide = sfumato.spread(cabs, range="300m", slot="1min")
    near = sfumato.spread(cabs, range="5m", slot="1min")
    assert wide.users == near.users == 40
    assert wide.reached > 0.9 > near.reached >= 1 / 40
    assert wide.latency is not None
    assert wide.latency.lower <= wide.latency.median <= wide.latency.upper
    assert list(wide.curve) == sorted(wide.curve)
    assert wide.curve[-1] == pytest.approx(wide.reached)
    one_hop = sfumato.spread(cabs, range="300m", slot="1min", meaning="one-hop")
    assert one_hop.reached <= wide.reached + 1e-12


def test_windows_that_stand_still_are_drawn_in(tmp_path: Path) -> None:
    made = published(tmp_path, fixes(6), kind="printed-clock", window="2min")
    assert sfumato.spread(made, slot="1min").drawn_in


def test_an_empty_release_is_an_answer(tmp_path: Path) -> None:
    made = published(tmp_path, fixes(2).slice(0, 0))
    assert sfumato.hotspots(made, out=tmp_path / "hot").cells == ()
    told = sfumato.spread(made, out=tmp_path / "told")
    assert (told.users, told.contacts, told.latency) == (0, 0, None)
    assert (tmp_path / "told" / "index.html").is_file()


def test_pages_hold_no_script_and_say_what_is_not_known(cabs: Path, tmp_path: Path) -> None:
    sfumato.hotspots(cabs, number=5, out=tmp_path / "hot")
    sfumato.spread(cabs, slot="1min", out=tmp_path / "told")
    for folder in ("hot", "told"):
        page = (tmp_path / folder / "index.html").read_text("utf-8")
        assert "<script" not in page
        assert "interval" in page
        assert "<svg" in page
    shapes = json.loads((tmp_path / "hot" / "hotspots.geojson").read_text())
    assert len(shapes["features"]) == 5
    assert json.loads((tmp_path / "told" / "spread.json").read_text())["users"] == 40


@pytest.mark.privacy
def test_only_published_reports_are_read(cabs: Path) -> None:
    """The same folder without the ledger, the records and everything else gives the same."""
    release = sfumato.read_release(cabs)
    held = release.table()

    class Bare(Release):
        def table(self) -> pa.Table:
            return held

    bare = Bare(cabs.parent / "nowhere", release.manifest)
    assert sfumato.hotspots(bare, number=5).cells == sfumato.hotspots(cabs, number=5).cells
    assert sfumato.spread(bare).to_json() == sfumato.spread(cabs).to_json()


def test_what_makes_no_sense_is_refused(cabs: Path, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"number": 0}, {"by": "cars"}, {"steps": -1}, {"side": "0m"}, {"side": "nan"},
        {"region": "1,2,3"}, {"side": "1m", "region": "-123,37,-121,39"},
    ]  # fmt: skip
    for words in wrong:
        with pytest.raises(UsageError):
            sfumato.hotspots(cabs, **words)
    for words in ({"range": "0m"}, {"slot": "0s"}, {"slot": 0.0}, {"meaning": "two"}):
        with pytest.raises(UsageError):
            sfumato.spread(cabs, **words)
    for made in (sfumato.hotspots, sfumato.spread):
        with pytest.raises(UsageError, match="holds a release"):  # whose page would be lost
            made(cabs, out=cabs)
    assert not (cabs / "index.html").exists()
    with pytest.raises(SfumatoError):
        sfumato.hotspots(tmp_path)
    release = sfumato.read_release(cabs)
    density = replace(release, manifest=release.manifest.model_copy(update={"kind": "density"}))
    with pytest.raises(InputError, match="not a release of traces"):
        sfumato.spread(density)


def test_on_the_command_line(cabs: Path) -> None:
    run = CliRunner().invoke
    told = run(app, ["hotspots", str(cabs), "--number", "3"])
    assert told.exit_code == 0, told.output
    assert "no interval" in told.output or "without an interval" in told.output
    assert len(json.loads(run(app, ["hotspots", str(cabs), "--json"]).stdout)["features"]) == 20
    told = run(app, ["spread", str(cabs), "--slot", "1min"])
    assert told.exit_code == 0, told.output
    assert "a message reaches" in told.output
    assert json.loads(run(app, ["spread", str(cabs), "--json"]).stdout)["users"] == 40
