"""The attacks on the other door's releases, on data small enough to check by hand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.queries.workload import Workload
from sfumato_lab.attacks.anonymised.groups import (
    as_floats,
    derived,
    homogeneity,
    left_after,
    shown_by_leaving,
)
from sfumato_lab.attacks.anonymised.records import from_items, narrowed
from sfumato_lab.attacks.anonymised.visited import (
    Visited,
    advantage,
    allowed,
    draw_questions,
    from_answers,
    from_table,
    from_traces,
    pooled,
)

PLACES, SLOTS = 40, 24


@pytest.fixture(scope="module")
def cells() -> NDArray[np.int32]:
    """People with a home and a work place, seen in every slot."""
    rng = np.random.default_rng(5)
    home, work = rng.integers(0, PLACES, (2, 600, 1))
    at_work = (np.arange(SLOTS) >= 9) & (np.arange(SLOTS) < 17)
    wander = rng.random((600, SLOTS)) < 0.2
    elsewhere = rng.integers(0, PLACES, (600, SLOTS))
    return np.where(wander, elsewhere, np.where(at_work, work, home)).astype(np.int32)


@pytest.fixture(scope="module")
def held(cells: NDArray[np.int32]) -> Visited:
    return Visited.of_cells(cells, PLACES)


@pytest.fixture(scope="module")
def centres() -> NDArray[np.float64]:
    return np.array([(500.0 * (p % 8), 500.0 * (p // 8)) for p in range(PLACES)])


def test_visits_come_back_from_rows_and_at_a_coarser_resolution(held: Visited) -> None:
    order = np.random.default_rng(1).permutation(held.pairs.size)
    again = Visited.of(held.user[order], held.place[order], held.slot[order], PLACES, SLOTS)
    assert np.array_equal(again.pairs, held.pairs)
    assert np.array_equal(again.starts, held.starts)
    assert held.counts().sum() == held.pairs.size
    day = held.coarser(np.zeros(PLACES, np.int64), SLOTS)
    assert day.pairs.tolist() == [0] * held.people
    assert (day.places, day.slots) == (1, 1)


def test_half_of_the_questions_are_true_and_the_adversary_is_not_told_the_answer(
    held: Visited,
) -> None:
    asked = draw_questions(held, 1_000, seed=3)
    assert asked.answer.sum() == 500
    for person, pair, answer, known in zip(
        asked.person, asked.pair, asked.answer, asked.known, strict=True
    ):
        own = held.pairs[held.starts[person] : held.starts[person + 1]]
        assert (pair in own) == answer
        assert set(known) <= set(own) - {pair}


def test_nobody_with_too_few_points_is_asked_about() -> None:
    few = Visited.of(np.arange(5), np.zeros(5, np.int64), np.zeros(5, np.int64), 2, 1)
    with pytest.raises(UsageError, match="nobody to ask"):
        draw_questions(few, 10)


def test_who_knows_everybody_else_reads_exact_counts_and_not_counts_without_the_target(
    held: Visited,
) -> None:
    counts = held.counts().astype(np.float64)
    asked = draw_questions(held, 1_000, seed=4)
    assert advantage(from_table(counts, held, asked), asked).value == 1.0
    others, targets = held.take(np.arange(300)), held.take(np.arange(300, 600))
    about = draw_questions(targets, 1_000, seed=4)
    table = others.counts().astype(np.float64)
    outside = advantage(from_table(table, others, about, inside=False), about)
    assert outside.low <= 0 <= outside.high


def test_suppression_hides_small_counts_alone(held: Visited) -> None:
    counts = held.counts()
    asked = draw_questions(held, 1_000, seed=6)
    values = {}
    for k in (5, 1_000):
        hidden = as_floats(np.where(counts < k, -1, counts))
        values[k] = advantage(from_table(hidden, held, asked, least=k), asked)
    assert values[5].low > 0.8
    assert abs(values[1_000].value) < 0.1


def test_noise_keeps_the_advantage_below_what_is_allowed(held: Visited) -> None:
    rng = np.random.default_rng(8)
    counts, epsilon = held.counts(), 0.5
    asked = draw_questions(held, 1_000, seed=7)
    noisy = counts + rng.laplace(0, 2 * SLOTS / epsilon, counts.shape)
    found = advantage(from_table(noisy, held, asked), asked)
    assert found.low < allowed(epsilon, 0.0)
    assert allowed(0.0, 0.0) == 0.0
    assert allowed(20.0, 1e-6) == pytest.approx(1.0)


def test_exact_answers_give_the_pair_away_and_noisy_ones_do_not(held: Visited) -> None:
    sets = [((p,), (s,)) for p, s in product(range(PLACES), range(SLOTS))]
    rows = Workload.of_sets((PLACES, SLOTS), sets)
    exact = rows.sums(held.counts()).astype(np.float64)
    asked = draw_questions(held, 400, seed=9)
    found = advantage(from_answers(exact, exact, 0 * exact, rows, held, asked), asked)
    assert found.value == 1.0
    sd = np.full(exact.size, 1e3)
    noisy = exact + np.random.default_rng(1).normal(0, sd)
    hidden = advantage(from_answers(noisy, exact, sd, rows, held, asked), asked)
    assert hidden.low < 0.1
    refused = np.full(exact.size, np.nan)
    assert advantage(from_answers(refused, exact, 0 * sd, rows, held, asked), asked).value == 0.0


def test_four_points_find_the_trace_of_a_target(
    held: Visited, cells: NDArray[np.int32], centres: NDArray[np.float64]
) -> None:
    asked = draw_questions(held, 400, seed=10)
    published = centres[cells].astype(np.float32)
    order = np.random.default_rng(2).permutation(len(cells))
    assert advantage(from_traces(published[order], centres, asked), asked).low > 0.8
    # One trace for all: no point tells anything about the person.
    mean = np.broadcast_to(published.mean(axis=0), published.shape).copy()
    assert abs(advantage(from_traces(mean, centres, asked), asked).value) < 0.15


@dataclass
class _Areas:
    offsets: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass
class _Items:
    offsets: NDArray[np.int64]
    area: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    areas: _Areas


def _items(held: Visited, width: int, hours: int) -> _Items:
    """Everything generalised: `width` neighbouring places to an area, `hours` slots to a run."""
    areas = _Areas(np.arange(0, PLACES + 1, width), np.arange(PLACES))
    first = (held.slot // hours * hours).astype(np.int32)
    return _Items(
        held.starts, (held.place // width).astype(np.int32), first, first + hours - 1, areas
    )


def test_records_that_fit_by_hand() -> None:
    held = Visited.of(
        np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 2]), np.array([0, 1, 0, 1, 0, 1]),
        PLACES, SLOTS,
    )  # fmt: skip
    alone = narrowed(_items(held, 1, 1), held, 2, points=2)
    assert alone.unique == pytest.approx(1 / 3)
    assert alone.below == pytest.approx(1 / 3)
    merged = narrowed(_items(held, 4, 1), held, 2, points=2)
    assert (merged.unique, merged.median) == (0.0, 3.0)


def test_more_points_and_frequencies_leave_fewer_records(held: Visited) -> None:
    items = _items(held, 8, 6)
    left = [narrowed(items, held, 5, points=p).median for p in (1, 2, 4, 6)]
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[0] / 4
    often = narrowed(items, held, 5, points=2, often=True)
    plain = narrowed(items, held, 5, points=2)
    assert often.below > plain.below
    assert often.none == 0.0
    asked = draw_questions(held, 400, seed=11)
    assert advantage(from_items(_items(held, 1, 1), PLACES, asked), asked).low > 0.8
    whole = _items(held, PLACES, SLOTS)
    assert advantage(from_items(whole, PLACES, asked), asked).value <= 0.1


def test_a_group_that_did_the_same_gives_its_members_away() -> None:
    user = np.array([0, 0, 1, 1, 2, 3])
    held = Visited.of(user, np.array([3, 4, 3, 5, 6, 7]), np.zeros(6, np.int64), PLACES, SLOTS)
    found = homogeneity(np.array([0, 0, 1, 1]), held)
    assert (found.people, found.groups) == (4, 2)
    assert found.certain == 0.5
    assert found.pairs == pytest.approx(2 / 6)
    assert found.guess == pytest.approx((1 + 0.5 + 1 + 0.5 + 0.5 + 0.5) / 6)


def test_nobody_is_asked_about_who_was_everywhere() -> None:
    """One person alone, people who are all alike, and one who was wherever anybody was."""
    alone = Visited.of(np.zeros(8, np.int64), np.arange(8) % 4, np.arange(8), 4, 8)
    alike = Visited.of(
        np.repeat([0, 1], 8), np.tile(np.arange(8) % 4, 2), np.tile(range(8), 2), 4, 8
    )
    for held in (alone, alike):
        with pytest.raises(UsageError, match="nothing to ask"):
            draw_questions(held, 20)
    person = np.repeat([0, 1, 2], [12, 6, 6])
    slot = np.r_[np.arange(12), np.arange(6), np.arange(6, 12)]
    found = draw_questions(Visited.of(person, np.zeros(24, np.int64), slot, 1, 12), 40)
    assert set(found.person.tolist()) == {1, 2}


def test_two_releases_leave_who_is_in_both_groups() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.permutation(np.repeat(np.arange(20), 50)), rng.integers(0, 20, 1_000)
    left = left_after(one, other, k=50)
    assert left.median < 10
    brute = [int(((one == one[i]) & (other == other[i])).sum()) for i in range(1_000)]
    assert left.sizes.tolist() == brute
    assert left_after(one, one, k=50).median == 50
    none = np.full(4, -1)
    assert left_after(none, none, k=2).sizes.size == 0


def test_sums_give_suppressed_counts_away_and_never_contradict_the_truth() -> None:
    truth = np.array([[9, 2], [7, 8]])
    hidden = np.where(truth < 5, -1, truth)
    found = derived(hidden, 5, of_place=truth.sum(axis=1))
    assert found.exact == 1.0
    assert found.low.tolist() == truth.tolist()
    assert derived(hidden, 5).exact == 0.0
    rng = np.random.default_rng(4)
    for _ in range(300):
        truth = rng.integers(0, 12, (4, 5))
        hidden = np.where(truth < 5, -1, truth)
        sums = {"of_place": truth.sum(axis=1), "of_slot": truth.sum(axis=0)}
        pair = (np.array([0, 1, 5, 6]), int(truth[:2, :2].sum()))
        found = derived(hidden, 5, **sums, blocks=[pair])
        assert (found.low <= truth).all()
        assert (truth <= found.high).all()
        # Larger counts left out, too, and everything rounded at random to multiples of 5.
        hidden[rng.random(truth.shape) < 0.2] = -1
        off = 5 * rng.integers(0, 2, truth.shape)
        table = np.where(hidden < 0, -1, truth - truth % 5 + np.where(truth % 5, off, 0))
        sums = {name: total - total % 5 for name, total in sums.items()}
        found = derived(table, 5, **sums, rounded=4, others=True)
        assert (found.low <= truth).all()
        assert (truth <= found.high).all()
    with pytest.raises(UsageError, match="contradict"):
        derived(np.array([[5, -1]]), 5, of_place=np.array([40]))


def test_a_table_before_and_one_after_show_the_visits_of_who_left(held: Visited) -> None:
    assert shown_by_leaving(held, 1).share == 1.0
    assert shown_by_leaving(held, 10_000).share == 0.0


def test_an_advantage_has_an_interval_that_narrows() -> None:
    true = np.arange(1_000) < 500
    few = pooled([(true[::10], true[::10])])
    many = pooled([(true, true)])
    assert few.value == many.value == 1.0
    assert few.low < many.low < 1.0
    assert str(many).startswith("1.00 (0.99")
