"""The solvers against plain linear algebra, and what they reach where theory says it."""

from __future__ import annotations

import doctest
from importlib import import_module

import numpy as np
import pytest
from scipy.linalg import hadamard

from sfumato.errors import UsageError
from sfumato_lab.attacks.queries.decode import (
    PackedQuestions,
    from_hadamard,
    hadamard_counts,
    hadamard_masks,
    least_squares,
    minimax,
    walsh_hadamard,
)


@pytest.mark.parametrize("people", [1, 8, 13, 64])
def test_packed_questions_add_up_as_plain_ones(people: int) -> None:
    rng = np.random.default_rng(people)
    masks = rng.random((37, people)) < 0.5
    values, weights = rng.normal(size=people), rng.normal(size=37)
    packed = PackedQuestions.of(masks)
    np.testing.assert_allclose(packed.counts(values), masks @ values, atol=1e-12)
    np.testing.assert_allclose(packed.spread(weights), weights @ masks, atol=1e-12)


def test_random_questions_are_about_half_of_the_people_and_nobody_else() -> None:
    packed = PackedQuestions.random(400, 13, np.random.default_rng(1))
    assert len(packed) == 400
    assert packed.octets[-1].max() < 1 << 5, "people 13 to 15 do not exist"
    share = packed.spread(np.full(400, 1 / 400))
    assert abs(share - 0.5).max() < 0.15


def test_the_transform_is_hadamards_matrix() -> None:
    values = np.random.default_rng(2).normal(size=64)
    np.testing.assert_allclose(walsh_hadamard(values), hadamard(64) @ values, atol=1e-12)
    assert ((hadamard(64) > 0) == hadamard_masks(64)).all()
    bits = values > 0
    np.testing.assert_allclose(hadamard_counts(bits), hadamard_masks(64) @ bits.astype(float))


def test_errors_of_hadamards_bits_stay_within_three_times_the_worst_answer() -> None:
    rng = np.random.default_rng(3)
    bits = rng.random(256) < 0.5
    errors = rng.uniform(-4, 4, 256)
    found = from_hadamard(hadamard_counts(bits) + errors)
    assert ((found - bits) ** 2).sum() <= (3 * abs(errors).max()) ** 2


def test_least_squares_is_the_ridge_solution_and_plain_without_noise() -> None:
    rng = np.random.default_rng(4)
    masks = rng.random((300, 40)) < 0.5
    bits = rng.random(40) < 0.5
    answers = masks @ bits.astype(float) + rng.normal(0, 2, 300)
    rows = masks.astype(float)
    inner = rows.T @ rows + 4 * 4.0 * np.eye(40)
    expected = 0.5 + np.linalg.solve(inner, rows.T @ (answers - rows.sum(axis=1) / 2))
    np.testing.assert_allclose(least_squares(masks, answers, variance=4.0), expected, atol=2e-3)
    plain = np.linalg.lstsq(rows, answers, rcond=None)[0]
    np.testing.assert_allclose(least_squares(masks, answers), plain, atol=2e-3)


def test_refused_answers_are_left_out() -> None:
    rng = np.random.default_rng(5)
    masks = rng.random((160, 24)) < 0.5
    bits = rng.random(24) < 0.5
    answers = masks @ bits.astype(float)
    answers[::3] = np.nan
    for solve in (minimax, least_squares):
        assert ((solve(masks, answers) > 0.5) == bits).all()
        assert (solve(masks, np.full(160, np.nan)) == 0.5).all()
    heard = hadamard_counts(bits[:16])
    heard[3] = np.nan
    assert ((from_hadamard(heard) > 0.5) == bits[:16]).mean() > 0.9


def test_answers_and_sizes_must_fit() -> None:
    masks = np.ones((2, 3), np.bool_)
    for solve in (minimax, least_squares):
        with pytest.raises(UsageError, match="one answer for each"):
            solve(masks, np.zeros(3))
    with pytest.raises(UsageError, match="power of two"):
        from_hadamard(np.zeros(6))


def test_a_bounded_error_of_half_the_root_gives_nearly_everybody_away() -> None:
    """The bars of the benchmark in small: 96 people, four questions each."""
    reached: dict[str, list[float]] = {"minimax": [], "least squares": []}
    for seed in range(4):
        rng = np.random.default_rng([6, seed])
        bits = rng.random(96) < 0.5
        masks = rng.random((384, 96)) < 0.5
        answers = masks @ bits.astype(float) + rng.uniform(-0.5, 0.5, 384) * np.sqrt(96)
        for name, found in (
            ("minimax", minimax(masks, answers)),
            ("least squares", least_squares(masks, answers, variance=96 / 12)),
        ):
            reached[name].append(float(((found > 0.5) == bits).mean()))
    assert np.mean(reached["minimax"]) >= 0.97
    assert np.mean(reached["least squares"]) >= 0.91


def test_hadamard_reads_a_hundred_thousand_people_at_once() -> None:
    rng = np.random.default_rng(7)
    size = 1 << 17
    bits = rng.random(size) < 0.5
    answers = hadamard_counts(bits) + rng.uniform(-0.25, 0.25, size) * np.sqrt(size)
    assert ((from_hadamard(answers) > 0.5) == bits).mean() >= 0.95


@pytest.mark.parametrize(
    "name", ["decode", "differencing", "games", "reconstruct", "run", "search", "town"]
)
def test_examples_run(name: str) -> None:
    module = import_module(f"sfumato_lab.attacks.queries.{name}")
    assert doctest.testmod(module).failed == 0
