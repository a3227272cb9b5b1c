from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import jensenshannon

from sfumato.attacks.recovery import linking
from sfumato.attacks.recovery.linking import Visits, information_gain, match_fragments


def shares(row: np.ndarray, cells: int) -> np.ndarray:
    return np.bincount(row, minlength=cells) / row.size


def entropy(p: np.ndarray) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_with_equal_lengths_the_gain_is_the_jensen_shannon_divergence(
    seed: int, slots: int
) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, (2, 4, slots)).astype(np.int32)
    gain = information_gain(Visits.of(one), Visits.of(other))
    for i in range(4):
        for j in range(4):
            root = jensenshannon(shares(one[i], 6), shares(other[j], 6))
            assert gain[i, j] == pytest.approx(root**2, abs=1e-12)


def test_lengths_weigh_the_entropies() -> None:
    one = np.array([[0, 0, 1, 2, 2, 2]], dtype=np.int32)
    other = np.array([[0, 2]], dtype=np.int32)
    merged = entropy(shares(np.concatenate([one[0], other[0]]), 3))
    parts = (6 * entropy(shares(one[0], 3)) + 2 * entropy(shares(other[0], 3))) / 8
    gain = information_gain(Visits.of(one), Visits.of(other))
    assert gain[0, 0] == pytest.approx(merged - parts, abs=1e-12)


def test_strangers_gain_the_most() -> None:
    one, other = np.array([[1, 1, 1]], dtype=np.int32), np.array([[2, 2, 2]], dtype=np.int32)
    assert information_gain(Visits.of(one), Visits.of(other))[0, 0] == pytest.approx(np.log(2))


def test_the_split_by_home_matches_everybody_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    home = rng.integers(0, 40, 300)
    work = rng.integers(0, 40, 300)
    day = np.stack([home, home, home, work, work, rng.integers(0, 40, 300)], axis=1)
    next_day = np.stack([home, home, home, work, work, rng.integers(0, 40, 300)], axis=1)
    next_day = next_day[rng.permutation(300)]
    one, other = Visits.of(day.astype(np.int32)), Visits.of(next_day.astype(np.int32))
    gain = information_gain(one, other)
    least = gain[linear_sum_assignment(gain)].sum()
    monkeypatch.setattr(linking, "DENSE_LIMIT", 10)
    monkeypatch.setattr(linking, "_BLOCK", 50)
    split = match_fragments(one, other)
    assert sorted(split.tolist()) == list(range(300))
    assert least - 1e-9 <= gain[np.arange(300), split].sum() < 1.3 * least


def test_the_gain_of_some_is_that_of_all() -> None:
    rng = np.random.default_rng(5)
    one = Visits.of(rng.integers(0, 50, (30, 9)).astype(np.int32))
    other = Visits.of(rng.integers(20, 70, (40, 5)).astype(np.int32))
    rows, columns = rng.permutation(30)[:7], rng.permutation(40)[:11]
    some = information_gain(one, other, rows, columns)
    assert np.array_equal(some, information_gain(one, other)[np.ix_(rows, columns)])
