"""Malformed questions to the desk: our own errors alone, nothing charged, no record shown, in time.

What is refused leaves ledger and data as they were; what happens to be a question is answered or
refused by the budget. People's ids hold a secret that must not be seen again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import shapely
from tests.queries.fuzz import malformed
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import SfumatoError
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.records import Cap
from sfumato.queries.desk import Desk
from sfumato.queries.query import read_questions

SECRET = "imsi-208-01-4711"
TOWN = "townspeople"
NAMES = ("a", "b", "c", "d")
PERIOD: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-05", "tz": "UTC", "slot": "6h"}
LONGEST_S = 5.0
"""CPU-seconds for one question: a hundred times what the slowest takes."""


def events() -> pa.Table:
    instants = [datetime(2024, 3, 4, 6 * (k % 4) + 1, tzinfo=UTC) for k in range(200)]
    return pa.table(
        {
            "user": [f"{SECRET}-{k % 60}" for k in range(200)],
            "time": pa.array(instants, pa.timestamp("us", "UTC")),
            "tower": [NAMES[k % 3] for k in range(200)],
        }
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger" / "ledger.sqlite")
    made.initialise()
    made.add_dataset(TOWN, Cap(epsilon=0.3, delta=1e-5))
    return made


@pytest.fixture
def desk(ledger: Ledger) -> Iterator[Desk]:
    points = [shapely.Point(2.3 + k / 100, 48.8) for k in range(len(NAMES))]
    towers = Places.of(PlaceKind.TOWERS, list(NAMES), points)
    with Desk(events(), towers=towers, dataset=TOWN, delta=1e-6, ledger=ledger, **PERIOD) as opened:
        yield opened


class Listening:
    """What was asked of the data, and what it cost."""

    def __init__(self, desk: Desk, ledger: Ledger) -> None:
        self.desk, self.ledger, self.opened, self.charged = desk, ledger, 0, 0
        real = desk.source

        def source() -> Any:
            self.opened += 1
            return real()

        desk.source = source  # type: ignore[method-assign]

    def ask(self, question: Any) -> str | None:
        """The error's text, or none where there was an answer; everything else is a failure."""
        opened, start = self.opened, time.process_time()
        try:
            self.desk.ask(question)
        except SfumatoError as error:
            told = f"{error!r} {error}"
        else:
            told = None
        assert time.process_time() - start < LONGEST_S, str(question)[:200]
        before, self.charged = self.charged, len(self.ledger.book().charges)
        if told is not None:
            assert self.charged == before, "a refusal is free"
            assert self.opened == opened, "and does not look at the data"
            assert SECRET not in told
            assert len(told) < 2_000
            told.encode("utf-8", "strict")
        return told


