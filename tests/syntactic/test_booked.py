"""What is published by rules stands in the ledger: before it leaves, unbounded, and said later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from typer.testing import CliRunner

import sfumato
import sfumato_lab
from sfumato.cli.main import app
from sfumato.errors import LedgerError, UsageError
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.ledger.views import history, show, verify
from sfumato.privacy.ledger.views import plan as planned
from sfumato.published.statement import by_rules_words
from sfumato_lab.syntactic import anonymise
from sfumato_lab.syntactic.published import internal_folder

DAY: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-05", "slot": "6h", "tz": "UTC"}
FIRST = "the first release about these people"
UNCOVERED = "does not cover what was published about these people by rules and without noise: 1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """40 people at two towers, and a ledger that knows them, those linked to them, and others."""
    towers = "tower_id,lon,lat\na,2.30,48.8\nb,2.31,48.8\n"
    (tmp_path / "towers.csv").write_text(towers)
    write_events(tmp_path, 40)
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    for name in ("town", "twin", "others"):
        book.add_dataset(name, Cap(epsilon=3, delta=1e-6))
    book.link(["town", "twin"])
    return tmp_path


def write_events(home: Path, people: int) -> None:
    rows = [
        f"u{u},2024-03-04T{6 * t + 1:02d}:00:00Z,{'ab'[(u + t) % 2]}\n"
        for u in range(people)
        for t in range(4)
    ]
    (home / "events.csv").write_text("user,time,tower\n" + "".join(rows))


def counts(home: Path, name: str = "few", dataset: str = "town", **more: Any) -> Any:
    given = {"k": 5, "attack": False, **DAY} | more
    return sfumato_lab.anonymise_counts(
        home / "events.csv",
        towers=home / "towers.csv",
        out=home / name,
        dataset=dataset,
        ledger=home / "ledger.sqlite",
        **given,
    )


def release(home: Path, name: str, dataset: str = "town", epsilon: float = 0.5) -> Path:
    made = sfumato.release(
        home / "events.csv",
        towers=home / "towers.csv",
        out=home / name,
        dataset=dataset,
        epsilon=epsilon,
        delta=1e-6,
        scheme="gaussian",
        anyway=True,
        ledger=home / "ledger.sqlite",
        **DAY,
    )
    return made.folder


def book_of(home: Path) -> Any:
    return Ledger(home / "ledger.sqlite").book()


def texts(folder: Path) -> dict[str, str]:
    """What a reader of a folder sees, white space aside."""
    names = ("README.txt", "index.html", "manifest.json")
    return {name: " ".join((folder / name).read_text("utf-8").split()) for name in names}


@pytest.mark.privacy
def test_every_later_release_says_that_epsilon_does_not_cover_it(home: Path) -> None:
    assert FIRST in texts(release(home, "before"))["README.txt"]
    counts(home)
    for name, dataset, many in (("after", "town", 2), ("of-the-twin", "twin", 3)):
        said = texts(release(home, name, dataset, 0.3))
        manifest = json.loads(said["manifest.json"])
        assert manifest["privacy"]["cumulative"]["by_rules"] == 1
        assert manifest["privacy"]["cumulative"]["releases"] == many
        assert UNCOVERED in said["README.txt"]
        assert UNCOVERED in said["index.html"]
        assert FIRST not in said["README.txt"]
    said = texts(release(home, "of-others", "others"))
    assert FIRST in said["README.txt"]
    assert json.loads(said["manifest.json"])["privacy"]["cumulative"]["by_rules"] == 0
    assert not any(UNCOVERED in text for text in said.values())


@pytest.mark.privacy
def test_a_first_release_after_it_is_not_called_the_first_about_these_people(home: Path) -> None:
    counts(home)
    said = texts(release(home, "after"))
    assert FIRST not in said["README.txt"]
    assert f"the first with noise. {by_rules_words(1)}" in said["README.txt"]
    assert "the first about these people" not in sfumato.read_release(home / "after")._repr_html_()
    assert UNCOVERED in said["index.html"]


def test_streams_and_traces_say_it_too(home: Path) -> None:
    from sfumato.privacy.events import Unit

    ledger = Ledger(home / "ledger.sqlite")
    ledger.add_dataset("town", Cap(epsilon=3, delta=1e-6), Unit.parse("user-day"))
    ledger.add_dataset("town", Cap(epsilon=900, delta=1e-6), Unit.parse("point:200m"))
    counts(home)
    common: dict[str, Any] = {"dataset": "town", "ledger": ledger}
    sfumato.stream(
        home / "events.csv", towers=home / "towers.csv", epsilon=1, out=home / "stream",
        scheme="rhythm", expected_users=40, **DAY, **common,
    )  # fmt: skip
    (home / "walks.csv").write_text("user,time,lon,lat\nu,2024-03-04T01:00:00Z,2.3,48.8\n")
    sfumato.sanitise(
        home / "walks.csv", out=home / "traces", expected_noise="100m", most_reports=4,
        start="2024-03-04", end="2024-03-05", tz="UTC", **common,
    )  # fmt: skip
    for name in ("stream", "traces"):
        readme = " ".join((home / name / "README.txt").read_text("utf-8").split())
        assert by_rules_words(1) in readme, name
        assert "SHAKE-256" in readme, name


@pytest.mark.privacy
def test_it_counts_nothing_and_refuses_nothing(home: Path) -> None:
    release(home, "before", epsilon=2.9)
    spent = show(book_of(home), "town")["datasets"][0]
    counts(home)
    after = show(book_of(home), "town")["datasets"][0]
    assert after.pop("by_rules") == 1
    assert spent.pop("by_rules") == 0
    assert after == spent


@pytest.mark.privacy
@pytest.mark.parametrize("kill", ["the table", "the manifest"])
def test_the_row_is_there_before_anything_leaves(
    home: Path, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    """Killed on the way it stays, and a rerun adds its own: what was seen nobody can know."""
    target = "_write_table" if kill == "the table" else "write_bytes"

    def killed(*_: object) -> None:
        assert len(book_of(home).rules_about("town")) == 1
        raise KeyboardInterrupt

    with monkeypatch.context() as on:
        on.setattr(f"sfumato_lab.syntactic.published.{target}", killed)
        with pytest.raises(KeyboardInterrupt):
            counts(home)
    assert not (home / "few" / "manifest.json").exists()
    rmtree(home / "few", ignore_errors=True)
    made = counts(home)
    rows = book_of(home).rules_about("town")
    assert [row["name"] for row in rows] == ["few", "few"]
    assert made.manifest["ledger"] == {"id": book_of(home).ledger_id, "row": rows[-1]["row"]}
    assert made.manifest["dataset"] == "town"


@pytest.mark.privacy
def test_the_row_holds_nothing_that_was_read(home: Path) -> None:
    """One person more: another table, the same row but for its random id and its time."""
    rows = []
    for people in (40, 41):
        write_events(home, people)
        counts(home)
        rows.append(dict(book_of(home).rules_about("town")[-1]))
    for row in rows:
        assert len(row.pop("publication")) == 32
        del row["time"], row["row"]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("more", "wrong", "words"),
    [
        ({"dataset": "village"}, UsageError, "no data set 'village'"),
        ({"ledger": "nowhere.sqlite"}, LedgerError, "There is no ledger"),
    ],
)
def test_whose_people_is_asked_before_a_record_is_read(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
    wrong: type[Exception],
    words: str,
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setattr(anonymise, "read_people", _never)
    given = {"dataset": "town", "ledger": "ledger.sqlite", "towers": "towers.csv"} | more
    verbs: list[Callable[[], Any]] = [
        lambda: sfumato_lab.anonymise_counts("events.csv", k=5, out="few", **DAY, **given),
        lambda: sfumato_lab.anonymise_answers(
            "nothing.csv",
            {"measure": "visits"},
            auditor="simulatable",
            least=9,
            log="asked.internal.jsonl",
            **DAY,
            **given,
        ),
        lambda: sfumato_lab.anonymise_traces(
            "events.csv", k=5, method="km", out="few", **DAY, **given
        ),
    ]
    for verb in verbs:
        with pytest.raises(wrong, match=words):
            verb()
    assert not internal_folder(home / "few").exists()


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a record was read")


@pytest.mark.privacy
@pytest.mark.parametrize("zones", [["a", "b"], ["a"]])
def test_every_set_of_exact_answers_has_a_row_answered_or_not(home: Path, zones: list[str]) -> None:
    """Whether it is answered may hang on the records; the row does not."""
    told = sfumato_lab.anonymise_answers(
        home / "events.csv", {"measure": "visits", "zones": zones}, towers=home / "towers.csv",
        auditor="anyone", expected_users=500, least=30, log=home / "asked.internal.jsonl",
        out=home / "told", dataset="town", ledger=home / "ledger.sqlite", **DAY,
    )  # fmt: skip
    (row,) = book_of(home).rules_about("twin")
    assert row["settings"] == {"auditor": "anyone", "least": 30, "questions": 1}
    manifest = json.loads((home / "told" / "manifest.json").read_text())
    assert manifest["ledger"]["row"] == row["row"]
    assert manifest["dataset"] == "town"
    assert len(told.values) == 1


def test_what_is_refused_leaves_no_row(home: Path) -> None:
    with pytest.raises(UsageError):
        sfumato_lab.anonymise_traces(
            home / "events.csv", towers=home / "towers.csv", method="km", k=99, out=home / "few",
            dataset="town", ledger=home / "ledger.sqlite", **DAY,
        )  # fmt: skip
    assert not book_of(home).rules_about("town")


def test_the_ledgers_own_commands_say_it(home: Path) -> None:
    counts(home)
    release(home, "after")
    found = book_of(home)
    entries = history(found, "twin")
    assert [entry["status"] for entry in entries] == ["published by rules", "committed"]
    assert entries[0]["cost"] is None
    assert entries[0]["method"] == "counts"
    assert not history(found, "others")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["ledger", *words, "--ledger", str(home / "ledger.sqlite")])
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    for words in (
        ("show",),
        ("plan", "--dataset", "town", "--epsilon", "0.1", "--delta", "1e-6"),
    ):
        assert UNCOVERED in run(*words)
    assert "published by rules, begun" in run("history")
    assert "no bound" in run("history")
    assert run("verify").startswith("sound")
    checked = run("verify", "--manifests", str(home))
    assert "its row was checked and its files were not" in checked
    assert json.loads(run("plan", *words[1:], "--json"))["by_rules"] == 1
    from sfumato.privacy.events import USER_PERIOD

    assert planned(found, "others", USER_PERIOD, 0.1, 1e-6, None)["by_rules"] == 0


@pytest.mark.privacy
def test_a_row_that_was_cut_off_is_missed_by_its_tables(home: Path) -> None:
    """`verify` reads manifests of publications by rules as it reads those of releases."""
    book = Ledger(home / "ledger.sqlite")
    counts(home)
    assert verify(book, home).sound
    path = home / "few" / "manifest.json"
    told = json.loads(path.read_text())
    told["ledger"]["row"] += 1
    path.write_text(json.dumps(told))
    (finding,) = verify(book, home).findings
    assert "is not about this publication by rules" in finding
    told["ledger"]["id"] = "elsewhere"
    path.write_text(json.dumps(told))
    assert verify(book, home).sound
