"""The taxi study on Cabspotting: the hour decides. Needs SFUMATO_DATA."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.attacks.trajectories import Ground
from sfumato.cli.main import app
from sfumato.errors import InputError
from sfumato_lab.studies.recovery.points import (
    CABSPOTTING,
    READINGS,
    T_DRIVE,
    read_fleet,
    taxi_study,
    windows,
)


@pytest.mark.real_data
def test_parked_cabs_are_followed_and_busy_ones_are_not() -> None:
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        pytest.skip("SFUMATO_DATA does not say where the public data sets are")
    path = Path(folder) / "cabspotting_sf" / "cabspotting_sf_2008.parquet"
    if not path.exists():
        pytest.skip("Cabspotting is not among the data")
    cells, ground = read_fleet(CABSPOTTING, path)
    assert 480 <= len(cells) <= 537
    readings = {name: READINGS[name] for name in ("prediction by day", "distance alone")}
    found = taxi_study(cells, ground, readings, lengths=(5,), hours=(2, 12), held=True)
    greedy = {h: {row.reading: row.greedy for row in rows} for h, rows in found.items()}
    assert greedy[2]["prediction by day"] > 0.594 > greedy[12]["prediction by day"]
    assert greedy[12]["prediction by day"] > greedy[12]["baseline: random"]


def test_windows_hold_taxis_that_were_seen() -> None:
    ground = Ground(np.array([[0.0, 0.0], [500.0, 0.0]]))
    cells = np.array([[0, 1, 0, 1], [0, -1, 0, 0], [-1, -1, -1, -1]], dtype=np.int32)
    assert windows(cells, ground, 0, 3, 10).cells.tolist() == [[0, 1, 0]]
    held = windows(cells, ground, 1, 2, 10, held=True)
    assert held.cells.tolist() == [[0, 1], [0, 0]]
    assert held.clock.night.tolist() == [True, True]


def test_a_bad_line_of_a_taxi_leaves_the_others(tmp_path: Path) -> None:
    good = "{},2008-02-04 00:10:00,116.30,39.90\n{},2008-02-04 00:40:00,116.31,39.90\n"
    for taxi in ("1", "2"):
        (tmp_path / f"{taxi}.txt").write_text(good.format(taxi, taxi))
    before, _ = read_fleet(T_DRIVE, tmp_path)
    assert (before[:, :2] >= 0).all()
    (tmp_path / "3.txt").write_text('"3,noon,116,39\n3,2008-02-04 00:10:00\n')
    after, _ = read_fleet(T_DRIVE, tmp_path)
    assert np.array_equal(before, after)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cabs.parquet").write_bytes(b"no taxis here")
    with pytest.raises(InputError):
        read_fleet(CABSPOTTING, tmp_path / "cabs.parquet")


def test_taxis_of_a_made_folder_after_the_printed_schemes(tmp_path: Path) -> None:
    """Figure 6b from files as T-Drive has them: a day, and one before it as the dynamic past."""
    rng = np.random.default_rng(5)
    folder = tmp_path / "taxis"
    folder.mkdir()
    for taxi in range(1, 13):
        at = rng.uniform((116.2, 39.8), (116.6, 40.0))
        lines = [
            f"{taxi},2008-02-0{day} {hour:02d}:{minute:02d}:00,{at[0] + k / 900:.5f},{at[1]:.5f}"
            for day in (3, 4)
            for k, (hour, minute) in enumerate((h, m) for h in range(7, 15) for m in (5, 35))
        ]
        (folder / f"{taxi}.txt").write_text("\n".join(lines) + "\n")
    options = ["--tdrive", str(folder), "--part", "protected-taxis", "--seeds", "1"]
    options += ["--epsilon", "1", "--people", "12", "--out", str(tmp_path / "out"), "--quiet"]
    done = CliRunner().invoke(app, ["reproduce", "recovery", *options])
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "out" / "recovery.internal.json").read_text())
    found = rows["protected-taxis:tdrive"]
    assert {row["scheme"] for row in found} == {"dir-P", "th-P", "sta-HP", "dy-HP"}
    assert all(0 <= row["greedy"] < 0.6 for row in found)
    page = (tmp_path / "out" / "recovery.internal.html").read_text("utf-8")
    assert "taxis of Beijing" in page
    assert "recovery-protected-t-drive.png" in page
