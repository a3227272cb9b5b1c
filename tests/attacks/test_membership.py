from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.membership import Game, area, interval, play, publish_as_is
from sfumato.model.errors import UsageError

GAME = Game(group=40, targets=6, training=24, games=24)


@pytest.fixture(scope="module")
def people() -> np.ndarray:
    """200 people with a home and a work among 100 cells, 10 slots."""
    rng = np.random.default_rng(0)
    home, work = rng.integers(0, 100, (2, 200, 1))
    return np.where(np.arange(10) < 5, home, work).astype(np.int32)


def test_the_area_by_hand() -> None:
    assert area(np.array([3.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(3.5 / 4)
    assert area(np.array([1.0]), np.array([1.0])) == 0.5


def test_the_interval_holds_its_value_and_narrows_with_games() -> None:
    rng = np.random.default_rng(1)
    few = interval(rng.normal(1, 1, (4, 10)), rng.normal(0, 1, (4, 10)), rng)
    many = interval(rng.normal(1, 1, (12, 80)), rng.normal(0, 1, (12, 80)), rng)
    for found in (few, many):
        assert found.low <= found.value <= found.high
    assert many.high - many.low < few.high - few.low
    assert many.value == pytest.approx(0.76, abs=0.05), "Phi(1 / sqrt 2)"


def test_true_counts_give_membership_away(people: np.ndarray) -> None:
    found = play(people, 100, GAME, publish_as_is)
    assert found.knows.value > 0.85
    assert found.knows.low > 0.7
    assert found.worst.loss > 0.7


def test_noise_for_a_whole_record_hides_it(people: np.ndarray) -> None:
    """Laplace at epsilon 1 for ten slots: no adversary is far from guessing."""

    def publish(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return counts + rng.laplace(0, 10.0, counts.shape)

    found = play(people, 100, GAME, publish)
    assert found.worst.value < 0.7
    assert found.knows.low < 0.6


def test_groups_larger_than_the_people_are_refused(people: np.ndarray) -> None:
    with pytest.raises(UsageError):
        play(people, 100, Game(group=200), publish_as_is)
