"""The command end to end: a toy city, folders of both doors, one question put to all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.city import CityPlan, write_city
from sfumato.cli.main import app
from sfumato.errors import UsageError

pytestmark = pytest.mark.xdist_group("attack anonymised")  # one costly fixture, made once

RUN = CliRunner()
PERIOD = ["--from", "2007-09-10", "--to", "2007-09-17", "--tz", "Europe/Paris"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("anonymised")
    write_city(CityPlan(users=400, towers=12, zones=9, seed=5), folder / "toy")
    book = ["--dataset", "toy", "--ledger", str(folder / "ledger.sqlite")]
    RUN.invoke(app, ["ledger", "init", *book, "--cap-epsilon", "1", "--cap-delta", "1e-6"])
    events = [str(folder / "toy" / "events.parquet")]
    said = ["--towers", str(folder / "toy" / "towers.csv"), *PERIOD, *book]
    said += ["--no-attack", "--quiet"]
    nwa = ["anonymise", "traces", *events, "--method", "never-walk-alone", "--k", "5", *said]
    commands = (
        ["anonymise", "counts", *events, "--k", "5", "--totals", "--out", str(folder / "counts"),
         *said],
        [*nwa, "--seed", "1", "--out", str(folder / "one")],
        [*nwa, "--seed", "2", "--out", str(folder / "two")],
        ["anonymise", "traces", *events, "--method", "km", "--k", "5", "--out", str(folder / "km"),
         *said],
    )  # fmt: skip
    for command in commands:
        done = RUN.invoke(app, command)
        assert done.exit_code == 0, (command[:3], done.output, done.exception)
    return folder


def _attack(home: Path, *more: str) -> Any:
    return RUN.invoke(
        app,
        [
            *("attack", "anonymised", str(home / "toy" / "events.parquet")),
            *("--towers", str(home / "toy" / "towers.csv"), "--targets", "200", "--points", "3"),
            *PERIOD,
            *more,
        ],
    )


def test_every_folder_is_asked_and_results_are_internal(home: Path) -> None:
    folders = [
        w for name in ("counts", "one", "two", "km") for w in ("--release", str(home / name))
    ]
    ran = _attack(home, *folders, "--out", str(home / "attacked"), "--json")
    assert ran.exit_code == 0, (ran.output, ran.exception)
    found = json.loads((home / "attacked" / "anonymised-attack.internal.json").read_text())
    assert json.loads(ran.stdout) == {"internal": found}
    asked = {(row["release"], row["adversary"]) for row in found["answered"]}
    for name in ("one", "two", "km"):
        assert {(name, "knows all others"), (name, "knows 3 points")} <= asked
    assert {("exact counts", "knows all others"), ("counts", "knows all others")} <= asked
    exact = next(row for row in found["answered"] if row["release"] == "exact counts")
    assert exact["found"]["value"] == 1.0
    assert [row["points"] for row in found["unicity"]["as recorded"]] == [1, 2, 3, 4, 5, 6]
    assert {row["release"] for row in found["tables"]} == {
        "suppressed below 5, with sums",
        "counts",
    }
    assert found["left"]["one and two"]["median"] >= 1
    assert set(found["groups"]) >= {"one", "two"}
    assert found["narrowed"]["km"][-1]["often"]
    page = (home / "attacked" / "anonymised-attack.internal.html").read_text()
    assert "INTERNAL" in page
    assert (home / "attacked" / "anonymised-attack.internal.json").stat().st_mode & 0o077 == 0


def test_another_period_and_a_useless_game_are_refused(home: Path) -> None:
    shorter = ["--to", "2007-09-14", "--release", str(home / "one"), "--out", str(home / "x")]
    ran = _attack(home, *shorter)
    assert isinstance(ran.exception, UsageError)
    assert "not about these places and slots" in str(ran.exception)
    ran = _attack(home, "--targets", "3", "--out", str(home / "x"))
    assert isinstance(ran.exception, UsageError)
    assert not (home / "x").exists()
