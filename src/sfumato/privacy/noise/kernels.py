"""Compiled integer samplers: from 16-bit digits to exact coins, Laplace and Gaussian integers.

Everything here is unsigned 64-bit arithmetic that cannot wrap; a test reads the compiled
code and fails if a floating-point instruction appears. The mathematics is in `discrete.py`;
here are the four coins that they are made of.

* `_chance`: Bernoulli(n / d). Let U be uniform in [0, 1) with 16-bit digits w1 w2 ...; then
  U < n/d iff E d < n 2^16 - w1 d, where E = 0.w2 w3 ... is again uniform. One digit decides,
  except with probability 2^-16, when the same question is asked again with a new numerator.
  No rejection, no division, no rounding. Needs d < 2^47.
* `_exp_unit`: Bernoulli(exp(-g)) for 0 <= g <= 1, by von Neumann's alternating series
  (Forsythe 1972; Canonne, Kamath & Steinke 2020, algorithm 1): flip coins with chance g/1,
  g/2, g/3, ... until one fails; the number of the failing coin is odd with probability
  exp(-g). A coin of chance g/k is two coins that must both succeed, 1/k and g, so its
  denominators never multiply.
* `_exp_one`: the same for g = 1.
* `_exp_half_square`: the same for g = (r/p)^2 / 2, where the coin g is three coins: 1/2,
  r/p and r/p.

A trial that runs out of digits reads zeros, notices, and is given up: `at[0]` then stands
before its first digit, and it is made again with more digits. Trials that were rejected stay
spent, so that a long search needs no long buffer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled

Digits = NDArray[np.uint16]
Position = NDArray[np.int64]
Words = NDArray[np.uint64]

DIGIT_BITS = 16
LARGEST_QUOTIENT = 1 << 16
"""The geometric part of a draw stops here; its chance to get so far is exp(-65536)."""

_BITS = np.uint64(DIGIT_BITS)
_CAP = np.uint64(LARGEST_QUOTIENT)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


@compiled
def _digit(digits: Digits, at: Position) -> np.uint64:
    """The next digit; zero behind the end, where the position tells that it was none."""
    place = at[0]
    at[0] = place + 1
    if place < digits.size:
        return np.uint64(digits[place])
    return np.uint64(0)


@compiled
def _short(digits: Digits, at: Position) -> bool:
    """Whether a digit was read that is not there."""
    return bool(at[0] > digits.size)


@compiled
def _chance(n: np.uint64, d: np.uint64, digits: Digits, at: Position) -> bool:
    """Bernoulli(n / d), 0 <= n <= d < 2^47."""
    while True:
        left = n << _BITS
        used = _digit(digits, at) * d
        if used >= left:
            return False
        n = left - used
        if n >= d:
            return True


@compiled
def _exp_unit(n: np.uint64, d: np.uint64, digits: Digits, at: Position) -> bool:
    """Bernoulli(exp(-n/d)), 0 <= n <= d."""
    if not _chance(n, d, digits, at):
        return True
    k = _TWO
    while _chance(_ONE, k, digits, at) and _chance(n, d, digits, at):
        k += _ONE
        if _short(digits, at):
            return False
    return bool(k & _ONE == _ONE)


@compiled
def _exp_one(digits: Digits, at: Position) -> bool:
    """Bernoulli(exp(-1))."""
    k = _TWO
    while _chance(_ONE, k, digits, at):
        k += _ONE
        if _short(digits, at):
            return False
    return bool(k & _ONE == _ONE)


@compiled
def _exp_half_square(r: np.uint64, p: np.uint64, digits: Digits, at: Position) -> bool:
    """Bernoulli(exp(-(r/p)^2 / 2)), 0 <= r <= p."""
    k = _ONE
    while (
        _chance(_ONE, _TWO * k, digits, at)
        and _chance(r, p, digits, at)
        and _chance(r, p, digits, at)
    ):
        k += _ONE
        if _short(digits, at):
            return False
    return bool(k & _ONE == _ONE)


@compiled
def _exp_whole(n: np.uint64, digits: Digits, at: Position) -> bool:
    """Bernoulli(exp(-n)), n >= 0 an integer: n coins, stopped by the first that fails."""
    while n > _ZERO:
        if not _exp_one(digits, at):
            return False
        n -= _ONE
    return True


@compiled
def _uniform(p: np.uint64, width: int, limit: np.uint64, digits: Digits, at: Position) -> np.uint64:
    """Uniform on {0, ..., p-1}: `width` digits, drawn again while above `limit`, modulo p."""
    while True:
        value = _ZERO
        for _ in range(width):
            value = (value << _BITS) | _digit(digits, at)
        if value <= limit:
            return value % p


@compiled
def _geometric(
    p: np.uint64, width: int, limit: np.uint64, digits: Digits, at: Position
) -> np.uint64:
    """P(x) proportional to exp(-x/p) on x >= 0: a remainder and a quotient of x by p."""
    low = _uniform(p, width, limit, digits, at)
    while not _exp_unit(low, p, digits, at):
        if _short(digits, at):
            return _ZERO
        low = _uniform(p, width, limit, digits, at)
    high = _ZERO
    while high < _CAP and _exp_one(digits, at):
        high += _ONE
    return high * p + low


@compiled
def _half_bell(y: np.uint64, p: np.uint64, q: np.uint64, digits: Digits, at: Position) -> bool:
    """Bernoulli(exp(-(q y - p)^2 / (2 p^2))): the acceptance step of the Gaussian."""
    scaled = q * y
    off = scaled - p if scaled > p else p - scaled
    a = off // p
    r = off - a * p
    pairs = a * a
    if not _exp_whole(pairs >> _ONE, digits, at):
        return False
    if pairs & _ONE == _ONE and not _exp_unit(_ONE, _TWO, digits, at):
        return False
    while a > _ZERO:
        if not _exp_unit(r, p, digits, at):
            return False
        a -= _ONE
    return _exp_half_square(r, p, digits, at)


@compiled
def fill_noise(
    out: NDArray[np.int64],
    done: int,
    gaussian: bool,
    p: np.uint64,
    q: np.uint64,
    width: int,
    limit: np.uint64,
    digits: Digits,
    at: Position,
) -> int:
    """Fill `out` from item `done` on with noise of scale p/q; returns the items now done."""
    top_bit = np.uint64(DIGIT_BITS - 1)
    for item in range(done, out.size):
        while True:
            start = at[0]
            y = _geometric(p, width, limit, digits, at) // q
            accepted = not gaussian or _half_bell(y, p, q, digits, at)
            negative = accepted and _digit(digits, at) >> top_bit == _ONE
            if _short(digits, at):
                at[0] = start
                return item
            # Zero would come with either sign, so one of its signs is drawn again.
            if accepted and (y > _ZERO or not negative):
                break
        out[item] = -np.int64(y) if negative else np.int64(y)
    return out.size


@compiled
def fill_coins(
    out: NDArray[np.bool_],
    done: int,
    whole: Words,
    n: Words,
    d: Words,
    digits: Digits,
    at: Position,
) -> int:
    """Coins with chance exp(-(whole + n/d)) for arrays whole, n and d."""
    for item in range(done, out.size):
        start = at[0]
        coin = _exp_unit(n[item], d[item], digits, at) and _exp_whole(whole[item], digits, at)
        if _short(digits, at):
            at[0] = start
            return item
        out[item] = coin
    return out.size


@compiled
def fill_choices(
    out: NDArray[np.int64],
    done: int,
    whole: Words,
    n: Words,
    d: np.uint64,
    width: int,
    limit: np.uint64,
    digits: Digits,
    at: Position,
) -> int:
    """Indices i with probability proportional to exp(-(whole_i + n_i/d)), by rejection."""
    count = np.uint64(whole.size)
    for item in range(done, out.size):
        while True:
            start = at[0]
            index = np.int64(_uniform(count, width, limit, digits, at))
            accepted = _exp_unit(n[index], d, digits, at) and _exp_whole(whole[index], digits, at)
            if _short(digits, at):
                at[0] = start
                return item
            if accepted:
                break
        out[item] = index
    return out.size
