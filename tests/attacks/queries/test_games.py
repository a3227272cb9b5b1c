"""Attacks on desks of every kind: exact answers fall, a budget holds, a broken budget is seen."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.queries.question import Frame
from sfumato_lab.attacks.queries.games import Desk, Game, Score, most_right, play, usual_desks
from sfumato_lab.attacks.queries.run import attack_queries
from sfumato_lab.attacks.queries.town import Answerer, Private, Town, counter, fresh
from sfumato_lab.syntactic.truth import Visits

GAME = Game(people=48, draws=3, seed=11, repeats=128)


@pytest.fixture(scope="module")
def scores() -> dict[tuple[str, str], Score]:
    played = play(GAME, usual_desks(GAME.people, 5, 1.0, 1e-6))
    return {(one.desk.split(",")[0].split(" ")[0], one.attack): one for one in played[:-8]} | {
        (one.desk.split(",")[1].strip(), one.attack): one for one in played[-16:]
    }


def test_a_threshold_hides_nobody(scores: dict[tuple[str, str], Score]) -> None:
    for attack in ("minimax", "least squares", "Hadamard", "inclusion and exclusion"):
        assert scores["refused", attack].share == 1.0
    assert scores["refused", "searched"].share > 0.85


def test_free_noise_falls(scores: dict[tuple[str, str], Score]) -> None:
    assert scores["error", "minimax"].share > 0.95
    assert scores["error", "least squares"].share > 0.85
    assert scores["fresh", "repeated"].low > 0.5
    assert scores["sticky", "paraphrased"].low > 0.5


def test_a_budget_holds(scores: dict[tuple[str, str], Score]) -> None:
    for kind in ("Gaussian", "Laplace"):
        mine = [one for (desk, _), one in scores.items() if desk == kind]
        assert len(mine) == 8
        assert all(one.holds for one in mine)
        assert max(one.share for one in mine if one.attack in ("minimax", "Hadamard")) < 0.65


def test_a_bound_is_that_of_a_fair_bit() -> None:
    assert most_right(1.0) == pytest.approx(math.e / (1 + math.e))
    assert most_right(1.0, 1e-3) > most_right(1.0)
    assert most_right(800.0 / 2) == 1.0


def _unpaid(held: Visits, frame: Frame, _questions: int, seed: int) -> Answerer:
    """A desk that draws noise for two questions, and answers every other one as well."""
    sd = math.sqrt(Private.variance(1.0, 1e-6, 2))
    return fresh(counter(held, frame), sd, np.random.default_rng(seed))


@pytest.mark.privacy
def test_noise_that_nobody_pays_for_breaks_the_bound() -> None:
    desk = Desk("faulty", _unpaid, ("paraphrased",), bound=most_right(1.0, 1e-6))
    (score,) = play(Game(people=24, draws=6, seed=3, repeats=1200), [desk])
    assert score.low > most_right(1.0, 1e-6)
    assert not score.holds


def test_an_equal_question_has_the_stored_answer_and_the_budget_ends() -> None:
    town = Town.of(12)
    bits = np.arange(12) % 2 == 0
    desk = Private(town.counter(bits), 1.0, 1e-6, 2, seed=1)
    everybody, half = town.question(bits | True), town.question(bits)
    first, second, again = desk([everybody, half, everybody])
    assert first == again
    assert second is not None
    assert desk([town.question(bits, [0])]) == [None]


def test_the_command_writes_internal_files(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        ["attack", "queries", "--people", "16", "--draws", "1", "--out", str(tmp_path), "--json"],
    )
    assert done.exit_code == 0, (done.output, done.exception)
    said = json.loads((tmp_path / "queries-attack.internal.json").read_text())
    assert json.loads(done.stdout) == {"internal": said}
    assert {one["attack"] for one in said["scores"]} >= {"minimax", "Hadamard", "searched"}
    text = (tmp_path / "queries-attack.internal.html").read_text()
    assert "INTERNAL" in text
    assert "data:image/png" in text
    for path in tmp_path.iterdir():
        assert "internal" in path.name
        assert path.stat().st_mode & 0o077 == 0


def test_numbers_that_make_no_game_are_refused() -> None:
    with pytest.raises(UsageError, match="between 8 and"):
        attack_queries(people=5000)
    with pytest.raises(UsageError, match="positive"):
        attack_queries(epsilon=0.0)
