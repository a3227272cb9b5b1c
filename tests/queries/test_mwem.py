"""MWEM: what a person moves in every round, and that it learns what it is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.audits.pairs import Stage
from sfumato.audits.pipeline import exact_shifts
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.model.counts import Counting, WeightBound
from sfumato.model.source import RememberingSource, Source
from sfumato.privacy.accounting import guarantee, total_rho, zcdp_rho
from sfumato.privacy.door import open_private
from sfumato.privacy.events import BoundedRangeEvent, GaussianEvent
from sfumato.privacy.wall import Wall
from sfumato.queries.workload import Row, Workload
from sfumato_lab.queries.mwem import Measured, Start, fitted, plan_mwem, run_mwem

STAGE = Stage.for_bound(WeightBound(3))
SHAPE = (len(STAGE.places), STAGE.grid.slots)
RANGES = [
    Row(tuple(range(low, high)), tuple(range(first, first + long)))
    for low, high in ((0, 1), (0, 2), (1, 3), (2, 3))
    for first, long in ((0, 1), (3, 6), (6, 12), (0, 24))
]


def source_of(events: object) -> Source:
    source = LocalSource(events, STAGE.places, STAGE.grid, threads=1)  # type: ignore[arg-type]
    return RememberingSource(source)


@pytest.mark.privacy
@pytest.mark.parametrize("start", Start)
def test_nobody_moves_a_round_by_more_than_was_paid(start: Start) -> None:
    """Exact, on every neighbour, to the finished table."""
    plan = plan_mwem(RANGES, SHAPE, epsilon=2.0, delta=1e-6, start=start, limit=2.0, rounds=3)
    release = np.arange(1.0, 1.0 + math.prod(SHAPE)).reshape(SHAPE) ** 2
    pairs = {
        pair.name: (source_of(pair.with_user), source_of(pair.without_user))
        for pair in STAGE.pairs(crowd=1)
        if "some others" in pair.name or "nobody" in pair.name
    }
    found = exact_shifts(
        "mwem",
        pairs,
        lambda source, wall: run_mwem(
            source, wall, plan, release if start is Start.RELEASE else None
        ),
        plan.events,
        transcripts=4,
    )
    assert found.same_output
    assert [row.subject for row in found.rows if row.violated] == []


@pytest.mark.privacy
def test_the_longest_question_reaches_the_bound() -> None:
    """One who is there in every slot of it moves answer and cost by all that was paid for."""
    whole = Row((0, 1, 2), tuple(range(24)))
    plan = plan_mwem([whole], SHAPE, epsilon=2.0, delta=1e-6, limit=2.0, rounds=1)
    pair = next(p for p in STAGE.pairs(crowd=1) if p.name == "one place all the time, nobody else")
    sources = {"always": (source_of(pair.with_user), source_of(pair.without_user))}
    found = exact_shifts("mwem", sources, lambda s, w: run_mwem(s, w, plan), plan.events)
    (answer,) = (
        row for row in found.rows if row.subject.endswith("answer") and "L2" in str(row.claim)
    )
    assert answer.measured == pytest.approx(answer.claim.value, rel=1e-3)


@pytest.mark.privacy
def test_two_questions_move_apart_by_twice_the_bound() -> None:
    """The hypothesis is far below one and far above the other, and the person is in both."""
    always = tuple(range(24))
    plan = plan_mwem(
        [Row((0,), always), Row((0, 1), always)],
        SHAPE,
        epsilon=2.0,
        delta=1e-6,
        start=Start.RELEASE,
        limit=2.0,
        rounds=1,
    )
    uneven = np.ones(SHAPE)
    uneven[1] = 1e6
    pairs = {
        pair.name: (source_of(pair.with_user), source_of(pair.without_user))
        for pair in STAGE.pairs(crowd=3)
        if pair.name == "one place all the time, a crowd"
    }
    found = exact_shifts(
        "mwem", pairs, lambda s, w: run_mwem(s, w, plan, uneven), plan.events, transcripts=4
    )
    (choice,) = (row for row in found.rows if row.subject.endswith("choice"))
    assert 0.99 * choice.claim.value < choice.measured <= choice.claim.value


def test_the_price_is_that_of_the_rounds() -> None:
    """eta^2 / 8 and l^2 / (2 sigma^2) a round (the form of Cesar & Rogers 2021)."""
    plan = plan_mwem(RANGES, SHAPE, epsilon=1.0, delta=1e-6, rounds=10)
    rounds = [event for label, event in plan.events.items() if label.startswith("round")]
    choices = [event for event in rounds if isinstance(event, BoundedRangeEvent)]
    answers = [event for event in rounds if isinstance(event, GaussianEvent)]
    assert (len(choices), len(answers)) == (10, 10)
    spent = 10 * (choices[0].range ** 2 / 8 + answers[0].l2 ** 2 / (2 * float(answers[0].sigma2)))
    assert spent == pytest.approx(float(total_rho(rounds)))
    assert float(total_rho(plan.events.values())) == pytest.approx(zcdp_rho(1.0, 1e-6), rel=1e-6)
    assert guarantee(plan.events.values(), 1e-6).epsilon <= 1.0


@pytest.mark.privacy
def test_a_short_question_is_measured_more_finely() -> None:
    plan = plan_mwem(RANGES, SHAPE, epsilon=1.0, delta=1e-6)
    by_slots = dict(zip(plan.rows.slot_counts.tolist(), plan.finer.tolist(), strict=True))
    assert by_slots[24] == 256
    assert by_slots[6] == 511  # twice as fine, rounded down
    assert by_slots[1] == math.floor(256 * math.sqrt(24))
    assert (plan.finer**2 * plan.rows.slot_counts <= 256**2 * 24).all()


def test_multiplicative_weights_end_at_the_answers() -> None:
    rows = Workload.of((4, 5), [Row((0, 1), (0, 1, 2)), Row((1, 2, 3), (2, 3, 4))])
    truth = np.random.default_rng(1).integers(1, 50, (4, 5)).astype(float)
    wanted = rows.sums(truth)
    start = np.full((4, 5), truth.mean())
    known = [Measured(row, float(wanted[row])) for row in range(2)]
    found = fitted(start, rows, known, passes=400)
    assert found.sum() == pytest.approx(truth.sum())
    assert rows.sums(found) == pytest.approx(wanted, rel=1e-3)
    assert (found > 0).all()
    outside = found[0, 3], found[0, 4]  # told apart by no question
    assert outside[0] == pytest.approx(outside[1])


@pytest.mark.parametrize("start", [Start.UNIFORM, Start.MARGINS])
def test_it_learns_what_it_is_asked(start: Start) -> None:
    """With next to no noise the questions' answers come out, at the level of all visits."""
    pair = next(p for p in STAGE.pairs(crowd=1) if p.name == "one visit, some others")
    source = source_of(pair.without_user)
    plan = plan_mwem(RANGES, SHAPE, epsilon=1e6, delta=1e-6, start=start, rounds=40, limit=30.0)
    found = run_mwem(source, Wall.seeded(3), plan)
    rows = Workload.of(SHAPE, RANGES)
    truth = rows.sums(open_private(source.exact(Counting.VISITS)).values)
    uniform = rows.sums(np.full(SHAPE, truth[3] / 24 / 3))
    assert np.abs(found.answers(rows) - truth).max() < 0.5 * np.abs(uniform - truth).max()
    assert np.abs(found.answers(rows) - truth).mean() < 2.0


def test_a_release_is_given_exactly_where_it_is_asked_for() -> None:
    pair = next(iter(STAGE.pairs(crowd=1)))
    source, table = source_of(pair.without_user), np.ones(SHAPE)
    for start, release in ((Start.RELEASE, None), (Start.MARGINS, table)):
        plan = plan_mwem(RANGES, SHAPE, epsilon=1.0, delta=1e-6, start=start)
        with pytest.raises(UsageError, match="exactly where"):
            run_mwem(source, Wall.seeded(1), plan, release)
    with pytest.raises(UsageError, match="rounds"):
        plan_mwem(RANGES, SHAPE, epsilon=1.0, delta=1e-6, rounds=0)
