"""The command end to end: a crowd, a release of it, the attack on both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.city.crowd import CrowdPlan, write_crowd
from sfumato.cli.main import app

RUN = CliRunner()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    write_crowd(CrowdPlan(people=150, days=1, columns=12, rows=10), folder / "crowd")
    ledger = ["--ledger", str(folder / "ledger.db")]
    done = RUN.invoke(
        app,
        [
            "ledger",
            "init",
            "--dataset",
            "town",
            "--cap-epsilon",
            "5",
            "--cap-delta",
            "1e-3",
            *ledger,
        ],
    )
    made = RUN.invoke(
        app,
        [
            "release", str(folder / "crowd" / "events.parquet"), "--out", str(folder / "week"),
            "--dataset", "town", "--epsilon", "1", "--delta", "1e-4", "--from", "2008-02-04",
            "--to", "2008-02-05", "--tz", "Asia/Shanghai", "--scheme", "gaussian",
            "--zones", str(folder / "crowd" / "zones.geojson"), *ledger,
        ],
    )  # fmt: skip
    assert made.exit_code == 0, (done.output, made.output, made.exception)
    return folder


def test_a_release_is_attacked_beside_the_truth(home: Path) -> None:
    ran = RUN.invoke(
        app,
        [
            "attack", str(home / "week"), "--events", str(home / "crowd" / "events.parquet"),
            "--zones", str(home / "crowd" / "zones.geojson"), "--seeds", "2", "--group", "0",
            "--out", str(home / "internal"), "--json",
        ],
    )  # fmt: skip
    assert ran.exit_code == 0, (ran.output, ran.exception)
    said = json.loads((home / "internal" / "internal-attack.json").read_text())
    assert json.loads(ran.stdout) == said
    names = [table["table"] for table in said["tables"]]
    assert names[:3] == ["no protection", "suppressed below 5", "suppressed below 15"]
    assert len(names) == 4
    true, _, _, noisy = (table["scores"]["greedy"]["mean"] for table in said["tables"])
    assert true > noisy + 0.1
    text = (home / "internal" / "internal-attack.md").read_text()
    assert "must not be published" in text
    assert (home / "internal" / "internal-attack.png").exists()


def test_a_release_of_other_places_is_refused(home: Path) -> None:
    other = home / "other"
    write_crowd(CrowdPlan(people=20, days=1, columns=8, rows=8), other)
    ran = RUN.invoke(
        app,
        [
            "attack", "recovery", str(home / "week"), "--zones", str(other / "zones.geojson"),
            "--events", str(other / "events.parquet"),
        ],
    )  # fmt: skip
    assert ran.exit_code != 0
    assert "not about these places" in str(ran.exception)
