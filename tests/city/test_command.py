"""The command `sfumato city`, run as a user runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from sfumato.cli.main import run


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def sfumato(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    def call(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["sfumato", "city", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        shown = capsys.readouterr()
        return Done(int(ended.value.code or 0), shown.out, shown.err)

    return call


def test_a_city_with_everything(tmp_path: Path, sfumato: Callable[..., Done]) -> None:
    small = ["--users", "1000", "--towers", "30", "--zones", "20", "--from", "2008-03-03"]
    done = sfumato(
        *small, "--days", "3", "--match", "200", "--match-date", "2008-03-05", "--strike",
        "2008-03-04", "--id-kind", "text", "--place-activity", "0.5", "--json",
        "--out", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["plan"]["match"] == {"people": 200, "day": 2, "hour": 20, "hours": 3}
    assert said["plan"]["strike_day"] == 1
    assert said["slots"] == 72
    assert {f.name for f in tmp_path.iterdir()} == {
        "events.parquet", "towers.csv", "zones.geojson", "city.json",
    }  # fmt: skip


def test_a_crowd(tmp_path: Path, sfumato: Callable[..., Done]) -> None:
    done = sfumato("--kind", "crowd", "--users", "200", "--days", "2", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "7,600 records of 200 people" in done.stdout
    quiet = sfumato("--kind", "crowd", "--users", "9", "--quiet", "--out", str(tmp_path))
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_wrong_usage_is_explained(tmp_path: Path, sfumato: Callable[..., Done]) -> None:
    late = sfumato("--strike", "2010-01-01", "--out", str(tmp_path))
    assert late.returncode == 2
    assert "not in the period" in late.stderr
    mixed = sfumato("--kind", "crowd", "--gps", "--out", str(tmp_path))
    assert mixed.returncode == 2
    missing = sfumato("--geometry", "paris", "--data", str(tmp_path), "--out", str(tmp_path))
    assert missing.returncode == 1
    assert "iris_paris" in missing.stderr.replace("\n", "")
