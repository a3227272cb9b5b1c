"""Private multiplicative weights: what a person moves, what a kill loses, what is never asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audits.pipeline import release_key
from sfumato.audits.run import Subject, audit, claims_of
from sfumato.audits.streams import PlayedStream, StreamListener
from sfumato.audits.transcript import shifts
from sfumato.errors import UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import total_epsilon
from sfumato.privacy.events import Tab
from sfumato.privacy.wall import Wall
from sfumato.queries.workload import Row, Workload
from sfumato_lab.queries.online import TESTS, Session, Terms, Turn, corrected, plan_session

SHAPE = (3, 4)
TRUTH = np.array([[50, 0, 0, 9], [3, 80, 2, 7], [1, 1, 60, 30]])
START = np.full(SHAPE, 20.0)
QUESTIONS = [
    Row((place,), tuple(range(first, first + long)))
    for place in range(3)
    for first, long in ((0, 1), (1, 2), (0, 4))
]


def counting(table: np.ndarray, question: Row, clip: int = 1) -> Callable[[], Private[Counts]]:
    value = Workload.of(SHAPE, [question]).sums(table)

    def count() -> Private[Counts]:
        counts = Counts(value, 1, float(clip), float(clip), Counting.VISITS, "one question")
        return Private(counts, "one question")

    return count


def asked(session: Session, table: np.ndarray, questions: list[Row]) -> list[Turn]:
    return [session.ask(question, counting(table, question)) for question in questions]


TERMS = plan_session(epsilon=3.0, clip=1, updates=2, threshold=25)


@pytest.mark.privacy
def test_everything_is_reserved_when_the_session_opens() -> None:
    """Lap(2 c D / epsilon) a test, one threshold, c updates: all of it before a question."""
    terms = plan_session(epsilon=1.0, clip=8, updates=10, testing=0.6)
    assert float(total_epsilon(terms.events.values()) or 0) == pytest.approx(1.0)
    spent_on_tests = 10 * 2 * 8 / terms.query_scale
    assert 8 / terms.threshold_scale + spent_on_tests == pytest.approx(Fraction(6, 10))
    assert terms.query_scale == pytest.approx(2 * 10 * 8 / float(spent_on_tests))
    tab = Tab()
    session = Session(TERMS, START, Wall.seeded(1, tab))
    assert tab.charged == {TESTS: TERMS.events[TESTS]}
    asked(session, TRUTH, QUESTIONS * 3)
    assert tab.charged == TERMS.events
    assert session.finished


@pytest.mark.privacy
def test_a_session_that_was_killed_goes_on_with_the_same_noise() -> None:
    """Any number of turns in a first process, the others in fresh ones: the same answers."""
    whole = asked(Session(TERMS, START, Wall(Tab(), release_key(1, 1))), TRUTH, QUESTIONS)
    assert any(turn.updated for turn in whole)
    assert not all(turn.updated for turn in whole)
    for killed in range(len(QUESTIONS)):
        turns = list(whole[:killed])
        again = Session(TERMS, START, Wall(Tab(), release_key(1, 1)), turns)
        assert again.ask(QUESTIONS[killed], counting(TRUTH, QUESTIONS[killed])) == whole[killed]


@pytest.mark.privacy
def test_every_test_has_noise_of_its_own() -> None:
    """A distance at the threshold is told above in about half of the tests, not in all or none."""
    terms = Terms(1, 10, 10_000, Fraction(1, 4), Fraction(100), Fraction(1))
    run = Wall.seeded(5).sparse_vector(
        threshold=terms.threshold,
        sensitivity=1,
        positives=terms.updates,
        threshold_scale=terms.threshold_scale,
        query_scale=terms.query_scale,
        label=TESTS,
    )
    said = [run.above(Private(10, "distance"), number) for number in range(200)]
    assert 60 < sum(said) < 140
    with pytest.raises(UsageError, match="one question"):
        run.above(Private(10, "distance"), 7)


@pytest.mark.privacy
def test_after_all_updates_the_data_is_not_asked() -> None:
    session = Session(TERMS, START, Wall.seeded(2))
    asked(session, TRUTH, QUESTIONS * 3)
    kept = list(session.turns)
    assert sum(turn.updated for turn in kept) == TERMS.updates
    reopened = Session(TERMS, START, Wall.seeded(2), kept)

    def never() -> Private[Counts]:
        raise AssertionError("the data was asked")

    turn = reopened.ask(QUESTIONS[0], never)
    assert (turn.updated, turn.plus_minus) == (False, None)
    assert turn.answer == pytest.approx(
        float(reopened.hypothesis.answers(Workload.of(SHAPE, QUESTIONS[:1]))[0])
    )


@pytest.mark.privacy
@pytest.mark.parametrize("cell", [(0, 0), (1, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("turn", range(6))
def test_under_equal_answers_everything_shown_is_the_same(cell: tuple[int, int], turn: int) -> None:
    """Exact, to the finished answers: a distance or a count moves by at most the clip."""
    other = TRUTH.copy()
    other[cell] += 1
    tables = (TRUTH, other) if turn % 2 else (other, TRUTH)
    key = release_key(2, turn)
    first = StreamListener(Tab(), key)
    shown = asked(Session(TERMS, START, first), tables[0], QUESTIONS)
    heard = PlayedStream(first.steps, {}, runs=first.runs)
    second = StreamListener(Tab(), key, heard)
    assert asked(Session(TERMS, START, second), tables[1], QUESTIONS) == shown
    (one,), (two,) = first.runs, second.runs
    assert one.answers == two.answers
    assert np.abs(np.subtract(one.behind, two.behind)).max() <= TERMS.clip
    for shift in shifts(first.steps, second.steps):
        assert shift.moved <= shift.allowed


@pytest.mark.privacy
def test_what_a_session_shows_stays_within_its_epsilon() -> None:
    """By runs, on a neighbour who moves the questions that decide."""
    terms = plan_session(epsilon=3.0, clip=1, updates=1, threshold=2)
    questions = [Row((0,), (slot,)) for slot in range(4)]
    tables = {True: np.array([[22, 22, 22, 21]]), False: np.array([[21, 21, 21, 22]])}

    def draw(with_user: bool, runs: int, seed: int) -> np.ndarray:
        rows = []
        for run in range(runs):
            wall = Wall(Tab(), release_key(seed, run))
            session = Session(terms, np.full((1, 4), 20.0), wall)
            shown = []
            for question in questions:
                value = Workload.of((1, 4), [question]).sums(tables[with_user])
                counts = Counts(value, 1, 1.0, 1.0, Counting.VISITS, "one")
                turn = session.ask(question, lambda c=counts: Private(c, "one"))
                shown += [float(turn.updated), turn.answer]
            rows.append(shown)
        return np.array(rows)

    claims = claims_of(terms.events.values(), 0.0)
    found = audit([Subject("session", "decides", claims, draw)], runs=500, confidence=0.99)
    assert found.violations == ()
    assert found.rows[0].measured > 0.3  # it would notice something


def test_the_hypothesis_is_made_of_public_numbers_again() -> None:
    session = Session(TERMS, START, Wall.seeded(4))
    turns = asked(session, TRUTH, QUESTIONS * 2)
    again = corrected(START, [turn for turn in turns if turn.updated])
    assert again.table == pytest.approx(session.hypothesis.table)
    assert session.hypothesis.table.sum() == pytest.approx(START.sum())


def test_measured_answers_have_intervals_and_others_do_not() -> None:
    turns = asked(Session(TERMS, START, Wall.seeded(4)), TRUTH, QUESTIONS)
    for turn in turns:
        assert (turn.plus_minus is not None) == turn.updated
    assert TERMS.plus_minus == pytest.approx(math.log(10) * float(TERMS.update_scale))


@pytest.mark.parametrize(
    "wrong",
    [{"clip": 0}, {"updates": 0}, {"threshold": -1}, {"testing": 1.0}, {"epsilon": 0.0}],
)
def test_terms_that_make_no_session_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        plan_session(**{"epsilon": 1.0, "clip": 4, "updates": 2, **wrong})  # type: ignore[arg-type]


@pytest.mark.privacy
def test_counts_that_are_not_clipped_so_are_refused() -> None:
    session = Session(TERMS, START, Wall.seeded(1))
    with pytest.raises(UsageError, match="at most `clip`"):
        session.ask(QUESTIONS[0], counting(TRUTH, QUESTIONS[0], clip=2))
    with pytest.raises(UsageError, match="not empty"):
        Session(TERMS, np.zeros(SHAPE), Wall.seeded(1))
