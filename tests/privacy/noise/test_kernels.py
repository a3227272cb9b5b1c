"""The coin trees, enumerated: every short bit string is tried, so the bounds are proofs."""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit

from sfumato.privacy.noise import kernels
from sfumato.privacy.noise.discrete import uniform_plan

pytestmark = pytest.mark.privacy

UNDECIDED, RESTART = -1, -2


@njit
def enumerate_tree(trial: Any, arguments: Any, base: int, depth: int, outcomes: int) -> Any:
    """Mass of each outcome over all digit strings of the depth, with restarts and undecided.

    Strings are visited in order; a run that used c digits stands for all strings that begin
    with them, and the next string visited differs within the first c.
    """
    mass = np.zeros(outcomes + 2)
    digits = np.zeros(depth, np.uint16)
    at = np.zeros(1, np.int64)
    while True:
        at[0] = 0
        outcome = trial(digits, at, arguments)
        used = depth if outcome == UNDECIDED else at[0]
        if outcome < outcomes:
            mass[outcome] += float(base) ** -used
        place = used - 1
        while place >= 0 and digits[place] == base - 1:
            place -= 1
        if place < 0:
            return mass
        digits[place] += 1
        digits[place + 1 :] = 0


def bounds(mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P = decided + restarts P + (between 0 and all of the undecided), solved for P."""
    decided, restart, undecided = mass[:-2], mass[RESTART], mass[UNDECIDED]
    return decided / (1 - restart), (decided + undecided) / (1 - restart)


@pytest.mark.parametrize(("n", "d"), [(0, 1), (1, 1), (1, 2), (1, 3), (2, 7), (12345, 99991)])
def test_one_digit_decides_a_rational_coin_but_for_one_value_in_65536(n: int, d: int) -> None:
    heads = tails = open_ = 0
    for digit in range(1 << 16):
        at = np.zeros(1, np.int64)
        coin = kernels._chance(np.uint64(n), np.uint64(d), np.array([digit], np.uint16), at)
        if at[0] > 1:
            open_ += 1
        else:
            heads, tails = heads + coin, tails + (not coin)
    assert open_ <= 1
    assert heads * d <= n << 16 <= (heads + open_) * d
    assert tails == (1 << 16) - heads - open_


def test_a_rational_coin_with_the_longest_denominator_does_not_wrap() -> None:
    d = (1 << 47) - 1
    top = np.full(8, 0xFFFF, np.uint16)
    for n, digits, expected in ((d, top, True), (d - 1, top, False), (0, top * 0, False)):
        at = np.zeros(1, np.int64)
        assert kernels._chance(np.uint64(n), np.uint64(d), digits, at) is expected


@pytest.fixture(scope="module")
def one_flip(one_bit: ModuleType) -> Any:
    """A coin of a given name as a trial of the enumeration, compiled once."""
    short = one_bit._short

    @cache
    def made(coin: str) -> Any:
        flip = getattr(one_bit, coin)
        if coin == "_exp_whole":

            @njit
            def trial(digits: Any, at: Any, pair: Any) -> int:
                heads = flip(pair[0], digits, at)
                return UNDECIDED if short(digits, at) else int(heads)
        else:

            @njit
            def trial(digits: Any, at: Any, pair: Any) -> int:
                heads = flip(pair[0], pair[1], digits, at)
                return UNDECIDED if short(digits, at) else int(heads)

        return trial

    return made


@pytest.mark.parametrize(
    ("coin", "n", "d", "exponent"),
    [
        ("_exp_unit", 0, 1, 0.0),
        ("_exp_unit", 1, 3, 1 / 3),
        ("_exp_unit", 5, 7, 5 / 7),
        ("_exp_unit", 1, 1, 1.0),
        ("_exp_half_square", 2, 5, 0.08),
        ("_exp_half_square", 1, 1, 0.5),
        ("_exp_whole", 1, 1, 1.0),
        ("_exp_whole", 3, 1, 3.0),
    ],
)
def test_exponential_coins_have_the_exact_chance(
    one_flip: Any, coin: str, n: int, d: int, exponent: float
) -> None:
    mass = enumerate_tree(one_flip(coin), (np.uint64(n), np.uint64(d)), 2, 20, 2)
    low, high = bounds(mass)
    assert mass.sum() == 1
    assert low[1] <= math.exp(-exponent) <= high[1]
    assert high[1] - low[1] < 2e-3


@pytest.fixture(scope="module")
def one_draw(one_bit: ModuleType) -> Any:
    """One draw of the compiled sampler as a trial of the enumeration."""
    fill = one_bit.fill_noise

    @njit
    def trial(digits: Any, at: Any, arguments: Any) -> int:
        p, q, width, limit, gaussian, reach = arguments
        out = np.zeros(1, np.int64)
        if fill(out, 0, gaussian, p, q, width, limit, digits, at) == 0:
            return RESTART if at[0] > 0 else UNDECIDED
        return min(max(out[0] + reach, 0), 2 * reach)

    return trial


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(("p", "q"), [(1, 4), (1, 2), (1, 1), (3, 2), (2, 1), (4, 3)])
def test_whole_samplers_have_the_exact_law(
    one_draw: Any, law: Any, gaussian: bool, p: int, q: int
) -> None:
    reach, depth = 12, 26
    width = (p - 1).bit_length()
    limit = (1 << width) // p * p - 1
    arguments = (np.uint64(p), np.uint64(q), width, np.uint64(limit), gaussian, reach)
    mass = enumerate_tree(one_draw, arguments, 2, depth, 2 * reach + 1)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    low, high = bounds(mass)

    def contained(scale: float) -> bool:
        exact = law("gaussian" if gaussian else "laplace", scale).mass(
            np.arange(1 - reach, reach)  # the cells at the ends hold the tails as well
        )
        return bool(((low[1:-1] <= exact + 1e-9) & (exact <= high[1:-1] + 1e-9)).all())

    assert contained(p / q)
    off = 1.25 if 2 * p >= q else 2  # the narrowest law is all but constant
    assert not contained(p / q * off)
    assert not contained(p / q / off)


@pytest.mark.parametrize(("p", "q"), [(1 << 40, 1), ((1 << 46) - 1, 64), ((1 << 46) - 1, 1 << 47)])
def test_the_largest_draw_that_any_digits_give_does_not_wrap(p: int, q: int) -> None:
    """Digits chosen so that the quotient runs into its stop: exp(-65536) made to happen."""
    width, limit = uniform_plan(p)
    largest = [((p - 1) >> (16 * place)) & 0xFFFF for place in reversed(range(width))]
    kept = [0xFFFF] * 3  # the coin (p-1)/p fails at its third digit, so the remainder stays
    once_more, minus = [0, 0xFFFF], [0xFFFF]
    digits = np.array([*largest, *kept, *once_more * kernels.LARGEST_QUOTIENT, *minus], np.uint16)
    out, at = np.zeros(1, np.int64), np.zeros(1, np.int64)
    arguments = (np.uint64(p), np.uint64(q), width, np.uint64(limit))
    assert kernels.fill_noise(out, 0, False, *arguments, digits, at) == 1
    exact = (kernels.LARGEST_QUOTIENT * p + p - 1) // q
    assert out[0] == -exact
    assert exact < 1 << 57
