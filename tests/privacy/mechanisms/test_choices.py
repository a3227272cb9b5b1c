"""Exponential mechanism and noisy max: exact laws, proved ranges, safe lattices."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from sfumato.errors import InputError, UsageError
from sfumato.model.private import Private
from sfumato.privacy.events import Tab
from sfumato.privacy.mechanisms import exponential_choice, exponential_choices, noisy_max
from sfumato.privacy.mechanisms.selection import LARGEST_COST, above_least, choices_rho, quantise
from sfumato.privacy.noise import SeededStream

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)
COSTS = np.array([-3, 0, 2, 2, 9])
RUNS = 3000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def exponential_law(costs: NDArray[np.int64], b: float) -> NDArray[np.float64]:
    weights = np.exp(-(costs - costs.min()) / b)
    return np.asarray(weights / weights.sum())


def flip_law(costs: NDArray[np.int64], b: float) -> NDArray[np.float64]:
    """p_i times the integral of the others' product, exactly (a polynomial)."""
    p = np.exp(-(costs - costs.min()) / b)
    t = (1 + _NODES) / 2
    miss = 1 - np.outer(t, p)
    return np.array(
        [p[i] * (_WEIGHTS / 2 @ np.delete(miss, i, axis=1).prod(axis=1)) for i in range(p.size)]
    )


@pytest.mark.parametrize(
    ("mechanism", "law"), [(exponential_choice, exponential_law), (noisy_max, flip_law)]
)
@pytest.mark.parametrize("softness", [Fraction(5, 2), Fraction(7)])
def test_the_drawn_law(mechanism, law, softness: Fraction) -> None:  # type: ignore[no-untyped-def]
    root = SeededStream(11)
    found = np.bincount(
        [
            mechanism(
                Private(COSTS, "costs"),
                softness=softness,
                range_units=1,
                label="m",
                stream=root.child(str(i)),
                charger=Tab(),
            ).index
            for i in range(RUNS)
        ],
        minlength=COSTS.size,
    )
    assert chisquare(found, law(COSTS, float(softness)) * RUNS).pvalue > 1e-4


moves = st.lists(st.integers(0, 4), min_size=5, max_size=5)
starts = st.lists(st.integers(-10, 10), min_size=5, max_size=5)


@quick
@given(starts, moves, st.sampled_from([0.5, 2.0, 10.0]))
def test_both_stay_within_their_range(costs: list[int], move: list[int], b: float) -> None:
    """Costs that move apart by at most r change log-probabilities by at most r/b."""
    before, after = np.array(costs), np.array(costs) + np.array(move)
    r = max(move) - min(move)
    for law in (exponential_law, flip_law):
        ratio = np.log(law(before, b)) - np.log(law(after, b))
        assert np.abs(ratio).max() <= r / b + 1e-9
    ratio = np.log(exponential_law(before, b)) - np.log(exponential_law(after, b))
    assert ratio.max() - ratio.min() <= r / b + 1e-9


@quick
@given(starts, st.sampled_from([0.5, 2.0, 10.0]))
def test_noisy_max_is_never_the_worse_choice(costs: list[int], b: float) -> None:
    values = np.array(costs)
    assert flip_law(values, b) @ values <= exponential_law(values, b) @ values + 1e-9


def test_adding_a_constant_changes_nothing() -> None:
    for mechanism in (exponential_choice, noisy_max):
        answers = {
            mechanism(
                Private(COSTS + shift, "costs"),
                softness=3,
                range_units=1,
                label="m",
                stream=SeededStream(2),
                charger=Tab(),
            ).index
            for shift in (0, 1000, -(1 << 60))
        }
        assert len(answers) == 1


def test_hopeless_candidates_are_not_chosen() -> None:
    costs = np.array([1 << 60, 5, 1 << 60])
    for mechanism in (exponential_choice, noisy_max):
        found = mechanism(
            Private(costs, "costs"),
            softness=Fraction(1, 1 << 20),
            range_units=1,
            label="m",
            stream=SeededStream(3),
            charger=Tab(),
        )
        assert found.index == 1
        assert found.candidates == 3


def test_a_range_is_a_whole_number_of_units() -> None:
    for mechanism in (exponential_choice, noisy_max):
        with pytest.raises(UsageError):
            mechanism(
                Private(COSTS, "costs"),
                softness=1,
                range_units=0,
                label="m",
                stream=SeededStream(3),
                charger=Tab(),
            )


