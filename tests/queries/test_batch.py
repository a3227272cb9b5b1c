"""Batches: the sensitivity is that of people, answers are best linear ones, and nothing peeks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.audits.pairs import Stage, pair_of
from sfumato.audits.pipeline import exact_shifts
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.model.counts import Counting, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.source import Source
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.door import open_private
from sfumato.privacy.wall import Wall
from sfumato.queries.batch import BatchPlan, person_norm, plan_batch, run_batch
from sfumato.queries.workload import Row, Workload

STAGE = Stage.for_bound(WeightBound(3))
SHAPE = (len(STAGE.places), STAGE.grid.slots)
RANGES = [
    Row(tuple(range(places)), tuple(range(first, first + long)))
    for places in (1, 2, 3)
    for first, long in ((0, 6), (3, 6), (6, 12), (0, 24))
]


def source_of(events: object) -> Source:
    return LocalSource(events, STAGE.places, STAGE.grid, threads=1)  # type: ignore[arg-type]


def a_crowd() -> Source:
    pair = next(p for p in STAGE.pairs(crowd=20) if "a crowd" in p.name)
    return source_of(pair.without_user)


def every_pair() -> dict[str, tuple[Source, Source]]:
    return {
        pair.name: (source_of(pair.with_user), source_of(pair.without_user))
        for pair in STAGE.pairs(crowd=1)
        if "some others" in pair.name
    }


@pytest.mark.privacy
def test_cells_and_total_of_thirty_visits() -> None:
    """30.5 for a person; 7.75 is what a column norm would say, and it protects nobody."""
    visits = 30
    cells = [Row((0,), (slot,)) for slot in range(visits)]
    rows = Workload.of((1, visits), [*cells, Row((0,), tuple(range(visits)))])
    column = math.sqrt(2) * math.sqrt(visits)
    assert column == pytest.approx(7.746, abs=1e-3)
    assert person_norm(rows, visits) == pytest.approx(30.496, abs=1e-3)

    ids = STAGE.places.ids.tolist()
    trace = np.column_stack((np.zeros(24), np.arange(24))).astype(np.int64)
    nobody = np.empty((0, 3), np.int64)
    pair = pair_of("always there", nobody, trace, ids, STAGE.grid)
    asked = [((0,), (slot,)) for slot in range(24)] + [((0,), tuple(range(24)))]
    masks = Masks.of(*SHAPE, asked)
    whole, less = (
        open_private(source_of(pair.with_user).answers(masks, Measure.VISITS, WeightBound(limit)))
        for limit in (25.0, math.sqrt(48))
    )
    assert np.linalg.norm(whole.values / 2**16) == pytest.approx(math.sqrt(24 + 24**2))
    assert np.linalg.norm(less.values.astype(float)) <= less.l2
    assert less.l2 == math.sqrt(48) * 2**16


@pytest.mark.privacy
@pytest.mark.parametrize("measure", Measure)
@pytest.mark.parametrize("visits", [1, 4, 30])
def test_nobody_moves_a_batch_by_more_than_was_paid(measure: Measure, visits: float) -> None:
    """Exact, on every neighbour, to the finished answers."""
    plan = plan_batch(RANGES, SHAPE, epsilon=1.0, delta=1e-6, measure=measure, visits=visits)
    found = exact_shifts(
        "batch", every_pair(), lambda source, wall: run_batch(source, wall, plan), plan.events
    )
    assert found.same_output
    assert [row.subject for row in found.rows if row.violated] == []
    assert max(found.joint.values()) <= 1 + 1e-9
    assert max(found.joint.values()) > 0.9 or visits > 4  # the bound is reached


@pytest.mark.privacy
def test_the_strategy_is_chosen_from_public_facts() -> None:
    few = plan_batch([Row((0,), (0,)), Row((1,), (5,))], SHAPE, epsilon=1.0, delta=1e-6)
    many = plan_batch(
        [Row((0,), tuple(range(a, b))) for a in range(24) for b in range(a + 1, 25)],
        SHAPE,
        epsilon=1.0,
        delta=1e-6,
    )
    assert few.considered["questions"] == pytest.approx(few.considered["atoms"])
    assert many.strategy != "questions"
    for plan in (few, many):
        assert plan.considered[plan.strategy] == min(plan.considered.values())
        assert guarantee(plan.events.values(), 1e-6).epsilon <= 1.0


def by_hand(plan: BatchPlan, rows: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Least squares over cells, with the whole matrix: how noisy rows become answers, and sds."""

    def matrix(work: Workload) -> np.ndarray:
        found = np.zeros((len(work), *work.shape))
        for row in range(len(work)):
            found[(row, *work.cells(row))] = 1
        return found.reshape(len(work), -1)

    strategy = np.concatenate([matrix(group.rows) / group.sd for group in plan.groups])
    noise = np.concatenate([np.full(len(group.rows), group.sd) for group in plan.groups])
    solved = matrix(rows) @ np.linalg.pinv(strategy)
    return solved / noise, np.linalg.norm(solved, axis=1)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_weighted_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        Row(tuple(range(int(rng.integers(1, 4)))), tuple(range(a, a + int(rng.integers(1, 9)))))
        for a in rng.integers(0, 16, 12)
    ]
    plan = plan_batch(rows, SHAPE, epsilon=1.0, delta=1e-6)
    weights, sd = by_hand(plan, Workload.of(SHAPE, rows))
    noisy = rng.normal(size=sum(len(group.rows) for group in plan.groups))
    assert plan.reading(noisy) == pytest.approx(weights @ noisy, abs=1e-6)
    assert plan.sd == pytest.approx(sd, rel=1e-6)


def test_intervals_hold_for_the_people_so_scaled() -> None:
    """Nobody of the crowd is scaled down: nine in ten intervals hold the true answer."""
    source = a_crowd()
    plan = plan_batch(RANGES, SHAPE, epsilon=1.0, delta=1e-6)
    truth = open_private(source.exact(Counting.VISITS)).values
    exact = Workload.of(SHAPE, RANGES).sums(truth)
    runs = [run_batch(source, Wall.seeded(seed), plan) for seed in range(150)]
    errors = np.array([run.values for run in runs]) - exact
    held = (np.abs(errors) <= np.array([run.plus_minus for run in runs])).mean()
    assert 0.87 < held < 0.93
    assert errors.std(axis=0) == pytest.approx(plan.sd, rel=0.25)


def test_what_makes_no_batch_is_refused() -> None:
    for wrong in ({"visits": 0.5}, {"visits": math.nan}, {"epsilon": 0.0}, {"delta": 0.0}):
        given = {"epsilon": 1.0, "delta": 1e-6, **wrong}
        with pytest.raises(UsageError):
            plan_batch(RANGES, SHAPE, **given)
