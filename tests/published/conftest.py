"""A small generated city, and the command run in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import geopandas
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.published.told import FIRST, Town
from tests.statements import manifest, manifest_of  # noqa: F401
from typer.testing import CliRunner

from sfumato.city import CityPlan, write_city
from sfumato.cli.main import app


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    folder = tmp_path_factory.mktemp("town") / "city"
    plan = CityPlan(users=1200, towers=24, zones=16, area_km2=8, days=2, seed=5, start=FIRST)
    write_city(plan, folder)
    events = pq.read_table(folder / "events.parquet")
    towers = pa_csv.read_csv(folder / "towers.csv")
    return Town(folder, events, towers, geopandas.read_file(folder / "zones.geojson"))


@pytest.fixture
def sfumato(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The command, run in an empty folder; what it says, or its error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        if isinstance(result.exception, Exception):
            raise result.exception
        assert result.exit_code == 0, (arguments, result.output)
        return str(result.stdout)

    return run
