"""The desk itself under attack: a cap that ends it, answers that are stored, bounds that hold."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from sfumato.audits.bounds import lower_limit
from sfumato_lab.attacks.queries import ledgered
from sfumato_lab.attacks.queries.games import Game, Score, ledgered_desks, most_right, play
from sfumato_lab.attacks.queries.ledgered import Ledgered
from sfumato_lab.attacks.queries.reconstruct import averaged
from sfumato_lab.attacks.queries.town import Private, Town

SURELY = 1e-7
"""Chance that a desk which keeps its promise fails a test here: its noise is fresh every time."""
TOWN = Town.of(12)
BITS = np.arange(12) % 2 == 0


def holds(score: Score) -> bool:
    assert score.bound is not None
    return bool(lower_limit(score.right, score.guesses, SURELY) <= score.bound)


@pytest.mark.privacy
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_paraphrases_are_paid_for_until_nothing_is_left(delta: float) -> None:
    """Each names other empty zones: another question, and the cap has room for four."""
    desk = Ledgered(TOWN.visits(BITS), TOWN.frame, 1.0, delta, 4)
    asked = [TOWN.question(BITS, [lake]) for lake in range(10)]
    heard = desk(asked)
    assert [one is None for one in heard] == [False] * 4 + [True] * 6
    assert desk.charged() == 4
    again = desk(asked[:4])
    assert again == heard[:4], "and what was asked before has its stored answer, free"
    assert desk.charged() == 4


@pytest.mark.slow
def test_an_answer_has_the_noise_that_the_mechanism_in_memory_has() -> None:
    """40 desks, one answer each: the mean square error is that of the plan, within a factor 3."""
    everybody = TOWN.question(np.ones(12, bool))
    errors = []
    for _ in range(40):
        (told,) = Ledgered(TOWN.visits(BITS), TOWN.frame, 1.0, 1e-6, 1)([everybody])
        assert told is not None
        errors.append(told - BITS.sum())
    spread = np.mean(np.square(errors)) / Private.variance(1.0, 1e-6, 1)
    assert 1 / 4 < spread < 3  # chi-squared of 40 degrees: outside with a chance below 1e-6


@pytest.mark.privacy
def test_averaging_ends_with_the_budget() -> None:
    desk = Ledgered(TOWN.visits(BITS), TOWN.frame, 1.0, 1e-6, 6)
    found = averaged(desk, TOWN, np.random.default_rng(4), 3, repeats=10, paraphrase=True)
    assert found.asked == 20
    assert found.refused >= 10
    assert desk.charged() <= 6


@pytest.mark.privacy
def test_one_question_of_who_knows_everybody_else_stays_at_its_bound() -> None:
    """The strongest attack there is: with Laplace noise it reaches the bound."""
    desk = ledgered_desks(1.0, 1e-6)[1]
    only = type(desk)(desk.name, desk.make, ("knows all others",), bound=desk.bound)
    (score,) = play(Game(people=12, draws=2, seed=2, repeats=2), [only])
    assert (score.guesses, score.refused) == (16, 0)
    assert score.bound == most_right(1.0)
    assert holds(score)


@pytest.mark.slow
@pytest.mark.privacy
def test_every_attack_on_the_desk_itself_stays_below_its_bound() -> None:
    scores = play(Game(people=24, draws=6, seed=3, repeats=8), ledgered_desks(1.0, 1e-6))
    assert len(scores) == 16
    assert all(holds(score) for score in scores), [
        (one.attack, one.desk, one.share) for one in scores if not holds(one)
    ]


@pytest.mark.slow
@pytest.mark.privacy
def test_a_desk_that_takes_too_little_noise_is_seen() -> None:
    """The same game against a cap of 12 that is called 1."""
    desk = ledgered_desks(12.0, 1e-6)[1]
    faulty = type(desk)(desk.name, desk.make, ("knows all others",), bound=most_right(1.0))
    (score,) = play(Game(people=12, draws=10, seed=2, repeats=2), [faulty])
    assert not holds(score)


def test_the_example_runs() -> None:
    assert doctest.testmod(ledgered).failed == 0
