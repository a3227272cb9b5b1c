"""`inspect --as`: a verb carried out for the holder alone; nothing is left but its findings."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import sfumato
from sfumato import preview
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap

pytestmark = pytest.mark.privacy
CONFIG = """
dataset = "taxis"
ledger = "book/ledger.sqlite"
events = "taxis"
region = "116.3,39.8,116.6,40.0"
from = 2008-02-02
to = 2008-02-04
tz = "Asia/Shanghai"
slot = "6h"
expected-users = 40
[release]
grid = "10km"
scheme = "gaussian"
epsilon = 1
delta = 1e-4
anyway = true
[stream]
grid = "10km"
scheme = "sample"
epsilon = 1
[synth]
grid = "10km"
epsilon = 1
delta = 1e-4
anyway = true
[sanitise]
traces = "taxis"
tz = "UTC"
expected-noise = "100m"
most-reports = 5
"""
ROWS = {"release": 160, "stream": 160, "sanitise": 160, "synth": 160}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Text files in the format of T-Drive, towers that they cannot name, settings, a ledger."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "taxis").mkdir()
    for taxi in range(1, 41):
        where = [f"{116.31 + taxi / 200},{39.81 + k / 50}" for k in range(4)]
        lines = [f"{taxi},2008-02-0{2 + k % 2} {k + 9:02d}:36:08,{where[k]}\n" for k in range(4)]
        (tmp_path / "taxis" / f"{taxi}.txt").write_text("".join(lines))
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\nt1,116.4,39.9\nt2,116.5,39.8\n")
    (tmp_path / "calls.csv").write_text(
        "user,time,tower\n" + "".join(f"{k},2008-02-02T08:00:00Z,mast{k}\n" for k in range(50))
    )
    (tmp_path / "sfumato.toml").write_text(CONFIG)
    book = sfumato.Ledger("book/ledger.sqlite")
    book.initialise()
    for unit in ("user-period", "user-day", "point:200m"):
        book.add_dataset("taxis", Cap(epsilon=3, delta=1e-3), Unit.parse(unit))
    return tmp_path


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["inspect", *arguments])


def _everything(desk: Path) -> dict[str, bytes]:
    """All files and folders but those that are marked internal."""
    return {
        str(path.relative_to(desk)): path.read_bytes() if path.is_file() else b""
        for path in sorted(desk.rglob("*"))
        if "internal-" not in str(path.relative_to(desk))
    }


def _findings(path: Path) -> dict[str, Any]:
    assert path.stat().st_mode & 0o777 == 0o600
    (mark,) = (read := json.loads(path.read_text()))
    assert mark == "internal"
    found: dict[str, Any] = read[mark]
    return found


@pytest.mark.parametrize(
    "verb", ["release", "stream", "sanitise", pytest.param("synth", marks=pytest.mark.slow)]
)
def test_a_verb_from_a_file_of_settings_leaves_nothing_but_its_findings(
    desk: Path, verb: str
) -> None:
    before = _everything(desk)
    looked = _run("--as", verb, "--config", "sfumato.toml")
    assert looked.exit_code == 0, looked.output
    assert _everything(desk) == before
    assert not list((desk / "scratch").iterdir())
    said = looked.stdout.splitlines()
    assert said
    assert all(line.startswith("internal: ") for line in said)
    assert "what would count: 160 of 160 rows" in looked.stdout
    assert "what it would cost: epsilon" in looked.stdout
    assert "how good it would be" in looked.stdout
    assert "dry run" in said[-2]
    found = _findings(desk / f"internal-{verb}" / preview.FILE)
    assert found["rows"]["rows_counted"] == found["rows"]["rows_read"] == ROWS[verb]
    assert found["figures"]
    assert ("point:200m" if verb == "sanitise" else "user-") in found["cost"]["unit"]


def test_python_says_what_the_command_says(desk: Path) -> None:
    """But for the noise, whose key nobody keeps: two looks differ in it."""
    asked = {"dataset": "taxis", "ledger": "book/ledger.sqlite", "scheme": "gaussian"}
    asked |= {"start": "2008-02-02", "end": "2008-02-04", "tz": "Asia/Shanghai", "slot": "6h"}
    more: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4, "expected_users": 40, "anyway": True}
    where = {"grid": "10km", "region": "116.3,39.8,116.6,40.0"}
    before = _everything(desk)
    looked = sfumato.inspect("taxis", as_="release", asked={**asked, **more, **where})
    assert _everything(desk) == before
    assert isinstance(looked, preview.Preview)
    assert "INTERNAL" in repr(looked)
    told = _run("--as=release", "--config", "sfumato.toml", "--json", "--out", "out/release")
    (numbers,) = json.loads(told.stdout).values()
    assert numbers == _findings(desk / "out" / "internal-release" / preview.FILE)
    own = json.loads(json.dumps(looked.numbers()))
    assert own["figures"].keys() == numbers["figures"].keys()
    assert own["figures"] != numbers["figures"]
    for part in ("rows", "cost", "refusals", "name"):
        assert own[part] == numbers[part]
    with pytest.raises(UsageError, match="goes with the verb"):
        sfumato.inspect("taxis", asked=asked)


def test_towers_that_nobody_names(desk: Path) -> None:
    """What is refused is refused; what reads and would count nothing says so and exits with 0."""
    flags = ["--config", "sfumato.toml", "--towers", "towers.csv"]
    towers = desk / "towers.toml"
    towers.write_text(CONFIG.replace('grid = "10km"\n', "").replace('region = "', 'title = "'))
    flags[1] = str(towers)
    before = _everything(desk)
    refused = _run("--as", "release", *flags)
    assert isinstance(refused.exception, UsageError)
    assert "coordinates and no tower" in str(refused.exception)
    looked = _run("calls.csv", "--as", "release", *flags)
    assert looked.exit_code == 0, looked.exception
    assert "what would count: 0 of 50 rows" in looked.stdout
    assert "0 match your towers" in looked.stdout
    assert "NOTHING would be counted" in looked.stdout
    assert _everything(desk) == before


def test_what_the_ledger_would_refuse_is_told(desk: Path) -> None:
    before = _everything(desk)
    looked = _run("--as", "release", "--config", "sfumato.toml", "--epsilon", "9")
    assert looked.exit_code == 0, looked.exception
    assert "it would be refused: The budget does not allow" in looked.stdout
    assert _everything(desk) == before
    (desk / "sfumato.toml").write_text(CONFIG.replace("anyway = true\n", ""))
    useless = _run("--as", "release", "--config", "sfumato.toml")
    assert useless.exit_code == 0, useless.exception
    assert "it would be refused: A forecast from public facts" in useless.stdout
    unknown = _run("--as", "release", "--config", "sfumato.toml", "--dataset", "trams")
    assert isinstance(unknown.exception, UsageError)


def test_nothing_of_it_goes_into_a_published_folder(desk: Path) -> None:
    done = CliRunner().invoke(app, ["release", "--config", "sfumato.toml", "--out", "first"])
    assert done.exit_code == 0, done.exception
    before = _everything(desk)
    refused = _run("--as", "release", "--config", "sfumato.toml", "--out", "first/again")
    assert isinstance(refused.exception, UsageError)
    assert "published folder" in str(refused.exception)
    beside = _run("--as", "release", "--config", "sfumato.toml", "--out", "first")
    assert beside.exit_code == 0
    assert _everything(desk) == before
    assert (desk / "internal-first" / preview.FILE).is_file()
    assert len(sfumato.Ledger("book/ledger.sqlite").book().charges) == 1


@pytest.mark.parametrize("end", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_nothing(
    desk: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    held: list[list[str]] = []

    def stop(*_: object, **__: object) -> None:
        held.append(sorted(os.listdir(next((desk / "scratch").iterdir()))))
        raise end

    monkeypatch.setattr(preview, "evaluate", stop)
    before = _everything(desk)
    asked = _run("--as", "release", "--config", "sfumato.toml")
    assert asked.exit_code != 0
    assert "ledger.key" in held[0]
    assert _everything(desk) == before
    assert not list(desk.glob("internal-*"))


@pytest.mark.usefixtures("desk")
def test_what_is_no_look_is_refused() -> None:
    config = ["--config", "sfumato.toml"]
    for words, problem in (
        (["--as", "query", *config], "cannot be looked at"),
        (["-", "--as", "stream", *config], "nothing to read"),
        (["kafka://nowhere.invalid:9092/taxis", "--as", "stream", *config], "nothing to read"),
    ):
        refused = _run(*words)
        assert isinstance(refused.exception, UsageError), words
        assert problem in str(refused.exception)
    assert _run("--as", "release", "--resume", *config).exit_code == 2  # no such option
