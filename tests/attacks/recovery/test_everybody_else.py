"""The baseline that knows all others, where the right answer is known."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.attacks.recovery.attack import Method
from sfumato.attacks.recovery.baselines import (
    greedy_pairing,
    leave_fold_out_map,
    others,
    paired_homes,
    score_baselines,
)
from sfumato.attacks.recovery.linking import Visits
from sfumato.attacks.trajectories import Ground, People
from sfumato.model.time_grid import Clock


def staying(*homes: int, slots: int = 6) -> np.ndarray:
    return np.repeat(np.array(homes, dtype=np.int32)[:, None], slots, axis=1)


def scored(cells: np.ndarray, ground: Ground, seed: int = 0) -> float:
    people = People(cells, ground, Clock.plain(1, cells.shape[1]))
    found, by_slot = others(people, np.random.default_rng(seed))
    assert found["greedy"] == pytest.approx(by_slot.mean(), nan_ok=True)
    return found["greedy"]


def test_people_alone_in_their_cells_are_never_guessed(square: Ground) -> None:
    assert scored(staying(*range(100)), square) == 0.0


def test_people_who_all_stay_in_one_cell_always_are(square: Ground) -> None:
    assert scored(staying(*[7] * 50), square) == 1.0


def test_one_who_is_alone_is_not_guessed_among_many_who_are_not() -> None:
    cells = staying(*[7] * 50, 99)
    found = leave_fold_out_map(cells, 144, np.random.default_rng(0))
    assert found[-1] == 7, "taken to be where all others are"


def test_two_people_are_each_guessed_from_the_other(line: Ground) -> None:
    assert leave_fold_out_map(staying(3, 8), 10, np.random.default_rng(0)).tolist() == [8, 3]
    assert scored(staying(3, 8), line) == 0.0


def test_of_one_person_nothing_is_known(line: Ground) -> None:
    assert np.isnan(scored(staying(4), line))


def test_two_equal_towns_by_hand(square: Ground) -> None:
    """Half live in one cell, half in another: each guess fits half of them, and all of them fit.

    Of n draws about n/2 fall on either cell; the surplus over one half, on average
    sqrt(n / (2 pi)), is taken by people of the other cell: 1 - 1 / sqrt(2 pi n).
    """
    n = 400
    values = [scored(staying(*[7, 9] * (n // 2)), square, seed) for seed in range(20)]
    assert np.mean(values) == pytest.approx(1 - 1 / np.sqrt(2 * np.pi * n), abs=0.004)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 30), st.integers(1, 6))
def test_the_pairing_is_that_of_any_other_trajectories(
    seed: int, people: int, guesses: int, slots: int
) -> None:
    """Held guesses written out as trajectories and paired by the general code: the same."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(-1, 8, (people, slots)).astype(np.int32)
    homes = rng.integers(0, 8, guesses)
    partner = greedy_pairing(truth, staying(*homes.tolist(), slots=slots), 8)
    expected = np.where(partner >= 0, homes[partner], -1)
    np.testing.assert_array_equal(paired_homes(Visits.of(truth), homes, 8), expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_nobody_is_guessed_from_a_map_that_contains_them(seed: int, people: int) -> None:
    """Whoever's cells nobody else visits is not guessed in any slot, however many folds."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 60, (people, 3)).astype(np.int32)
    found = leave_fold_out_map(truth, 60, rng, folds=int(rng.integers(2, 25)))
    for i, row in enumerate(truth):
        if not np.isin(row, np.delete(truth, i, axis=0)).any():
            assert found[i] not in row


def test_a_study_shows_two_more_and_a_holder_does_not(square: Ground) -> None:
    rng = np.random.default_rng(0)
    cells, strangers = (rng.integers(0, 20, (60, 4)).astype(np.int32) for _ in range(2))
    clock = Clock.plain(1, 4)
    holder = People(cells, square, clock)
    study = People(cells, square, clock, others=strangers)
    names = [set(score_baselines(people, people.counts, Method())[0]) for people in (holder, study)]
    assert names == [{"random", "stay", "map", "others"}, names[0] | {"census", "halves"}]


def test_many_people_take_no_time() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(0, 8_000, (20_000, 6)), 8, axis=1).astype(np.int32)
    leave_fold_out_map(truth[:10], 8_000, rng)  # compiled before the clock starts
    start = time.process_time()
    leave_fold_out_map(truth, 8_000, rng)
    assert time.process_time() - start < 12, "100,000 people have a CPU-minute"