def test_costs_are_a_vector_of_integers() -> None:
    for bad in (COSTS.astype(float), COSTS.reshape(1, -1)):
        with pytest.raises(UsageError):
            exponential_choice(
                Private(bad, "costs"),
                softness=1,
                range_units=1,
                label="m",
                stream=SeededStream(3),
                charger=Tab(),
            )


utilities = st.lists(st.floats(-50, 50), min_size=4, max_size=4)


@quick
@given(utilities, st.lists(st.floats(-1, 1), min_size=4, max_size=4), st.sampled_from([1, 16, 999]))
def test_quantised_utilities_pay_for_their_rounding(
    values: list[float], move: list[float], units: int
) -> None:
    before, r = quantise(np.array(values), units=units, spread=2.0)
    after, _ = quantise(np.array(values) + np.array(move), units=units, spread=2.0)
    change = before - after
    assert change.max() - change.min() <= r


def test_better_utilities_have_lower_costs() -> None:
    costs, r = quantise(np.array([0.0, 1.0, 2.5]), units=10, spread=1.0)
    assert costs.tolist() == [0, -10, -25]
    assert r == 13


@pytest.mark.privacy
def test_no_utility_raises_after_the_charge() -> None:
    """What no lattice holds is the dearest choice, or the cheapest; a refusal would tell."""
    odd = np.array([np.nan, -np.inf, -1e300, 0.0, 1e300, np.inf])
    costs, _ = quantise(odd, units=10, spread=1.0)
    assert costs[:3].tolist() == [1 << 62] * 3
    assert costs[4:].tolist() == [-(1 << 62)] * 2
    assert above_least(costs).tolist() == [LARGEST_COST] * 4 + [0, 0]
    with pytest.raises(UsageError):
        quantise(np.array([1.0]), units=0, spread=1.0)


@pytest.mark.privacy
@quick
@given(
    st.lists(st.integers(-(1 << 62), 1 << 62), min_size=2, max_size=6),
    st.integers(-(1 << 60), 1 << 60),
    st.integers(0, 1 << 20),
    st.randoms(use_true_random=False),
)
def test_cutting_dear_choices_keeps_the_range(
    costs: list[int], low: int, width: int, chance: random.Random
) -> None:
    before = np.array(costs)
    after = before + np.array([low + chance.randint(0, width) for _ in costs])
    change = above_least(before) - above_least(after)
    assert change.max() - change.min() <= width


def test_choices_in_rows_follow_the_law_of_each_row() -> None:
    """Rows with two different tables of costs, in turn; what one chose says nothing of the next."""
    table = np.tile(np.stack((COSTS, COSTS[::-1])), (RUNS, 1))
    chosen = exponential_choices(
        Private(table, "costs"),
        softness=Fraction(5, 2),
        range_units=1,
        label="m",
        stream=SeededStream(5),
        charger=Tab(),
    ).indices.reshape(RUNS, 2)
    for row in range(2):
        found = np.bincount(chosen[:, row], minlength=COSTS.size)
        assert chisquare(found, exponential_law(table[row], 2.5) * RUNS).pvalue > 1e-4
    assert abs(np.corrcoef(chosen.T)[0, 1]) < 0.08


@quick
@given(
    st.lists(st.tuples(starts, moves), min_size=1, max_size=6),
    st.sampled_from([2.0, 10.0]),
    st.sampled_from([1.5, 4.0, 30.0]),
)
def test_rows_together_cost_the_sum_of_squares(
    rows: list[tuple[list[int], list[int]]], b: float, alpha: float
) -> None:
    """The Renyi divergence of all choices is at most alpha times the rho that is charged."""
    divergence, squares = 0.0, 0
    for costs, move in rows:
        p = exponential_law(np.array(costs), b)
        q = exponential_law(np.array(costs) + np.array(move), b)
        divergence += float(np.log(np.sum(p**alpha * q ** (1 - alpha)))) / (alpha - 1)
        squares += (max(move) - min(move)) ** 2
    joint = max(1, int(np.ceil(np.sqrt(squares))))
    assert divergence <= alpha * choices_rho(Fraction(b), joint) + 1e-12


def test_choices_in_rows_are_charged_before_they_are_made() -> None:
    tab = Tab()
    exponential_choices(
        Private(np.zeros((3, 4), np.int64), "costs"),
        softness=10,
        range_units=2,
        label="m",
        stream=SeededStream(1),
        charger=tab,
    )
    assert tab.charged["m"].rho == 0.005  # type: ignore[union-attr]
    with pytest.raises(InputError, match="table of costs"):
        exponential_choices(
            Private(np.zeros(4, np.int64), "costs"),
            softness=10,
            range_units=2,
            label="m",
            stream=SeededStream(1),
            charger=Tab(),
        )
