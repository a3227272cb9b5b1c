"""Which column is what, file by file: the remedies that are printed work, and so do numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import shapely
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import InputError
from sfumato.io.towers import read_towers
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.release import Release, read_release

PERIOD = ("--from", "2024-03-04", "--to", "2024-03-05", "--slot", "6h", "--tz", "Europe/Paris")
PRICE = ("--epsilon", "50", "--delta", "1e-4", "--expected-users", "40")
MASTS = (("t0", 2.31, 48.848), ("t1", 2.33, 48.848), ("t2", 2.31, 48.862), ("t3", 2.33, 48.862))
MEANT = {
    "user": "Wer", "time": "Wann", "place": "Wo", "zones.id": "Gebiet",
    "towers.id": "Mast", "towers.lon": "Ost", "towers.lat": "Nord",
}  # fmt: skip
"""What the files below call the parts: no name that anybody would recognise."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty people at four towers in four zones, in files with foreign names and without any."""
    import geopandas

    home = tmp_path_factory.mktemp("columns")
    rows = [f"{k % 40};2024-03-04T{k % 24:02d}:10:00+01:00;x;t{k % 4}" for k in range(400)]
    (home / "events.csv").write_text("\n".join(["Wer;Wann;Was;Wo", *rows, ""]))
    (home / "bare.txt").write_text("\n".join([*rows, ""]))
    masts = [f"LTE,{key},9,{lon},{lat}" for key, lon, lat in MASTS]
    (home / "towers.csv").write_text("\n".join(["Art,Mast,Hoch,Ost,Nord", *masts, ""]))
    (home / "bare.csv").write_text("\n".join([*masts, ""]))
    corners = [(2.30 + 0.02 * i, 48.84 + 0.015 * j) for j in range(2) for i in range(2)]
    shapes = [shapely.box(x, y, x + 0.02, y + 0.015) for x, y in corners]
    frame = geopandas.GeoDataFrame({"Gebiet": list("abcd")}, geometry=shapes, crs="EPSG:4326")
    frame.to_file(home / "zones.geojson")
    ledger = Ledger(home / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=10_000, delta=0.5))
    return home


def run(home: Path, *words: str) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        done = CliRunner().invoke(app, [*words])
    return done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split())


def released(home: Path, name: str, *words: str) -> Release:
    places = ("--zones", "zones.geojson", "--zone-id", "Gebiet", "--dataset", "town")
    scheme = ("--scheme", "gaussian", "--ledger", "ledger.sqlite", "--out", name)
    code, said = run(home, "release", *words, *places, *PERIOD, *PRICE, *scheme)
    assert code == 0, said
    return read_release(home / name)


def test_following_the_remedies_leads_to_a_release(home: Path) -> None:
    """Every error names a spelling, and the spelling works: no other help is needed."""
    words = ["release", "events.csv", "--towers", "towers.csv", "--zones", "zones.geojson"]
    words += [*PERIOD, *PRICE, "--dataset", "town", "--scheme", "gaussian"]
    words += ["--ledger", "ledger.sqlite", "--out", "followed"]
    asked: list[str] = []
    for _ in range(len(MEANT) + 1):
        code, said = run(home, *words)
        if code == 0:
            break
        found = re.findall(r"--column ([a-z.]+)=NAME", said)
        assert found or "--zone-id NAME" in said, said
        fresh = [key for key in found if key not in asked]
        for key in fresh:
            words += ["--column", f"{key}={MEANT[key]}"]
        if "--zone-id NAME" in said:
            words += ["--zone-id", "Gebiet"]
        assert fresh or "--zone-id NAME" in said, f"told again: {said}"
        asked += fresh
    assert code == 0
    assert {"towers.id", "towers.lon", "towers.lat", "user", "time", "place"} <= set(asked)


def test_columns_by_number_read_files_without_a_header(home: Path) -> None:
    """The same release from files with and without headers, under one key's noise apart."""
    named = [f"--column={key}={name}" for key, name in MEANT.items()]
    there = released(home, "named", "events.csv", "--towers", "towers.csv", *named)
    numbers = {"user": 1, "time": 2, "place": 4, "towers.id": 2, "towers.lon": 4, "towers.lat": 5}
    numbered = [f"--column={key}={k}" for key, k in numbers.items()]
    bare = ("bare.txt", "--format", "ssv", "--towers", "bare.csv", *numbered)
    here = released(home, "numbered", *bare)
    assert here.manifest.counted == there.manifest.counted
    # Epsilon 50: what differs is the noise of two draws, far below the 25 people of a cell.
    assert np.abs(here.values - there.values).max() < 8


@pytest.mark.parametrize("command", ["evaluate", "attack recovery", "stream", "inspect"])
def test_every_command_with_towers_takes_roles_of_their_file(home: Path, command: str) -> None:
    code, said = run(home, *command.split(), "-h")
    assert code == 0
    assert "--towers" in said
    assert "--column" in said


def test_a_file_of_settings_may_nest_the_roles(home: Path) -> None:
    (home / "sfumato.toml").write_text(
        'towers = "towers.csv"\nzones = "zones.geojson"\n'
        'column = { user = "Wer", towers = { id = "Mast", lon = "Ost", lat = "Nord" }, '
        '"zones.id" = "Gebiet" }\n'
    )
    code, said = run(home, "plan", *PRICE, "--no-rehearse", "--config", "sfumato.toml")
    assert code == 0, said


def test_a_first_line_of_towers_that_is_no_header_is_told_so(home: Path) -> None:
    with pytest.raises(InputError, match=r"towers\.id': 1, 'towers\.lon': 2"):
        read_towers(home / "bare.csv")
    with pytest.raises(InputError, match="no such column to use as tower lat"):
        read_towers(
            home / "bare.csv", columns={"towers.id": "2", "towers.lon": "4", "towers.lat": "9"}
        )


@pytest.mark.parametrize("said", ["--column user=Wer", "--format csv", "--time-unit ms"])
@pytest.mark.parametrize("more", ["", "--dry-run"])
def test_a_pipeline_knows_its_own_columns(home: Path, said: str, more: str) -> None:
    """Its reader would pass over what is said of them, so it is refused."""
    asked = ("release", "lake", "--pipeline", "multimno", "--zoning", "nuts:3", *PERIOD, *PRICE)
    where = ("--dataset", "town", "--ledger", "ledger.sqlite", "--out", "in-vain")
    code, shown = run(home, *asked, *where, *said.split(), *more.split())
    assert code
    assert "A pipeline has places and columns of its own" in shown
