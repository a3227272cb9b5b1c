"""Exact coins exp(-n/d) for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import UsageError
from sfumato.privacy.noise import KeyedStream, SeededStream, bernoulli_exp

pytestmark = pytest.mark.privacy

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("n", "d"), [(1, 3), (1, 1), (5, 2), (7, 1), (3, 1 << 46), (1 << 45, (1 << 47) - 1), (10, 3)]
)
def test_the_share_of_heads_is_exp_of_minus_n_over_d(n: int, d: int) -> None:
    trials = 200_000
    heads = int(bernoulli_exp(np.full(trials, n), d, SeededStream(n)).sum())
    assert stats.binomtest(heads, trials, float(np.exp(-n / d))).pvalue > 1e-3


def test_a_chance_two_percent_off_would_be_noticed() -> None:
    heads = int(bernoulli_exp(np.full(200_000, 51), 100, SeededStream(1)).sum())
    assert stats.binomtest(heads, 200_000, float(np.exp(-0.52))).pvalue < 1e-3


def test_zero_is_certain_and_a_huge_exponent_is_hopeless() -> None:
    assert bernoulli_exp(np.zeros(10_000, np.int64), 5, SeededStream(1)).all()
    assert not bernoulli_exp(np.full(10_000, (1 << 63) - 1), 1, SeededStream(1)).any()


def test_each_coin_has_its_own_fraction_and_shapes_broadcast() -> None:
    n = np.array([[0], [1], [10**9]])
    coins = bernoulli_exp(np.broadcast_to(n, (3, 5000)), np.array([[3], [2], [7]]), SeededStream(2))
    assert coins.shape == (3, 5000)
    assert coins[0].all()
    assert abs(coins[1].mean() - np.exp(-0.5)) < 0.03
    assert not coins[2].any()


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.integers(1, (1 << 47) - 1)), max_size=20))
def test_coins_do_not_depend_on_the_portions(pairs: list[tuple[int, int]]) -> None:
    n = np.array([pair[0] for pair in pairs], np.int64)
    d = np.array([pair[1] for pair in pairs], np.int64)
    stream = KeyedStream(KEY, "coins")
    one_by_one = [bool(bernoulli_exp(n[i], d[i], stream)) for i in range(n.size)]
    assert bernoulli_exp(n, d, KeyedStream(KEY, "coins")).tolist() == one_by_one


@pytest.mark.parametrize(
    ("n", "d", "match"),
    [
        ([-1], [1], "zero or more"),
        ([1], [0], "between 1 and"),
        ([1], [1 << 47], "between 1 and"),
        ([0.5], [1], "integers"),
        ([True], [1], "integers"),
        ([1, 2], [1, 2, 3], "different shapes"),
        ([(1 << 63) + 1], [1], "below 2\\^63"),
    ],
)
def test_fractions_that_are_no_chance_are_refused(n: Any, d: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        bernoulli_exp(np.array(n), np.array(d), SeededStream(1))