def kept(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def fuzz(desk: Desk, ledger: Ledger, seed: int, many: int) -> tuple[int, int, int]:
    """How many were answered and refused, and by the budget: as text, and as JSON makes of it."""
    listening, answered, refused, spent_out = Listening(desk, ledger), 0, 0, 0
    for number, text in enumerate(malformed(seed, many)):
        question: Any = text
        if number % 4 == 0:
            try:
                question = json.loads(text)
            except (ValueError, RecursionError):
                question = text
        told = listening.ask(question)
        answered, refused = answered + (told is None), refused + (told is not None)
        spent_out += (told or "").startswith("BudgetRefused")
    return answered, refused, spent_out


@pytest.mark.privacy
def test_no_malformed_question_shows_a_record_or_is_charged(
    desk: Desk, ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answered, refused, spent_out = fuzz(desk, ledger, 11, 2_200)
    assert answered > 5, "some are questions after all"
    assert refused > 1_500
    assert spent_out, "and some of them the budget refuses"
    assert SECRET not in caplog.text
    assert SECRET.encode() not in kept(tmp_path)


@pytest.mark.slow
@pytest.mark.privacy
def test_twenty_thousand_malformed_questions(
    desk: Desk, ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        fuzz(desk, ledger, 12, 20_000)
    assert SECRET not in caplog.text
    assert SECRET.encode() not in kept(tmp_path)


class Odd:
    """An object whose own text is no text."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


def circle() -> dict[str, Any]:
    """A question that holds itself."""
    found: dict[str, Any] = {"measure": "visits"}
    found["zones"] = [found]
    return found


def things() -> list[Any]:
    """What a program may hand over where a question belongs."""
    odd: list[Any] = [
        None, True, 3, 3.5, float("nan"), b"{}", (), [], set(), object(), Odd(), np.zeros(3),
        datetime.now(UTC), timedelta(1), pa.table({"a": [1]}), range(3), lambda: 1, circle(),
        {1: 2}, {None: None}, {b"measure": "visits"}, {("a",): 1}, {"measure": Odd()},
    ]  # fmt: skip
    words = ("zones", "polygon", "from", "to", "hours", "weekdays", "want", "clip")
    values = [
        *odd[:18],
        np.int64(3),
        np.float64("nan"),
        np.array(["a"]),
        {"epsilon": Odd()},
        {"epsilon": np.float32(0.1)},
        {"plus_minus": np.array([1.0])},
        [Odd()],
        ["a", b"a"],
    ]
    return odd + [{"measure": "visits", word: value} for word in words for value in values]


def test_what_is_no_question_is_refused_from_python(desk: Desk, ledger: Ledger) -> None:
    listening = Listening(desk, ledger)
    told = [listening.ask(thing) for thing in things()]
    assert sum(one is not None for one in told) > 150


def test_files_of_questions_are_refused_whole(desk: Desk, ledger: Ledger, tmp_path: Path) -> None:
    """One that is no question among several: nothing is asked of any of them."""
    file = tmp_path / "questions.jsonl"
    fine = '{"measure": "visits", "want": {"epsilon": 0.1}}'
    for text in malformed(13, 150):
        file.write_bytes(f"{fine}\n{text}\n".encode("utf-8", "surrogatepass"))
        with suppress(SfumatoError):
            for one in read_questions([str(file)]):
                desk.parse(one)
    assert not ledger.book().charges


@pytest.fixture
def home(tmp_path: Path) -> Path:
    pa_csv.write_csv(events(), tmp_path / "events.csv")
    towers = [f"{name},{2.3 + k / 100},48.8" for k, name in enumerate(NAMES)]
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\n" + "\n".join(towers) + "\n")
    return tmp_path


def fuzz_command(home: Path, ledger: Ledger, seed: int, many: int) -> None:
    file = home / "question.json"
    for number, text in enumerate(malformed(seed, many)):
        given = text
        if number % 3 == 0 or "\x00" in text or not text.isprintable():
            file.write_bytes(text.encode("utf-8", "surrogatepass"))
            given = str(file)
        charged = len(ledger.book().charges)
        start = time.process_time()
        done = CliRunner().invoke(
            app,
            ["query", str(home / "events.csv"), "--towers", str(home / "towers.csv"),
             "--from", "2024-03-04", "--to", "2024-03-05", "--tz", "UTC", "--slot", "6h",
             "--dataset", TOWN, "--delta", "1e-6", "--ledger", str(home / "ledger/ledger.sqlite"),
             "--question", given],
        )  # fmt: skip
        assert time.process_time() - start < LONGEST_S, text[:200]
        assert done.exception is None or isinstance(done.exception, SfumatoError | SystemExit)
        assert SECRET not in f"{done.output}{done.exception}", text[:200]
        if done.exit_code:
            assert len(ledger.book().charges) == charged, text[:200]
    folder = home / "ledger"
    assert SECRET.encode() not in kept(folder)


@pytest.mark.privacy
def test_malformed_questions_through_the_command(home: Path, ledger: Ledger) -> None:
    fuzz_command(home, ledger, 14, 40)


@pytest.mark.slow
@pytest.mark.privacy
def test_two_thousand_malformed_questions_through_the_command(home: Path, ledger: Ledger) -> None:
    fuzz_command(home, ledger, 15, 2_000)
