"""The study on a Geolife-shaped folder, and the paper's qualitative results on real traces."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sfumato.errors import UsageError
from sfumato_lab.cli.reproduce_moving import geoind
from sfumato_lab.studies.geoind.study import hotspots, sources, spreading

HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0\n0\n"


def geolife_shaped(folder: Path, users: int = 6, fixes: int = 400) -> Path:
    """Commuters who walk between home and one office, and one track stored under two users."""
    rng = np.random.default_rng(1)
    office = np.array([116.32, 39.98])
    text = ""
    for user in range(users):
        home = np.array([116.27, 39.87]) + rng.uniform(0, 1, 2) * [0.2, 0.15]
        for day in (3, 4):
            start = datetime(2008, 11, day, 8, 0, int(rng.integers(0, 60)))
            share = np.linspace(0, 1, fixes)[:, None]
            path = home + (office - home) * share + rng.normal(0, 2e-5, (fixes, 2))
            times = [start + timedelta(seconds=5 * i) for i in range(fixes)]
            text = HEAD + "".join(
                f"{lat:.6f},{lon:.6f},0,150,39755,{t:%Y-%m-%d},{t:%H:%M:%S}\n"
                for (lon, lat), t in zip(path, times, strict=True)
            )
            home_folder = folder / "Data" / f"{user:03d}" / "Trajectory"
            home_folder.mkdir(parents=True, exist_ok=True)
            (home_folder / f"{start:%Y%m%d%H%M%S}.plt").write_text(text)
    twin = folder / "Data" / "099" / "Trajectory"
    twin.mkdir(parents=True)
    (twin / f"{start:%Y%m%d%H%M%S}.plt").write_text(text)
    return folder


def test_the_study_on_a_geolife_folder(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(geoind)
    options = ["--data", str(geolife_shaped(tmp_path / "geolife")), "--out", str(tmp_path / "out")]
    options += ["--noise", "100", "--noise", "1000", "--draws", "1", "--no-classifier"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    (result,) = json.loads((tmp_path / "out" / "geoind.internal.json").read_text())
    assert "7 users, 13 trajectories, 5,200 fixes" in result["notes"][0]
    assert "1 tracks are in the folder under two user ids" in result["notes"][1]
    rows = result["hotspots"]["rows"]
    assert rows[0]["plain"] > rows[1]["plain"]
    assert rows[1]["updated"] > rows[1]["plain"]
    assert set(result["gossip"]["rates"]) == {
        "independent",
        "2 min",
        "5 min",
        "10 min",
        "5 min, own first fix",
    }
    page = (tmp_path / "out" / "geoind.internal.html").read_text()
    assert "INTERNAL" in page
    assert "19,696" in page
    assert len(result["figures"]) == 6
    for name in result["figures"]:
        assert (tmp_path / "out" / name).stat().st_size > 1000


def test_a_folder_with_nothing_in_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no Geolife trajectories"):
        sources(tmp_path)


@pytest.fixture(scope="module")
def real() -> dict[str, object]:
    home = os.environ.get("SFUMATO_DATA")
    if not home or not (Path(home) / "cabspotting_sf").is_dir():
        pytest.skip("SFUMATO_DATA does not point to the public data sets")
    return {source.name: source for source in sources(Path(home))}


@pytest.mark.real_data
def test_hot_spots_on_real_traces(real: dict[str, object]) -> None:
    """Scores fall with noise, near-linearly; the update gains from 250 m on, on every data set."""
    for source in real.values():
        found = hotspots(source, (50.0, 250.0, 500.0, 1000.0), 1, lambda _: None).rows  # type: ignore[arg-type]
        plain = np.array([row.plain for row in found])
        assert (np.diff(plain) < 0).all()
        noise = np.array([row.noise_m for row in found])
        line = np.polyval(np.polyfit(noise, plain, 1), noise)
        assert np.abs(line - plain).max() < 0.25 * np.ptp(plain)
        for row in found[1:]:
            assert row.updated > row.plain
            assert row.stopped_early > row.plain
        assert found[0].stopped_early >= found[0].plain_low


@pytest.mark.real_data
def test_gossip_on_cabs(real: dict[str, object]) -> None:
    """The paper's five statements, on a day that nothing was chosen on."""
    groups = real["Cabspotting"].groups  # type: ignore[attr-defined]
    found = spreading(groups, (50.0, 250.0, 1000.0), 1, 1, lambda _: None)
    rates = {name: np.array(values) for name, values in found.rates.items()}
    independent, two, ten = (rates[name] for name in ("independent", "2 min", "10 min"))
    assert 0.3 < found.baseline < 0.6  # the paper: 40 %
    assert (independent > found.baseline).all()
    for name, values in rates.items():  # independent noise raises it most
        assert name == "independent" or (values < independent).all()
    assert (ten < 0.6 * found.baseline).all()  # the paper: half of the baseline
    assert two[0] == pytest.approx(found.baseline, abs=0.1)  # near it for small noise
    assert two[0] < two[1] < two[2]  # and rises with more
    assert two[2] > found.baseline + 0.03  # the paper: ten points above it
