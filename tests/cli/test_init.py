"""`sfumato init` writes a file that the commands take as it is; `sfumato doctor` finds faults."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_config import PROGRAM, leaves
from tests.cli.test_release import Shop
from typer.testing import CliRunner, Result

from sfumato.cli import doctor
from sfumato.cli.config import settings
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.model import extras
from sfumato.published.release import read_release


def run(*arguments: str, answers: str | None = None) -> Result:
    result = CliRunner().invoke(app, list(arguments), input=answers)
    if isinstance(result.exception, Exception):
        raise result.exception
    return result


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path)


FLAGS = ("--towers", "towers.csv", "--zones", "zones.geojson", "--from", "2024-03-04")


def test_the_written_file_makes_a_ledger_a_plan_and_a_release(shop: Shop) -> None:
    del shop
    said = run(
        *("init", "--yes", "--look", "--events", "events.csv", "--dataset", "the town"),
        *(*FLAGS, "--to", "2024-03-06", "--slot", "6h", "--expected-users", "1000"),
        *("--tz", "UTC", "--epsilon", "0.5", "--ledger", "mine/ledger.sqlite"),
    )
    assert "internal: looking at events.csv" in said.output
    text = Path("sfumato.toml").read_text()
    assert text.count("#") > 10
    assert tomllib.loads(text)["delta"] == 1e-4
    with_file = ("--config", "sfumato.toml")
    run("ledger", "init", *with_file)
    assert Path("mine/ledger.sqlite").is_file()
    run("plan", *with_file, "--no-rehearse", "--scheme", "gaussian")
    run("release", *with_file, "--out", "first", "--scheme", "gaussian", "--quiet", "--anyway")
    assert read_release("first").manifest.privacy.epsilon <= 0.5
    for names in leaves(PROGRAM):
        settings(Path("sfumato.toml"), names, PROGRAM)  # no command refuses it


def test_questions_are_asked_for_what_flags_do_not_say(shop: Shop) -> None:
    del shop
    answers = ["city", "events.csv", "towers.csv", "-", "2024-03-04", "2024-03-06", "1d"]
    answers += ["Europe/Paris", "50000", "0.4", "1e-6", "3"]
    run("init", answers="\n".join(answers) + "\n")
    found = tomllib.loads(Path("sfumato.toml").read_text())
    assert found["towers"] == "towers.csv"
    assert "zones" not in found
    assert (found["slot"], found["tz"]) == ("1d", "Europe/Paris")
    assert (found["expected-users"], found["epsilon"]) == (50_000, 0.4)
    assert (found["cap-epsilon"], found["cap-delta"]) == (3, 1e-6)


def test_what_nobody_stated_is_left_empty_and_asked_for_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of people and no week are made up: they would pass for public knowledge."""
    monkeypatch.chdir(tmp_path)
    grid = ("--region", "2.2,48.8,2.4,48.9", "--grid", "5km")
    told = run("init", "--yes", *grid, "--dataset", "taxis").output
    found = tomllib.loads(Path("sfumato.toml").read_text())
    facts = ("expected-users", "from", "to", "tz", "delta")
    assert {found[key] for key in (*facts, "events", "cap-delta")} == {""}
    assert all(key in told for key in facts)
    assert "places" not in told
    assert "places" in run("init", "--yes", "--out", "nowhere.toml").output
    config = ("--config", "sfumato.toml")
    for command in (["plan"], ["release", "e.csv", "--out", "x"], ["stream", "e.csv"]):
        with pytest.raises(UsageError, match="nothing is written yet") as refused:
            run(*command, *config)
        assert all(f"--{key}" in refused.value.remedy for key in facts)
        assert "--dataset" not in refused.value.remedy
    with pytest.raises(UsageError, match="nothing is written yet for cap-delta"):
        run("ledger", "init", *config)
    stated = ("--from", "2008-02-02", "--to", "2008-02-09", "--tz", "Asia/Shanghai")
    with pytest.raises(UsageError, match="yet for delta, expected-users"):
        run("plan", *config, *stated)  # flags win over what is empty
    run("plan", *config, *stated, "--delta", "1e-6", "--expected-users", "10000", "--no-rehearse")


