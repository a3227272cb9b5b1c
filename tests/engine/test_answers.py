"""Answers to questions: what they count, and how far one person moves them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.engine.conftest import Town, asked

from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.model.counts import WEIGHT_UNITS, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.source import RememberingSource

TOWERS, DAYS = 7, 2
SHAPE = (TOWERS, 24 * DAYS)


def crowd(rng: np.random.Generator, users: int = 30) -> list[tuple[int, float, str]]:
    """Some people with few visits and some with very many."""
    rows = []
    for user in range(users):
        for _ in range(int(rng.pareto(0.7) * 3) % 400 + 1):
            hour, tower = rng.uniform(0, SHAPE[1]), rng.integers(TOWERS)
            rows.append((user, float(hour), f"t{tower}"))
    return rows


def brute(rows: Any, question: tuple[list[int], list[int]]) -> dict[int, int]:
    """Distinct (tower, hour) pairs inside, by user."""
    inside = {
        (user, tower, int(hour))
        for user, hour, tower in rows
        if int(tower[1:]) in question[0] and int(hour) in question[1]
    }
    return {user: sum(one[0] == user for one in inside) for user, _, _ in rows}


@pytest.mark.parametrize("seed", range(4))
def test_one_question_counts_what_it_says(town: Town, seed: int) -> None:
    rows, question = crowd(np.random.default_rng(seed)), asked(SHAPE, seed)
    masks, source = Masks.of(*SHAPE, [question]), town.local(rows, TOWERS, DAYS)
    inside = brute(rows, question).values()
    for cap in (1, 3, 1000):
        found = town.opened(source.answers(masks, Measure.VISITS, cap))
        assert found.values.tolist() == [sum(min(number, cap) for number in inside)]
        assert (found.l1, found.l2, found.units_per_count) == (cap, cap, 1)
    people = town.opened(source.answers(masks, Measure.UNIQUE_PEOPLE, 1))
    assert people.values.tolist() == [sum(number > 0 for number in inside)]
    assert (people.l1, people.l2) == (1, 1)


@pytest.mark.parametrize("measure", list(Measure))
def test_a_batch_within_its_limit_counts_exactly(town: Town, measure: Measure) -> None:
    rows = crowd(np.random.default_rng(9), 12)
    questions = [asked(SHAPE, k) for k in range(130)]
    source = town.local(rows, TOWERS, DAYS)
    found = town.opened(source.answers(Masks.of(*SHAPE, questions), measure, WeightBound(1e6)))
    wanted = [
        sum(n if measure is Measure.VISITS else n > 0 for n in brute(rows, question).values())
        for question in questions
    ]
    assert (found.values // WEIGHT_UNITS).tolist() == wanted


@pytest.mark.privacy
@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("limit", [1.0, 7.5])
def test_nobody_moves_a_batch_by_more_than_its_limit(
    town: Town, measure: Measure, limit: float
) -> None:
    """Questions that overlap in everything: cells, their total and the total again.

    The column of a single visit has norm sqrt(3); a person with 96 visits has far more.
    """
    rng = np.random.default_rng(5)
    rows = crowd(rng) + [(99, h + 0.5, f"t{t}") for h in range(48) for t in (0, 1)]
    cells = [([place], [slot]) for place in range(3) for slot in range(48)]
    everything = (list(range(TOWERS)), list(range(48)))
    masks = Masks.of(*SHAPE, [*cells, everything, everything])
    bound = WeightBound(limit)
    whole = town.opened(town.local(rows, TOWERS, DAYS).answers(masks, measure, bound))
    largest = 0.0
    for user in {row[0] for row in rows}:
        left = [row for row in rows if row[0] != user]
        without = town.opened(town.local(left, TOWERS, DAYS).answers(masks, measure, bound))
        moved = (whole.values - without.values).astype(float)
        largest = max(largest, float(np.linalg.norm(moved)))
        assert np.linalg.norm(moved) <= whole.l2 == limit * WEIGHT_UNITS
        assert np.abs(moved).sum() <= whole.l1
    assert largest > 0.999 * whole.l2


@pytest.mark.privacy
def test_nobody_moves_one_answer_by_more_than_the_clip(town: Town) -> None:
    rows = crowd(np.random.default_rng(6))
    masks = Masks.of(*SHAPE, [(list(range(TOWERS)), list(range(48)))])
    for measure, cap in ((Measure.VISITS, 1), (Measure.VISITS, 5), (Measure.UNIQUE_PEOPLE, 1)):
        whole = town.opened(town.local(rows, TOWERS, DAYS).answers(masks, measure, cap))
        moved = set()
        for user in {row[0] for row in rows}:
            left = [row for row in rows if row[0] != user]
            without = town.opened(town.local(left, TOWERS, DAYS).answers(masks, measure, cap))
            moved.add(int(whole.values[0] - without.values[0]))
        assert max(moved) == cap == whole.l1
        assert min(moved) >= 0


def test_the_first_question_reads_what_it_needs_and_the_next_all(town: Town) -> None:
    rows = crowd(np.random.default_rng(7))
    source = town.local(rows, TOWERS, DAYS)
    questions = [Masks.of(*SHAPE, [asked(SHAPE, k)]) for k in range(3)]
    cold = [
        town.opened(town.local(rows, TOWERS, DAYS).answers(one, Measure.VISITS, 4))
        for one in questions
    ]
    for one, first in zip(questions, cold, strict=True):
        again = town.opened(source.answers(one, Measure.VISITS, 4))
        assert again.values.tolist() == first.values.tolist()
    assert source._loaded is not None
    assert source.drops.kept == len(rows)


def test_questions_are_remembered_by_what_they_ask(town: Town) -> None:
    source = RememberingSource(town.local(crowd(np.random.default_rng(8)), TOWERS, DAYS))
    one, other = (Masks.of(*SHAPE, [asked(SHAPE, k)]) for k in range(2))
    first = source.answers(one, Measure.VISITS, 4)
    assert source.answers(Masks.of(*SHAPE, [asked(SHAPE, 0)]), Measure.VISITS, 4) is first
    for changed in ((other, Measure.VISITS, 4), (one, Measure.VISITS, 5)):
        assert source.answers(*changed) is not first
    assert source.answers(one, Measure.UNIQUE_PEOPLE, 1) is not first


def test_bounds_that_fit_no_question_are_refused(town: Town) -> None:
    source = town.local([], TOWERS, DAYS)
    one, two = (Masks.of(*SHAPE, [asked(SHAPE, 0)] * n) for n in (1, 2))
    for masks, measure, bound in (
        (two, Measure.VISITS, 3),
        (one, Measure.UNIQUE_PEOPLE, 3),
        (one, Measure.VISITS, 0),
        (Masks.of(3, 4, [([0], [0])]), Measure.VISITS, 1),
    ):
        with pytest.raises(UsageError):
            source.answers(masks, measure, bound)
    empty = town.opened(
        LocalSource(town.events([]), town.towers(7), town.grid(2)).answers(
            two, Measure.VISITS, WeightBound(math.pi)
        )
    )
    assert empty.values.tolist() == [0, 0]
