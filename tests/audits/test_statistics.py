"""Each statistic sees what it is made for, and nothing where there is nothing."""

import numpy as np
import pytest

from sfumato.audits.statistics import (
    EVERYTHING,
    absent_rows,
    as_released,
    atoms,
    best_of,
    known_direction,
    low_bits,
    projection,
)

RNG = np.random.default_rng


def separation(statistic, one, other):
    """Standardised difference of the scores of the second half, fitted on the first."""
    half = len(one) // 2
    score = statistic.fit(one[:half], other[:half])
    a, b = score(one[half:]), score(other[half:])
    spread = np.sqrt((a.var() + b.var()) / 2)
    return 0.0 if spread == 0 else (a.mean() - b.mean()) / spread


def test_projection_finds_a_shift_spread_over_numbers_of_different_noise():
    noise = np.array([1.0, 10.0, 100.0])
    one, other = RNG(1).normal(size=(2, 8_000, 3)) * noise
    one += 0.5 * noise
    assert separation(projection, one, other) == pytest.approx(0.5 * 3**0.5, abs=0.06)
    assert separation(known_direction(np.array([1.0, 0, 0])), one, other) < 0.6


def test_projection_uses_a_number_that_carries_no_noise():
    one, other = RNG(2).normal(size=(2, 400, 2))
    one[:, 1], other[:, 1] = 3.0, 2.0
    assert separation(projection, one, other) > 100


def test_best_of_takes_the_better_guess():
    one, other = RNG(3).normal(size=(2, 2_000, 40))
    one[:, 0] += 1
    right, wrong = np.eye(40)[0], np.eye(40)[1]
    both = best_of(known_direction(wrong), known_direction(right))
    assert separation(both, one, other) == pytest.approx(1, abs=0.15)


def test_atoms_knows_outputs_by_their_bytes_and_scores_unseen_ones_zero():
    one, other = np.array([[1.0], [1.0], [2.0]]), np.array([[2.0], [2.0], [3.0]])
    score = atoms.fit(one, other)
    seen = score(np.array([[1.0], [2.0], [3.0], [9.0]]))
    assert seen[0] > 0 > seen[1]
    assert seen[2] < 0
    assert seen[3] == 0
    assert score(np.array([[-0.0]])) == score(np.array([[0.0]]))


def test_low_bits_see_where_a_double_has_been():
    noise = RNG(4).laplace(size=(2, 20_000, 1))
    assert separation(low_bits, noise[0] + 1, noise[1]) > 0.3
    whole = np.round(noise * 50)
    assert separation(low_bits, whole[0], whole[1]) < 0.05


def test_absent_rows_are_a_feature_and_do_not_disturb_the_others():
    table = RNG(5).normal(size=(2, 1_000, 3))
    table[1, :, 2] = np.nan
    score = absent_rows.fit(table[0], table[1])
    assert score(table[0])[0] > 0 > score(table[1])[0]
    for statistic in EVERYTHING:
        assert np.isfinite(statistic.fit(table[0], table[1])(table[1])).all()


def test_one_number_a_run_and_tables_become_rows():
    assert as_released(np.arange(4)).shape == (4, 1)
    assert as_released(np.zeros((4, 2, 3))).shape == (4, 6)
