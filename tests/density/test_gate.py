"""`release` asks whether it would be of use before it reads or spends anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.density import publish
from sfumato.errors import BudgetRefused, Unfit
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Cap, Ledger

FEW: dict[str, Any] = {
    "start": "2024-03-04", "end": "2024-03-06", "slot": "12h", "tz": "UTC", "dataset": "town",
    "epsilon": 0.1, "delta": 1e-4, "expected_users": 200, "name": "few",
}  # fmt: skip
PLACES = Places.of(
    PlaceKind.TOWERS, [f"t{k}" for k in range(6)], [shapely.Point(2 + k / 50, 48) for k in range(6)]
)


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=5, delta=1e-3))
    return ledger


def events(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(3)
    when = rng.integers(1_709_510_400, 1_709_683_200, rows) * 1_000_000
    return pa.table(
        {
            "user_id": rng.integers(0, 200, rows),
            "timestamp": pa.array(when, pa.timestamp("us", tz="UTC")),
            "cell_id": [f"t{k}" for k in rng.integers(0, 6, rows)],
        }
    )


@pytest.mark.privacy
def test_intervals_that_would_not_hold_are_not_printed(tmp_path: Path, book: Ledger) -> None:
    """By people, places and budget alone; the same for the table, sums and the page."""
    words = FEW | {"epsilon": 0.01, "anyway": True}
    bare = sfumato.release(events(), towers=PLACES, ledger=book, out=tmp_path / "bare", **words)
    assert bare.lower is None
    assert bare.upper is None
    assert bare.posterior is None
    assert bare.median is not None, "counts and medians are there"
    facts = bare.manifest
    assert facts.scheme.interval_coverage == 0
    assert facts.total is None
    assert facts.posterior is not None
    assert not facts.posterior.stated
    assert "noise of a place is about as large as its total" in facts.posterior.why_not
    assert bare.sum().lower is None
    assert "No intervals of sums" in str(bare.profile("slot"))
    assert not (bare.folder / "posterior.npz").exists()
    words |= {"epsilon": 1.0, "name": "sure"}
    sure = sfumato.release(events(), towers=PLACES, ledger=book, out=tmp_path / "sure", **words)
    assert sure.lower is not None
    assert sure.sum(hours="0-12").lower is not None


@pytest.mark.privacy
def test_a_refused_release_has_read_and_spent_nothing(tmp_path: Path, book: Ledger) -> None:
    """The verdict follows from public facts: the events are not even opened."""
    missing = tmp_path / "no such file.parquet"
    with pytest.raises(Unfit) as caught:
        sfumato.release(missing, towers=PLACES, ledger=book, out=tmp_path / "out", **FEW)
    assert caught.value.exit_code == 1
    assert "at most 25 %" in caught.value.problem
    assert "Nothing was read and nothing was spent" in caught.value.problem
    assert "`anyway`" in caught.value.remedy
    assert not book.book().charges
    assert not (tmp_path / "out").exists()


def test_it_is_published_all_the_same_and_says_so(tmp_path: Path, book: Ledger) -> None:
    asked = {**FEW, "towers": PLACES, "ledger": book, "out": tmp_path / "out"}
    made = sfumato.release(events(), anyway=True, **asked)
    facts = made.manifest.fitness
    assert facts is not None
    assert facts.anyway
    assert facts.most == {
        "total_half_width": 0.25, "error_ratio": 0.9, "uncertain_visits": 0.5,
    }  # fmt: skip
    assert facts.figures is not None
    assert set(facts.failing) <= set(facts.figures)
    caveats = [text for text in made.manifest.caveats if "published all the same" in text]
    assert len(caveats) == 1
    assert "Take note." in (tmp_path / "out" / "README.txt").read_text()
    again = sfumato.release(events(), **asked)  # what was made is not refused afterwards
    assert again.how == "already"


def test_what_is_reserved_goes_on_whatever_is_forecast(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paid for and interrupted, then run again without `anyway`: the same bytes."""
    asked = {**FEW, "towers": PLACES, "ledger": book, "out": tmp_path / "out"}
    write = publish.write_release

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_release", stop)
        with pytest.raises(KeyboardInterrupt):
            sfumato.release(events(), anyway=True, **asked)
    assert publish.write_release is write
    made = sfumato.release(events(), **asked)
    assert made.how == "resumed"
    assert made.manifest.fitness is not None
    assert made.manifest.fitness.anyway
    assert len(book.book().charges) == 1


def test_enough_people_are_not_asked_twice(tmp_path: Path, book: Ledger) -> None:
    many = {**FEW, "expected_users": 1_000_000, "epsilon": 1.0, "delta": 1e-7}
    made = sfumato.release(events(), towers=PLACES, ledger=book, out=tmp_path / "out", **many)
    facts = made.manifest.fitness
    assert facts is not None
    assert (facts.figures, facts.failing, facts.anyway) == (None, [], False)
    assert facts.signal > 1e5


@pytest.mark.privacy
def test_a_budget_that_is_too_small_says_what_would_fit(tmp_path: Path, book: Ledger) -> None:
    """With the default scheme too, whose fine lattice has no noise for the least epsilons."""
    asked = {**FEW, "towers": PLACES, "ledger": book, "out": tmp_path / "out", "anyway": True}
    with pytest.raises(BudgetRefused, match="would still fit") as refused:
        sfumato.release(events(), **{**asked, "epsilon": 60.0})
    assert refused.value.exit_code == 3
    fit = refused.value.would_fit_epsilon
    assert fit is not None
    assert not book.book().charges
    sfumato.release(events(), **{**asked, "epsilon": fit})


def test_from_the_command_line(tmp_path: Path, book: Ledger) -> None:
    del book
    (tmp_path / "towers.csv").write_text(
        "tower_id,lon,lat\n" + "".join(f"t{k},{2 + k / 50},48\n" for k in range(6))
    )
    pairs = {
        "--towers": tmp_path / "towers.csv", "--from": "2024-03-04", "--to": "2024-03-06",
        "--slot": "12h", "--tz": "UTC", "--dataset": "town", "--epsilon": "0.1",
        "--delta": "1e-4", "--expected-users": "200", "--ledger": tmp_path / "ledger.sqlite",
        "--out": tmp_path / "out",
    }  # fmt: skip
    command = ["release", "events.parquet", *(str(word) for pair in pairs.items() for word in pair)]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, Unfit)
    remedy = refused.exception.remedy
    assert "--anyway publishes it all the same" in remedy
    assert "say so with --parameter visits=N" in remedy
    assert remedy.split("`")[1::2] == ["sfumato plan --suggest"]  # the rest is said in flags
    assert isinstance(CliRunner().invoke(app, [*command, "--dry-run"]).exception, Unfit)
    allowed = CliRunner().invoke(app, [*command, "--dry-run", "--anyway", "--json"])
    assert allowed.exit_code == 0, allowed.output
    said = json.loads(allowed.stdout)["fitness"]
    assert said["useless"]
    assert said["failing"]


def test_plan_says_what_release_will_say_and_what_would_work() -> None:
    outlook = sfumato.plan(
        epsilon=0.1, delta=1e-4, expected_users=200, zone_count=6, slot="12h", start="2024-03-04",
        end="2024-03-06", rehearse=False, suggest=True,
    )  # fmt: skip
    assert outlook.answer["fitness"]["useless"]
    said = str(outlook)
    assert "`release` refuses it" in said
    for made in outlook.answer["suggestions"]:
        (flags,) = [f"--{name} {value}" for name, value in made["settings"].items()]
        assert flags in said
