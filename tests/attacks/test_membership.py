from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.membership import (
    Game,
    _direction,
    allowed,
    area,
    interval,
    play,
    publish_counts,
)
from sfumato.errors import UsageError

GAME = Game(group=60, targets=40, rounds=32)


@pytest.fixture(scope="module")
def people() -> np.ndarray:
    """200 people with a home and a work among 100 cells, 10 slots."""
    rng = np.random.default_rng(0)
    home, work = rng.integers(0, 100, (2, 200, 1))
    return np.where(np.arange(10) < 5, home, work).astype(np.int32)


def test_the_area_by_hand() -> None:
    assert area(np.array([3.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(3.5 / 4)
    assert area(np.array([1.0]), np.array([1.0])) == 0.5


def normal_folds(targets: int, rounds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores of unit variance, one higher for rounds with the target."""
    rng = np.random.default_rng(1)
    inside = np.tile(np.arange(rounds) % 2 == 0, (targets, 1))
    return [(rng.normal(inside.astype(float)), inside) for _ in (0, 1)]


def test_the_interval_holds_its_value_and_narrows_with_rounds() -> None:
    rng = np.random.default_rng(1)
    few, many = (interval(normal_folds(*size), rng) for size in ((4, 20), (12, 120)))
    for found in (few, many):
        assert found.low <= found.value <= found.high
    assert many.high - many.low < few.high - few.low
    assert many.value == pytest.approx(0.76, abs=0.05), "Phi(1 / sqrt 2)"


def test_the_value_is_the_mean_of_plain_areas() -> None:
    folds = normal_folds(3, 20)
    each = [area(s[i], s[~i]) for scores, inside in folds for s, i in zip(scores, inside)]  # noqa: B905
    found = interval(folds, np.random.default_rng(0))
    assert found.value == pytest.approx(np.mean(each))


def test_true_counts_give_membership_away(people: np.ndarray) -> None:
    found = play(people, GAME, publish_counts(100))
    assert found.knows.low > 0.8
    assert found.worst.loss > 0.7


def test_chance_scores_a_half(people: np.ndarray) -> None:
    blind = play(people, GAME, publish_counts(100)).blind
    assert blind.low < 0.5 < blind.high
    assert blind.value == pytest.approx(0.5, abs=0.06)


def test_noise_for_a_whole_record_hides_it(people: np.ndarray) -> None:
    """Laplace at epsilon 1 for ten slots: no adversary is above what the guarantee allows."""
    publish = publish_counts(100, lambda counts, rng: counts + rng.laplace(0, 10.0, counts.shape))
    found = play(people, GAME, publish)
    assert found.worst.value < 0.65
    assert found.worst.low < allowed(1.0)


def test_what_a_guarantee_allows() -> None:
    assert allowed(0.0) == 0.5
    assert allowed(1.0) == pytest.approx(0.7311, abs=1e-4)
    assert allowed(1.0, 0.1) == pytest.approx(0.8311, abs=1e-4)
    assert allowed(50.0, 0.1) == 1.0


def test_randomised_response_reaches_what_is_allowed() -> None:
    """The bound is tight: one honest bit, told truly with chance e^eps / (1 + e^eps)."""
    rng = np.random.default_rng(3)
    inside = np.tile(np.arange(4_000) % 2 == 0, (1, 1))
    told = np.where(rng.random(inside.shape) < allowed(1.0), inside, ~inside).astype(float)
    assert area(told[inside], told[~inside]) == pytest.approx(allowed(1.0), abs=0.02)


def test_groups_larger_than_the_people_are_refused(people: np.ndarray) -> None:
    with pytest.raises(UsageError):
        play(people, Game(group=101), publish_counts(100))


@pytest.mark.parametrize("slots", [5, 168])
def test_the_direction_is_that_of_the_shrunk_covariance(slots: int) -> None:
    rng = np.random.default_rng(4)
    rows, shift = rng.normal(3, 2, (12, slots)), rng.normal(size=slots)
    covariance = np.cov(rows.T)
    shrunk = 0.9 * covariance + 0.1 * np.trace(covariance) / slots * np.eye(slots)
    found = _direction(rows - rows.mean(axis=0), shift)
    assert found == pytest.approx(np.linalg.solve(shrunk, shift), rel=1e-9, abs=1e-9)
