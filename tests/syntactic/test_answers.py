"""`anonymise answers`: exact or refused, labelled for what it is, and fuzzed."""

from __future__ import annotations

import doctest
import json
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from tests.queries.fuzz import malformed
from tests.syntactic.books import town
from typer.testing import CliRunner, Result

import sfumato
import sfumato_lab
from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, parse_question
from sfumato_lab.syntactic.answers import AuditedAnswers, read_questions
from sfumato_lab.syntactic.statement import AuditorName, Statement

SECRET = "imsi-208-01-4711"
"""Part of every person's id: it must never be seen again."""
PLACES = ("a", "b", "c", "d")
DAY: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-05", "slot": "6h", "tz": "UTC"}
FLAGS = ["--from", "2024-03-04", "--to", "2024-03-05", "--slot", "6h", "--tz", "UTC"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 people in four places, a day in four slots; person u is in place u mod 3, never in d."""
    folder = tmp_path_factory.mktemp("town")
    rows = [
        f"{SECRET}-{u},2024-03-04T{6 * t + 1:02d}:00:00Z,{PLACES[(u + (u + t) % 7 // 6) % 3]}"
        for u in range(60)
        for t in range(u % 4 + 1)
    ]
    (folder / "events.csv").write_text("user,time,tower\n" + "\n".join(rows) + "\n")
    towers = [f"{name},{2.3 + k / 100},48.{80 + k % 2}" for k, name in enumerate(PLACES)]
    (folder / "towers.csv").write_text("tower_id,lon,lat\n" + "\n".join(towers) + "\n")
    return folder


def asked(home: Path, log: Path, question: Any, auditor: str, **more: Any) -> AuditedAnswers:
    said = {"least": 5} | ({"expected_users": 500} if auditor == "anyone" else {}) | more
    if auditor == "known":
        said = {"known": 60} | said
    return sfumato_lab.anonymise_answers(
        home / "events.csv", question, auditor=auditor, log=log, **town(home),
        **DAY, **said,
    )  # fmt: skip


def truth(home: Path, places: str, slots: tuple[int, ...], people: bool) -> int:
    """By hand, from the file."""
    lines = (home / "events.csv").read_text().splitlines()[1:]
    seen = {
        (user, place, int(time[11:13]) // 6) for user, time, place in (x.split(",") for x in lines)
    }
    inside = [(u, p, t) for u, p, t in seen if p in places and t in slots]
    return len({u for u, *_ in inside}) if people else len(inside)


@pytest.mark.parametrize("auditor", ["anyone", "known"])
def test_answers_are_exact(home: Path, tmp_path: Path, auditor: str) -> None:
    questions = [
        {"measure": "visits", "zones": ["a", "b"]},
        {"measure": "unique_people", "zones": ["a", "c"], "hours": "0-12"},
    ]
    found = asked(home, tmp_path / "l.internal.jsonl", questions, auditor)
    expected = (truth(home, "ab", (0, 1, 2, 3), False), truth(home, "ac", (0, 1), True))
    assert found.values == expected
    assert found.refused == 0
    assert repr(found) == f"<AuditedAnswers, NOT differential privacy: 2 given, {auditor}>"
    assert "not differential privacy" in found._repr_html_()


def test_simulatable_answers_are_exact_and_its_refusals_public(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "l.internal.jsonl"
    whole = {"measure": "visits"}
    assert asked(home, log, whole, "simulatable").values == (truth(home, "abcd", (0, 1, 2, 3), 0),)
    rest = {"measure": "visits", "zones": ["a", "b", "c"]}
    assert asked(home, log, rest, "simulatable").values == (None,)  # d alone would follow: 4 pairs
    with pytest.raises(UsageError, match="visits alone"):
        asked(home, log, {"measure": "unique_people"}, "simulatable")


def test_a_later_run_knows_what_an_earlier_one_gave(home: Path, tmp_path: Path) -> None:
    """Nobody was in d: all places and all but d give that away, each alone says nothing."""
    log = tmp_path / "l.internal.jsonl"
    assert asked(home, log, {"measure": "visits"}, "anyone").refused == 0
    both = [{"measure": "visits", "zones": ["a", "b", "c"]}, {"measure": "visits", "zones": ["a"]}]
    found = asked(home, log, both, "anyone")
    assert found.values == (None, None), "a set is refused as a whole"
    assert [str(one) for one in found.internal_reasons] == ["full disclosure"] * 2
    fresh = asked(home, tmp_path / "other.internal.jsonl", both[0], "anyone")
    assert fresh.values == (truth(home, "abc", (0, 1, 2, 3), False),)
    with pytest.raises(UsageError, match="begun with another"):
        asked(home, log, {"measure": "visits"}, "anyone", least=9)


@pytest.mark.parametrize("auditor", AuditorName)
def test_wherever_they_go_answers_say_what_they_are_not(
    home: Path, tmp_path: Path, auditor: str
) -> None:
    out = tmp_path / "answers"
    questions = [{"measure": "visits"}, {"measure": "visits", "zones": ["d"]}]
    asked(home, tmp_path / "l.internal.jsonl", questions, auditor, out=out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["privacy"]["differential_privacy"] is False
    readme = " ".join((out / "README.txt").read_text().split())
    for text in ("NOT differential privacy", *manifest["privacy"]["broken_by"]):
        assert text in readme
    assert sum("Background knowledge" in one for one in manifest["privacy"]["broken_by"]) == 1
    everything = "".join(path.read_text() for path in out.iterdir())
    for word in ("epsilon", "ε", "guarantee", "fewer than k", 'full disclosure"', SECRET):
        assert word not in everything, "neither a promise nor a reason"
    rows = (out / "answers.csv").read_text().splitlines()
    assert len(rows) == 3
    assert [one.name for one in out.iterdir()].count("manifest.json") == 1
    with pytest.raises(SfumatoError):
        sfumato.read_release(out)
    asked(home, tmp_path / "l.internal.jsonl", questions, auditor, out=out)  # and once more


def test_answers_do_not_go_into_a_release(home: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "density"}')
    with pytest.raises(UsageError, match="holds a release"):
        asked(home, tmp_path / "l.internal.jsonl", {"measure": "visits"}, "anyone", out=tmp_path)
    assert not (tmp_path / "l.internal.jsonl").exists(), "nothing was asked"


def test_every_statement_names_the_flaws_of_its_auditor() -> None:
    for name in AuditorName:
        said = " ".join(Statement(name, 5, 0.05, 100, 100).broken_by)
        assert "Background knowledge" in said
        assert ("Refusals" in said) == (name is not AuditorName.SIMULATABLE)
        assert ("coNP-hard" in said) == (name is not AuditorName.SIMULATABLE)
        assert ("not simulatable" in said) == (name is AuditorName.SIMULATABLE)


def test_known_people_come_from_a_number_or_a_table(home: Path, tmp_path: Path) -> None:
    log, all_ = tmp_path / "l.internal.jsonl", {"measure": "visits"}
    table = tmp_path / "register.csv"
    table.write_text("place,people\na,60\nb,60\nc,60\nd,1\n")
    assert asked(home, log, all_, "known", known=table).statement.known_people == 181
    for text, problem in (
        ("place,people\na,60\n", "3 places are not in it"),
        ("place,people\na,60\na,60\nb,1\nc,1\nd,1\n", "stands twice"),
        ("place,people\na,-1\nb,1\nc,1\nd,1\n", "whole numbers"),
        ("place,x\na,1\n", "no column is recognised as the people"),
    ):
        table.write_text(text)
        with pytest.raises(InputError, match=problem):
            asked(home, log, all_, "known", known=table)
    with pytest.raises(InputError, match="More people were counted"):
        asked(home, tmp_path / "n.internal.jsonl", all_, "known", known=3)


def test_what_does_not_go_together_is_refused(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "l.internal.jsonl"
    unfit: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("strict", {}, "no auditor"),
        ("anyone", {"least": 1}, "at least 2"),
        ("anyone", {"expected_users": None}, "how many people"),
        ("anyone", {"known": 5}, "Only the auditor"),
        ("anyone", {"margin": 2.0}, "share of all bits"),
        ("known", {"known": None}, "known where"),
        ("known", {"expected_users": 9}, "counted already"),
        ("simulatable", {"expected_users": 9}, "questions alone"),
        ("anyone", {"zones": home / "towers.csv"}, "whole places"),
    )
    for auditor, more, problem in unfit:
        with pytest.raises(UsageError, match=problem):
            asked(home, log, {"measure": "visits"}, auditor, **more)
    for wrong, problem in (
        ([], "`question` is empty"),
        ({"measure": "visits", "want": {"epsilon": 1}}, "no ±"),
        ({"measure": "visits", "clip": 1}, "no ±"),
        (17, "takes a text, a path, a mapping"),
    ):
        with pytest.raises(UsageError, match=problem):
            asked(home, log, wrong, "anyone")
    assert not log.exists()


def command(home: Path, log: Path, *more: str) -> Result:
    given = ["anonymise", "answers", str(home / "events.csv"), "--towers", str(home / "towers.csv")]
    given += ["--dataset", "town", "--ledger", str(town(home)["ledger"])]
    rules = ["--auditor", "anyone", "--least", "5", "--expected-users", "500", "--log", str(log)]
    return CliRunner().invoke(app, [*given, *FLAGS, *rules, *more])


def test_the_command(home: Path, tmp_path: Path) -> None:
    log, lines = tmp_path / "l.internal.jsonl", tmp_path / "questions.jsonl"
    lines.write_text('{"measure": "visits"}\n\n{"measure": "visits", "zones": ["d"]}\n')
    done = command(home, log, "--question", str(lines), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].startswith(f"{truth(home, 'abcd', (0, 1, 2, 3), False)}: ")
    assert done.stdout.splitlines()[1].startswith("refused: visits in d")
    assert "NOT differential privacy" in done.stderr
    assert "internal: question 2 was refused: fewer than k people" in done.stderr
    said = json.loads(command(home, log, "--question", str(lines), "--json").stdout)
    assert said["answers"][1] is None
    assert said["privacy"]["differential_privacy"] is False
    assert said["internal"]["refused_because"] == [None, None], "it was decided before"
    assert SECRET not in log.read_text() + done.output


FUZZED = 2_200
RUN_BY_COMMAND = 60


def test_no_malformed_question_leaves_a_traceback_or_shows_a_record() -> None:
    """Against the parser: every one is a question or one of our own errors, which can be shown."""
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "6h", "UTC")
    towers = np.array([shapely.Point(2.3 + k / 100, 48.8) for k in range(4)])
    frame = Frame(np.array(PLACES), grid, towers)
    told: list[str] = []
    for text in malformed(1, FUZZED):
        for parse in (parse_question, read_questions):
            try:
                parse(text, frame)
            except SfumatoError as error:
                told.append(str(error))
    assert FUZZED < len(told) < 2 * FUZZED
    assert max(map(len, told)) < 1_000
    assert all(text.encode() for text in told)


def fuzz_command(home: Path, tmp_path: Path, seed: int, many: int) -> None:
    """Through the command: our own errors alone, and no record in what is printed or logged."""
    log, file = tmp_path / "l.internal.jsonl", tmp_path / "questions.jsonl"
    answered = 0
    for number, text in enumerate(malformed(seed, many)):
        given = text
        if number % 3 == 0 or "\x00" in text or not text.isprintable():
            file.write_bytes(text.encode("utf-8", "surrogatepass"))
            given = str(file)
        done = command(home, log, "--question", given)
        assert done.exit_code in (0, 1, 2), text[:200]
        assert done.exception is None or isinstance(done.exception, SfumatoError | SystemExit)
        assert SECRET not in f"{done.output}{done.exception}", text[:200]
        answered += done.exit_code == 0
    assert answered or many < 500
    assert SECRET not in log.read_text()


def test_malformed_questions_through_the_command(home: Path, tmp_path: Path) -> None:
    fuzz_command(home, tmp_path, 2, RUN_BY_COMMAND)


@pytest.mark.slow
def test_two_thousand_malformed_questions_through_the_command(home: Path, tmp_path: Path) -> None:
    fuzz_command(home, tmp_path, 3, 2_000)


@pytest.mark.parametrize("name", ["answers", "auditor", "disclosure", "log", "rowspace", "truth"])
def test_examples_run(name: str) -> None:
    assert doctest.testmod(import_module(f"sfumato_lab.syntactic.{name}")).failed == 0
