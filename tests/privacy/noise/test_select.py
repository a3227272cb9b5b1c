"""Exact choice among candidates: the law, extremes, cost and refusals."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import UsageError
from sfumato.privacy.noise import KeyedStream, SeededStream, choose, representable_softness

pytestmark = pytest.mark.privacy

KEY = bytes(range(32))


def fit(costs: list[int], b: float, chosen: np.ndarray) -> float:
    weights = np.exp(-(np.array(costs) - min(costs)) / b)
    expected = chosen.size * weights / weights.sum()
    observed = np.bincount(chosen, minlength=len(costs))
    assert (observed[expected < 1e-6] == 0).all()
    keep = expected >= 5
    return float(
        stats.chisquare(
            observed[keep], expected[keep] / expected[keep].sum() * observed[keep].sum()
        ).pvalue
    )


@pytest.mark.parametrize(
    ("costs", "b"),
    [
        ([0, 1, 2, 3, 4, 5], Fraction(2)),
        ([7, 7, 7], Fraction(1, 3)),
        ([100, 103, 101, 10**18], Fraction(17, 5)),
        (list(range(0, 4000, 37)), Fraction(1000)),
        ([0, 1 << 40, 3 << 40], Fraction(1 << 40)),
        ([0, 1], Fraction(0.3)),
    ],
)
def test_choices_follow_the_exponential_law(costs: list[int], b: Fraction) -> None:
    chosen = choose(60_000, np.array(costs), b, SeededStream(21))
    assert fit(costs, float(b), chosen) > 1e-3
    if len(set(costs)) > 1:
        assert fit(costs, 1.1 * float(b), chosen) < 1e-3


def test_the_least_cost_is_only_a_reference_and_does_not_change_the_choice() -> None:
    costs = np.array([3, 0, 8, 1])
    one = choose(1000, costs, Fraction(2), KeyedStream(KEY, "a"))
    two = choose(1000, costs + 10**15, Fraction(2), KeyedStream(KEY, "a"))
    assert (one == two).all()


def test_a_long_search_gives_the_same_choice_in_portions() -> None:
    costs = np.full(500, 1000)
    costs[123] = 0
    stream = KeyedStream(KEY, "b")
    parts = np.concatenate([choose(5, costs, Fraction(1), stream) for _ in range(4)])
    assert (parts == 123).all()
    whole = KeyedStream(KEY, "b")
    choose(20, costs, Fraction(1), whole)
    assert (whole.words(3) == stream.words(3)).all()


def test_a_hundred_thousand_candidates_in_the_worst_case_take_a_moment() -> None:
    costs = np.full(100_000, 1 << 60)
    costs[77_777] = 0
    choose(1, costs[:10], Fraction(1), SeededStream(1))
    before = time.process_time()
    assert choose(1, costs, Fraction(1), SeededStream(22)).tolist() == [77_777]
    assert time.process_time() - before < 2


def test_softness_is_kept_or_rounded_up() -> None:
    assert representable_softness(Fraction(1, 1000)) == Fraction(1, 1000)
    asked = Fraction(10**30 + 1, 3 * 10**30)
    used = representable_softness(asked)
    assert asked < used < asked * (1 + Fraction(1, 1 << 42))


@pytest.mark.parametrize("costs", [[], [-1], [[1]], [0.5]])
def test_costs_that_are_no_list_of_non_negative_integers_are_refused(costs: list[int]) -> None:
    with pytest.raises(UsageError, match="non-negative"):
        choose(1, np.array(costs), Fraction(1), SeededStream(1))


@pytest.mark.parametrize("b", [Fraction(0), Fraction(-1), Fraction(1, 1 << 41), Fraction(1 << 41)])
def test_softness_out_of_range_is_refused(b: Fraction) -> None:
    with pytest.raises(UsageError, match="outside"):
        choose(1, np.array([0, 1]), b, SeededStream(1))


def test_no_choice_and_one_candidate() -> None:
    assert choose(0, np.array([0, 1]), Fraction(1), SeededStream(1)).shape == (0,)
    assert choose(3, np.array([9]), Fraction(1), SeededStream(1)).tolist() == [0, 0, 0]
