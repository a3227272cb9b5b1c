"""The tutorial's commands and programs, run as they are printed, on generated records."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.city import CityPlan, write_city
from sfumato.cli.main import app

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(toml|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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
    blocks = BLOCK.findall(TUTORIAL.read_text("utf-8"))
    assert {kind for kind, _ in blocks} == {"toml", "sh", "python"}
    for kind, text in blocks:
        if kind == "toml":
            (here / "sfumato.toml").write_text(text)
        elif kind == "python":
            exec(compile(text, "tutorial", "exec"), {})
        else:
            for line in text.replace("\\\n", " ").splitlines():
                command, *arguments = shlex.split(line)
                assert command == "sfumato"
                result = CliRunner().invoke(app, arguments)
                if isinstance(result.exception, Exception):
                    raise result.exception
                assert result.exit_code == 0, (line, result.output)
    assert (here / "week-37" / "index.html").is_file()
    assert (here / "internal-week-37").is_dir()


@pytest.mark.parametrize(
    "name",
    [
        *("tutorial.md", "schemes.md", "reproduction-paris.md"),
        *("commands/release.md", "commands/evaluate.md", "commands/reproduce.md"),
    ],
)
def test_linked_pages_are_there(name: str) -> None:
    page = TUTORIAL.parent / name
    for link in re.findall(r"\]\(([^)#:]+\.(?:md|json))(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).is_file(), link
