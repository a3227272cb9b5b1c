"""Top-k placement and greedy coverage."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.utility.hotspots import greedy_cover, top_k_score


def test_the_clean_map_scores_one() -> None:
    clean = np.array([[5.0, 0.0], [3.0, 0.0]])
    score = top_k_score(clean, clean)
    assert (score.traffic, score.lowest, score.highest, score.cell_overlap) == (1, 1, 1, 1)


def test_ties_are_averaged_and_their_spread_told() -> None:
    clean = np.array([6.0, 3.0, 1.0, 0.0])
    noisy = np.array([9.0, 1.0, 1.0, 1.0])
    score = top_k_score(clean, noisy, k=2)
    assert score.traffic == pytest.approx((6 + 4 / 3) / 10)
    assert (score.lowest, score.highest) == (0.6, 0.9)
    assert score.cell_overlap == pytest.approx((1 + 1 / 3) / 2)


def test_expected_score_is_the_mean_over_all_ways_to_break_ties() -> None:
    rng = np.random.default_rng(1)
    clean, noisy = rng.integers(0, 5, 8).astype(float), rng.integers(0, 3, 8).astype(float)
    clean[0] += 1
    k = 4
    order = sorted(noisy, reverse=True)
    ways = [
        c for c in combinations(range(8), k) if sorted(noisy[list(c)], reverse=True) == order[:k]
    ]
    mean = np.mean([clean[list(c)].sum() for c in ways]) / clean.sum()
    assert top_k_score(clean, noisy, k).traffic == pytest.approx(mean)


def test_greedy_cover_beats_popularity() -> None:
    cell = np.array([0, 0, 0, 1, 1, 2, 2, -1])
    user = np.array([0, 1, 2, 0, 1, 3, 4, 9])
    chosen, reached = greedy_cover(cell, user, 2)
    assert chosen.tolist() == [0, 2]
    assert reached.tolist() == [3, 5]


def test_greedy_cover_is_near_the_best() -> None:
    rng = np.random.default_rng(2)
    cell, user = rng.integers(0, 9, 60), rng.integers(0, 25, 60)
    _, reached = greedy_cover(cell, user, 3)
    best = max(np.unique(user[np.isin(cell, c)]).size for c in combinations(range(9), 3))
    assert reached[-1] >= (1 - 1 / np.e) * best


def test_empty_and_absurd() -> None:
    assert greedy_cover(np.array([-1]), np.array([0]), 3)[0].size == 0
    with pytest.raises(UsageError):
        top_k_score(np.zeros(3), np.ones(3))
    with pytest.raises(UsageError):
        top_k_score(np.ones(3), np.ones(3), k=4)
