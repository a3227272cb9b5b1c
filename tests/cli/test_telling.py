"""What a command says while it works: a line a stage that lasts, and nothing when it is quiet."""

from __future__ import annotations

import sys
import time
from datetime import date
from pathlib import Path

import pytest

from sfumato.cli import telling
from sfumato.cli.telling import Working
from sfumato.engine.fingerprint import PIECE
from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.model.time_grid import TimeGrid


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "PATIENCE_S", 0.1)


def test_a_stage_that_lasts_is_named_once_while_it_lasts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Working(False, "opening") as progress:
        progress("counting", -1.0)
        time.sleep(0.3)
        assert capsys.readouterr().err == "counting …\n"  # before it is over
        progress("counting", 0.5)
        progress("writing", -1.0)
    told = capsys.readouterr()
    assert told.err == told.out == ""  # opening and writing were over at once


def test_a_stage_that_lets_no_clock_run_is_named_afterwards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling.threading, "Timer", _Stopped)
    with Working(False, "compiling"):
        time.sleep(0.15)
    assert capsys.readouterr().err == "compiling …\n"


class _Stopped:
    def __init__(self, *_: object) -> None:
        self.daemon = False

    def start(self) -> None: ...

    def cancel(self) -> None: ...


def test_quiet_says_nothing_and_nothing_is_said_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Working(True, "counting") as quiet:
        quiet("more", 0.5)
        time.sleep(0.15)
    with Working(False, "counting") as over:
        pass
    over("counting", -1.0)
    time.sleep(0.15)
    told = capsys.readouterr()
    assert told.err == told.out == ""


def test_a_terminal_has_a_bar_that_names_the_stage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Working(False, "opening") as progress:
        progress("fingerprint of the input", 0.25)
        time.sleep(0.15)
    assert "fingerprint of the input" in capsys.readouterr().err


def test_the_fingerprint_of_one_large_file_does_not_stand_still(tmp_path: Path) -> None:
    (tmp_path / "towers.csv").write_text("cell_id,lon,lat\na,2.3,48.8\n")
    row = "7,2024-03-04T01:00:00Z,a\n"
    rows = row * (6 * PIECE // len(row) + 1)
    (tmp_path / "events.csv").write_text("user_id,timestamp,cell_id\n" + rows)
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "1h", "UTC")
    places = read_towers(tmp_path / "towers.csv", tz="UTC")
    told: list[tuple[str, float]] = []
    described = read_events(tmp_path / "events.csv", tz="UTC", period=grid.period)
    source = LocalSource(described, places, grid, progress=lambda *said: told.append(said))
    source.fingerprint(b"k" * 32)
    shares = [share for what, share in told if what == "fingerprint of the input"]
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
