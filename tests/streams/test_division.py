"""Where the day begins: the corrected choice, and how far the printed utility can jump."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfumato.streams.facts import StreamFacts
from sfumato.streams.replay import run_scheme
from sfumato_lab.as_printed.streams import division
from sfumato_lab.streams.hybrid import Hybrid
from sfumato_lab.streams.hybrid_division import (
    candidates,
    from_distances,
    predicted,
    printed_utility,
    window_costs,
)


def test_the_printed_utility_moves_far_more_than_claimed() -> None:
    windows = candidates(19)
    still, moving = np.zeros(18), np.full(18, 2.0)
    opposite = np.array([2.0, 0.0] * 9)
    whole = windows.index((0, 18))
    claimed = 2 * np.log(19) / np.log(12)
    assert claimed == pytest.approx(2.3699, abs=1e-4)
    assert printed_utility(still, 12, windows)[whole] == 0
    assert printed_utility(moving, 12, windows)[whole] == pytest.approx(22.5137, abs=1e-4)
    assert printed_utility(opposite, 12, windows)[whole] == pytest.approx(1.1849, abs=1e-4)


def test_the_printed_division_is_caught() -> None:
    """Everybody still, or one person more who moves every hour: claimed 0.3, far more in truth."""
    still = np.zeros((19, 2), dtype=np.int64)
    still[:, 0] = 5
    mover = still.copy()
    mover[np.arange(19), np.arange(19) % 2] += 1
    rng = np.random.default_rng(0)
    _, without = division(still, 0.3, rng)
    _, with_one = division(mover, 0.3, rng)
    actual = np.abs(np.log(with_one / without)).max()
    assert actual > 0.7


def test_days_are_not_parallel_for_one_person() -> None:
    """The losses of H past days add up for somebody who lives through all of them."""
    still = np.zeros((19, 2), dtype=np.int64)
    still[:, 0] = 5
    mover = still.copy()
    mover[np.arange(19), np.arange(19) % 2] += 1
    rng = np.random.default_rng(0)
    a, b = division(still, 0.3, rng)[1], division(mover, 0.3, rng)[1]
    one_day = np.log(b / a).max()
    seven = sum(one_day for _ in range(7))
    assert seven > 7 * 0.3


def test_the_busy_hours_are_found_in_noise() -> None:
    quiet, busy = 2_000.0, 30_000.0
    distances = np.full(23, quiet)
    distances[8:17] = busy
    rng = np.random.default_rng(1)
    found = [from_distances(distances + rng.normal(0, 192, 23)) for _ in range(200)]
    assert sum(window == (8, 17) for window in found) >= 195


def test_prediction_follows_each_end() -> None:
    assert predicted([], 24) == (8, 18)
    assert predicted([(7, 16)], 24) == (7, 16)
    assert predicted([(6, 18), (7, 17), (8, 16)], 24) == (9, 15)
    assert predicted([(20, 23), (22, 23)], 24) == (22, 23)


def test_costs_move_apart_by_no_more_than_is_charged() -> None:
    """Whatever one person does, two windows' costs move apart by at most 2 (S - 1)."""
    rng = np.random.default_rng(2)
    windows = candidates(10)
    for _ in range(200):
        distances = rng.integers(0, 50, 9)
        changed = distances + rng.choice([-2, 0, 2], 9)
        moved = window_costs(changed, 7, windows) - window_costs(distances, 7, windows)
        assert np.ptp(moved) <= 2 * 9
    still, mover = np.zeros(9, dtype=np.int64), np.full(9, 2)
    moved = window_costs(mover, 7, windows) - window_costs(still, 7, windows)
    assert np.ptp(moved) == 2 * 9 - 2  # reached but for the shortest window, which has one slot


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_busy_hours_are_chosen_by_score(
    delta: float, facts: Callable[..., StreamFacts]
) -> None:
    """People swap places in the middle of the day alone; that is where every slot is anew."""
    known = facts("user-day", days=2, delta=delta, cells=2, per_day=12, people=20_000, columns=None)
    counts = np.full((known.slots, 2), 10_000)
    for day in range(2):
        for slot in range(4, 9):
            counts[12 * day + slot] += (-1) ** slot * np.array([4000, -4000])
    made = run_scheme(Hybrid(finished=True, by_score=True), known, counts, seed=1)
    assert made.share <= 1.0
    for day in range(2):
        assert made.fresh[12 * day + 3 : 12 * day + 10].all()
        assert not made.fresh[12 * day + 1 : 12 * day + 3].any()
