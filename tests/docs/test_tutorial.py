"""The tutorial's commands and programs, run as they are printed, on generated records."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.docs.pages import ROOT, blocks, run

from sfumato.city import CityPlan, write_city

TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the reader's three files."""
    write_city(CityPlan(users=4000, towers=24, zones=16, area_km2=8, seed=5), tmp_path / "city")
    records = pq.read_table(tmp_path / "city" / "events.parquet")
    pacsv.write_csv(records.rename_columns(["imsi", "ts", "bs"]), tmp_path / "calls.csv")
    (tmp_path / "city" / "towers.csv").rename(tmp_path / "antennas.csv")
    (tmp_path / "city" / "zones.geojson").rename(tmp_path / "areas.geojson")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_of_the_tutorial_runs(here: Path) -> None:
    assert {kind for kind, _ in blocks(TUTORIAL)} == {"toml", "sh", "python"}
    run(TUTORIAL)
    assert (here / "week-37" / "index.html").is_file()
    assert (here / "internal-week-37").is_dir()