def test_piped_questions_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for answers in ("", "city\n"):
        with pytest.raises(UsageError, match="The input ended at the question") as refused:
            run("init", answers=answers)
        assert "--yes" in refused.value.remedy
        assert not Path("sfumato.toml").exists()
    run("init", answers="\n" * 20)  # Enter for each, never twice for one
    assert tomllib.loads(Path("sfumato.toml").read_text())["expected-users"] == ""
    run("init", "--force", "--grid", "1km", answers="\n" * 20)
    assert tomllib.loads(Path("sfumato.toml").read_text())["region"] == ""


def test_the_written_file_takes_the_ledger_where_the_tutorial_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("init", "--yes", *FLAGS, "--dataset", "taxis", "--expected-users", "10000")
    file = Path("sfumato.toml")
    file.write_text('ledger = "mine.sqlite"  # as in the tutorial\n' + file.read_text())
    run("ledger", "init", "--config", "sfumato.toml")
    assert Path("mine.sqlite").is_file()
    for names in leaves(PROGRAM):
        open_facts = {"end", "tz", "events"}
        found = settings(file, names, PROGRAM, open_facts)
        assert found.get("cap_epsilon") in {None, "2"}
    assert "cap_epsilon" not in settings(file, ["ledger", "allow"], PROGRAM)


def test_a_file_is_not_written_over_and_nonsense_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sfumato.toml").write_text("mine")
    with pytest.raises(UsageError, match="already"):
        run("init", "--yes", *FLAGS)
    assert Path("sfumato.toml").read_text() == "mine"
    for wrong in (["--from", "monday"], ["--to", "2024-03-04"], ["--epsilon", "-1"]):
        with pytest.raises(UsageError):
            run("init", "--yes", "--force", *FLAGS, *wrong)
    assert Path("sfumato.toml").read_text() == "mine"
    run("init", "--yes", "--force", *FLAGS)
    assert "dataset" in Path("sfumato.toml").read_text()


