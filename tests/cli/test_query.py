"""`sfumato query`: words, JSON, plans, batches, made-up people; errors that show no record."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.queries.conftest import TOWN, table, visits
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import BudgetRefused, InputError, SfumatoError, UsageError
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.queries.query import query, read_questions

PEOPLE = {"measure": "unique_people", "zones": ["t0"], "want": {"plus_minus": 20}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(visits()), "events.parquet")
    lines = [f"t{k},{2 + k / 100},48.0" for k in range(6)]
    Path("towers.csv").write_text("\n".join(["id,lon,lat", *lines]))
    book = Ledger()
    book.initialise()
    book.add_dataset(TOWN, Cap(epsilon=5.0, delta=1e-5))
    return tmp_path


WORDS = ["--towers", "towers.csv", "--from", "2024-01-01", "--to", "2024-01-03", "--tz", "UTC",
         "--delta", "1e-6"]  # fmt: skip


def asked(question: Any, *words: str, events: str | None = "events.parquet") -> str:
    text = question if isinstance(question, str) else json.dumps(question)
    given = [] if events is None else [events, "--dataset", TOWN]
    result = CliRunner().invoke(app, ["query", *given, *WORDS, "--question", text, *words])
    if isinstance(result.exception, Exception):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("here")
def test_an_answer_in_words_then_for_nothing_in_json() -> None:
    said = asked(PEOPLE)
    assert "unique people in t0, 48 slots" in said
    assert "charged epsilon 0.3" in said
    (told,) = json.loads(asked(PEOPLE, "--json"))["answers"]
    assert told["how"] == "stored"
    assert told["epsilon"] is None
    assert told["upper"] - told["value"] == pytest.approx(20, rel=1e-6)


def test_a_plan_and_made_up_people_spend_nothing(here: Path) -> None:
    assert "± 20 (90 %) for epsilon 0.3" in asked(PEOPLE, "--plan")
    (plan,) = json.loads(asked(PEOPLE, "--plan", "--json"))["plans"]
    assert plan["free"] is False
    (here / "events.parquet").unlink()
    assert asked(PEOPLE, "--dummy", events=None).startswith("DUMMY")
    assert not Ledger().book().charges


@pytest.mark.usefixtures("here")
def test_several_questions_one_by_one_and_together() -> None:
    many = [{"measure": "visits", "zones": [f"t{k}"]} for k in range(3)]
    Path("many.json").write_text(json.dumps(many))
    Path("lines.jsonl").write_text("\n".join(json.dumps(one) for one in many))
    for file in ("many.json", "lines.jsonl"):
        found = asked(file, "--together", "batch", "--epsilon", "1", "--json")
        assert [one["question"][:12] for one in json.loads(found)["answers"]] == [
            "visits in t0", "visits in t1", "visits in t2"
        ]  # fmt: skip
    assert len(Ledger().book().charges) == 1
    assert json.loads(found)["together"]["epsilon"] is None  # the second time it is stored
    both = asked(PEOPLE, "--question", json.dumps(PEOPLE | {"zones": ["t1"]}))
    assert len(both.splitlines()) == 2


@pytest.mark.usefixtures("here")
def test_what_a_batch_costs_is_said_once() -> None:
    many = json.dumps([{"measure": "visits", "zones": [f"t{k}"]} for k in range(3)])
    *lines, cost, last = asked(many, "--together", "batch", "--epsilon", "1").splitlines()
    assert "noise alone" in last
    assert cost == "Charged epsilon 1 at delta 1e-06 for all 3 together."
    assert not any("epsilon" in line for line in lines)
    found = json.loads(asked(many, "--together", "batch", "--epsilon", "1.5", "--json"))
    assert found["together"]["epsilon"] == pytest.approx(1.5, rel=1e-3)
    assert {one["epsilon"] for one in found["answers"]} == {None}


@pytest.mark.usefixtures("here")
def test_a_refusal_says_what_would_fit_in_the_words_of_a_question() -> None:
    with pytest.raises(BudgetRefused) as refused:
        asked(PEOPLE | {"want": {"epsilon": 80}})
    want = re.search(r"With (\{.*\}) in its `want` it would still fit", str(refused.value))
    assert want is not None
    assert "charged epsilon" in asked(PEOPLE | {"want": json.loads(want.group(1))})


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("question", "words", "error", "says"),
    [
        (PEOPLE | {"zones": ["nowhere"]}, [], InputError, "no zone 'nowhere'"),
        (PEOPLE | {"from": "2025-01-01"}, [], InputError, "2024"),
        (PEOPLE | {"want": {"share": 0.05}}, [], UsageError, "plus_minus"),
        (PEOPLE | {"sql": "1"}, [], UsageError, "no word 'sql'"),
        (PEOPLE | {"want": {"epsilon": 80}}, [], BudgetRefused, "question"),
        (PEOPLE, ["--together", "batch"], UsageError, "epsilon"),
        (PEOPLE, ["--epsilon", "1"], UsageError, "session"),
        (PEOPLE, ["--session", "a", "--epsilon", "1"], UsageError, "release"),
        (PEOPLE, ["--plan", "--session", "a", "--epsilon", "1"], UsageError, "plan"),
        (PEOPLE, ["--mechanism", "snapping"], UsageError, "laplace"),
        ("missing.json", [], InputError, "cannot be read"),
        ("[1, 2]", [], UsageError, "list of objects"),
        ("{", [], UsageError, "not JSON"),
        ('{"measure": "visits", "measure": "visits"}', [], UsageError, "twice"),
    ],
)
def test_what_is_refused(
    question: Any, words: list[str], error: type[SfumatoError], says: str
) -> None:
    with pytest.raises(error, match=says):
        asked(question, *words)
    assert not Ledger().book().charges


@pytest.mark.usefixtures("here")
def test_all_questions_are_checked_before_the_first_is_paid() -> None:
    with pytest.raises(InputError):
        query("events.parquet", [PEOPLE, PEOPLE | {"zones": ["x"]}], towers="towers.csv",
              dataset=TOWN, start="2024-01-01", end="2024-01-03", tz="UTC", delta=1e-6)  # fmt: skip
    assert not Ledger().book().charges


def test_questions_are_read_from_whatever_holds_them(tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    file.write_text(json.dumps(PEOPLE, indent=2))
    for given in (PEOPLE, json.dumps(PEOPLE), str(file), file, [PEOPLE], [file]):
        assert len(read_questions(given)) == 1
    with pytest.raises(UsageError):
        read_questions([])
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        read_questions(file)
