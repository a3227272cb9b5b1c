from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.attacks.recovery import accuracy, uniqueness
from sfumato.attacks.trajectories import Ground
from sfumato.model.time_grid import Clock


def rows(*people: list[int]) -> np.ndarray:
    return np.array(people, dtype=np.int32)


def test_the_truth_in_any_order_is_a_perfect_recovery(line: Ground) -> None:
    truth = rows([0, 1, 2], [5, 5, 5], [9, 8, 7])
    score = accuracy(truth, truth[[2, 0, 1]], line)
    assert (score.greedy, score.assignment, score.best) == (1.0, 1.0, 1.0)
    assert (score.error_m, score.assignment_error_m) == (0.0, 0.0)


def test_the_three_definitions_by_hand(line: Ground) -> None:
    """The first person takes the trajectory that would have suited the second better."""
    truth = rows([5, 5, 5, 5], [5, 5, 6, 6])
    found = rows([5, 5, 6, 6], [0, 0, 0, 0])
    score = accuracy(truth, found, line)
    assert score.greedy == pytest.approx((2 + 0) / 8)
    assert score.assignment == pytest.approx(4 / 8), "least distance gives it to the second"
    assert score.best == pytest.approx((4 + 0) / 8)
    assert score.error_m == pytest.approx((2 * 1_000 + 2 * 5_000 + 2 * 6_000) / 8)


def greedy_by_the_book(truth: np.ndarray, found: np.ndarray) -> float:
    free, total = list(range(len(found))), 0
    for person in truth:
        if free:
            best = max(free, key=lambda r: int((found[r] == person).sum()))
            total += int((found[best] == person).sum())
            free.remove(best)
    return total / truth.size


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.integers(1, 6))
def test_greedy_and_best_as_a_plain_loop_would_do(
    seed: int, people: int, recovered: int, slots: int
) -> None:
    rng = np.random.default_rng(seed)
    ground = Ground(rng.uniform(0, 1, (4, 2)))
    truth = rng.integers(0, 4, (people, slots)).astype(np.int32)
    found = rng.integers(-1, 4, (recovered, slots)).astype(np.int32)
    score = accuracy(truth, found, ground)
    assert score.greedy == pytest.approx(greedy_by_the_book(truth, found))
    agree = (truth[None] == found[:, None]).sum(axis=2).max(axis=1)
    assert score.best == pytest.approx(agree.mean() / slots)
    assert score.by_slot.mean() == pytest.approx(score.greedy)


def test_periods_are_scored_apart(line: Ground) -> None:
    truth, found = rows([3, 3, 3, 4]), rows([3, 3, 8, 8])
    score = accuracy(truth, found, line, Clock.plain(1, 4, first_hour=4))
    assert (score.night, score.day) == (1.0, 0.0)


def test_uniqueness_counts_distinct_sets_of_most_visited_cells() -> None:
    people = rows([1, 1, 1, 2, 2], [1, 1, 2, 2, 2], [1, 1, 1, 3, 3], [4, 4, 4, 4, 4])
    np.testing.assert_allclose(uniqueness(people, 2), [3 / 4, 3 / 4])
    np.testing.assert_allclose(uniqueness(people[[0, 0, 0, 0]], 3), [0.25] * 3)