def checks(*arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    result = CliRunner().invoke(app, ["doctor", "--json", *arguments])
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(result.stdout)["checks"]:
        found.setdefault(one["check"], []).append(one)
    return result.exit_code, found


def test_a_healthy_ledger_is_said_to_be_one(shop: Shop) -> None:
    code, found = checks("--ledger", str(shop.ledger))
    assert code == 0
    assert {"numpy", "compiled code", "extra postgres", "time zones"} <= set(found)
    assert found["ledger"][0]["status"] == found["keys"][0]["status"] == "ok"
    assert found["data set city"][0]["status"] == "ok"
    code, none = checks("--ledger", "nowhere/ledger.sqlite")
    assert (code, none["ledger"][0]["status"]) == (0, "absent")
    assert "ledger init" in none["ledger"][0]["do"]


@pytest.mark.privacy
def test_keys_that_others_may_read_are_named_with_what_to_do(shop: Shop) -> None:
    key = shop.ledger.with_suffix(".key")
    for mode, who in ((0o644, "everybody"), (0o640, "its group")):
        key.chmod(mode)
        code, found = checks("--ledger", str(shop.ledger))
        assert code == 1
        assert found["keys"] == [
            {
                "check": "keys",
                "status": "wrong",
                "found": f"{key} can be read by {who}",
                "do": f"chmod 600 '{key}'",
            }
        ]
    key.unlink()
    code, found = checks("--ledger", str(shop.ledger))
    assert code == 1
    assert found["ledger's key"][0]["status"] == "wrong"


def test_an_altered_ledger_a_clock_that_is_behind_and_a_closed_folder(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        class Early(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                del tz
                return datetime(2000, 1, 1, tzinfo=UTC)

        patch.setattr(doctor, "datetime", Early)
        code, found = checks("--ledger", str(shop.ledger))
        assert (code, found["clock"][0]["status"]) == (1, "wrong")
    monkeypatch.setattr(doctor, "_may_write", lambda _: False)
    monkeypatch.setattr("sfumato.model.compiled.compiled_folders", lambda _: ())
    code, found = checks("--ledger", str(shop.ledger))
    assert code == 1
    assert found["releases"][0]["status"] == "wrong"
    assert found["compiled code"][0]["status"] == "absent"
    with sqlite3.connect(shop.ledger) as connection:
        connection.execute("DROP TRIGGER sfumato_no_UPDATE")
        connection.execute("UPDATE sfumato_entries SET payload = replace(payload, 'city', 'town')")
    code, found = checks("--ledger", str(shop.ledger))
    assert code == 1
    assert found["ledger"][0]["status"] == "wrong"


def test_an_extra_that_is_not_there_is_no_fault(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    code, found = checks("--ledger", str(shop.ledger))
    assert code == 0
    assert "pip install 'matplotlib>=" in found["extra plots"][0]["do"]


@pytest.mark.parametrize("flag", ["--events", "--ledger"])
def test_a_password_is_not_written_down(flag: str, tmp_path: Path) -> None:
    out = tmp_path / "t.toml"
    address = "postgresql://u:SECRET@db.example/d/s.t"
    said = ["init", "--yes", flag, address, "--zones", "z.geojson", "--out", str(out)]
    refused = CliRunner().invoke(app, said)
    assert isinstance(refused.exception, UsageError)
    assert "SECRET" not in str(refused.exception)
    assert not out.exists()


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    out = tmp_path / "t.toml"
    done = CliRunner().invoke(app, ["init", "--yes", "--zones", "z.geojson", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert out.stat().st_mode & 0o077 == 0


TAXI = "{0},2008-02-02 15:36:08,116.51172,39.92123\n{0},2008-02-08 15:46:08,116.51135,39.93883\n"


def _taxis(home: Path) -> None:
    """Text files as T-Drive is distributed, and a list of towers that they cannot name."""
    (home / "taxis").mkdir()
    for number in range(1, 31):
        (home / "taxis" / f"{number}.txt").write_text(TAXI.format(number))
    (home / "towers.csv").write_text("tower_id,lon,lat\nt1,116.4,39.9\n")


def test_nothing_is_taken_from_taxis_of_2008(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither their days nor their number; and no day of this year instead."""
    monkeypatch.chdir(tmp_path)
    _taxis(tmp_path)
    flags = ("--events", "taxis", "--grid", "1km", "--region", "116.2,39.8,116.6,40.05")
    run("init", "--yes", "--look", *flags, "--dataset", "taxis")
    text = Path("sfumato.toml").read_text()
    found = tomllib.loads(text)
    facts = ("expected-users", "from", "to", "tz", "delta", "cap-delta")
    assert {found[key] for key in facts} == {""}
    assert found["events"] == "taxis"
    assert "2008" not in text
    assert str(datetime.now(UTC).year) not in text
    said = run(
        "init", "--force", answers="taxis\ntaxis\n-\n-\n1km\n116.2,39.8,116.6,40.05\n" + 20 * "\n"
    )
    assert "people" in said.output
    assert {tomllib.loads(Path("sfumato.toml").read_text())[key] for key in facts} == {""}


@pytest.mark.parametrize("answers", [None, "taxis\ntaxis\ntowers.csv\n" + 20 * "\n"])
def test_towers_that_taxis_cannot_name_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    _taxis(tmp_path)
    asked = ("--yes", "--events", "taxis", "--towers", "towers.csv") if answers is None else ()
    with pytest.raises(UsageError, match="coordinates and no tower"):
        run("init", *asked, answers=answers)
    assert not Path("sfumato.toml").exists()
