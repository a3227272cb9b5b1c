"""`Estimate`: a number with its interval, and the laws that intervals of counts are read from.

Counts are small, skewed and often zero, so the law of a count with a known mean and variance is a
negative binomial in pieces of the size that it is gathered in (one, where whole visits are
counted), read halfway through its steps; above a few dozen pieces it is a gamma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

from sfumato.model.rounding import percent

Table = NDArray[np.float64]

_MANY = 60.0
"""Pieces from which the steps of a count no longer matter."""
_MOST_STEPS, _THINNED = 4096, 0.7
"""Steps of a count that are walked, and the share of counts under way from which on the others are
left behind. No quantile at 0.95 of a mean below `_MANY` needs more than 1,200 steps (Markov)."""
_LEAST_PIECE = 0.02
_SEEN = 0.8
"""Variance over that of independent visits below which the count itself was seen."""
_LOPSIDED = 1.4
"""From this ratio of the longer arm to the shorter on an interval is printed by its ends."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that was asked for: a sum of counts, a difference, a ratio.

    It prints as `12,340 ± 410 (90 %)`, rounded to what is known of it; where the interval is
    lopsided by its ends, as `3.1 (0.6 to 8.2, 90 %)`; where no interval is known as
    `12,340 (no interval)`.

    Example:
        >>> print(Estimate(12_337.2, 11_930.0, 12_750.0, 0.9))
        12,340 ± 410 (90 %)
        >>> print(Estimate(0.4, 0.0, 0.0, 0.9))
        0.4 (0 to 0, 90 %)
        >>> print(Estimate(12_337.2))
        12,337 (no interval)
    """

    value: float
    lower: float | None = None
    """Lower end of the interval; `None` where none can be stated."""
    upper: float | None = None
    coverage: float | None = None
    """Share of cases in which the truth lies in the interval."""

    @classmethod
    def of(cls, value: float, draws: NDArray[np.float64], coverage: float) -> Estimate:
        """A number worked out from others, with the interval that draws of it show.

        Args:
            value: The number itself.
            draws: What it may be, drawn with the numbers it comes from (`Factors.samples`).
            coverage: Probability of the interval.

        Example:
            >>> print(Estimate.of(5.0, np.linspace(3.0, 7.0, 1001), 0.9))
            5.0 ± 1.8 (90 %)
        """
        low, high = np.quantile(draws, (0.5 - coverage / 2, 0.5 + coverage / 2))
        return cls(float(value), float(low), float(high), coverage)

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, where one is stated.

        Raises:
            ValueError: None is.
        """
        if self.lower is None or self.upper is None:
            raise ValueError("no interval is stated")
        return self.lower, self.upper

    @property
    def plus_minus(self) -> float | None:
        """Half of the interval's width; `None` where there is no interval."""
        return None if self.lower is None else (self.ends[1] - self.ends[0]) / 2

    def __str__(self) -> str:
        half = self.plus_minus
        if half is None or self.coverage is None:
            return f"{_plain(self.value)} (no interval)"
        low, high = self.ends
        sure = percent(self.coverage)
        if half <= 0:  # a mean of a half may well be nobody, and is not a half for sure
            same = "± 0" if low == self.value else f"({_plain(low)} to {_plain(high)})"
            return f"{_plain(self.value)} {same} ({sure})".replace(") (", ", ")
        places = 1 - math.floor(math.log10(half))
        arms = sorted((self.value - low, high - self.value))
        if arms[1] > _LOPSIDED * max(arms[0], 0.0):
            ends = f"{_to(low, places)} to {_to(high, places)}"
            return f"{_to(self.value, places)} ({ends}, {sure})"
        return f"{_to(self.value, places)} ± {_to(half, places)} ({sure})"


def _to(value: float, places: int) -> str:
    """Rounded to that many places, before the point where they are negative."""
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value + 0.0:,.3g}"


def smooth_quantile(mean: Table, variance: Table, level: float) -> Table:
    """Of a gamma with that mean and variance."""
    safe = np.maximum(mean, 1e-9)
    spread = np.maximum(variance, 1e-12 * np.square(safe))
    found = scipy.special.gammaincinv(np.square(safe) / spread, level) * (spread / safe)
    return np.where(mean > 1e-9, found, 0.0)


def count_quantile(mean: Table, variance: Table, piece: Table, level: float) -> Table:
    """Of counts with these means and variances, gathered in pieces of these sizes."""
    return count_quantiles(mean, variance, piece, (level,))[0]


def count_quantiles(
    mean: Table, variance: Table, piece: Table, levels: tuple[float, ...]
) -> tuple[Table, ...]:
    """The same at several levels, which share the walk up the steps of each count."""
    size = np.maximum(piece, _LEAST_PIECE)
    pieces, spread = mean / size, variance / np.square(size)
    # Less variance than chance alone would have: the count itself was seen, and no law of
    # independent visits fits.
    few = (pieces < _MANY) & (pieces > 1e-9) & (spread > _SEEN * pieces)
    chance = np.clip(pieces[few] / spread[few], 1e-9, 1 - 1e-6)
    steps = _binomial_quantiles(pieces[few] * chance / (1 - chance), chance, levels)
    found = []
    for level, at in zip(levels, steps, strict=True):
        result = np.empty(mean.shape)
        result[few] = at * size[few]
        smooth = ~few | np.isnan(result)
        result[smooth] = smooth_quantile(mean[smooth], variance[smooth], level)
        found.append(np.maximum(result, 0.0))
    return tuple(found)


def _binomial_quantiles(number: Table, chance: Table, levels: tuple[float, ...]) -> list[Table]:
    """Of negative binomials, by adding up their probabilities from zero on: means here are below
    `_MANY`, so that takes a few dozen additions and no special function.

    A bound can only lie on a whole number, so the probability beyond it is too large or too small.
    Whichever is nearer: no interval is then too wide on average. The median is the first number
    that holds half. NaN where a tail is too long to walk.
    """
    found = [np.zeros(number.size) for _ in levels]
    rows, other = np.arange(number.size), 1.0 - chance
    here, below = np.power(chance, number), np.zeros(number.size)
    for step in range(_MOST_STEPS):
        up = below + here
        missing = np.zeros(rows.size, dtype=bool)
        for level, at in zip(levels, found, strict=True):
            short = (up if level == 0.5 else (below + up) / 2) < level
            at[rows[short]] = step + 1
            missing |= short
        if missing.sum() < _THINNED * rows.size:
            rows, here, up = rows[missing], here[missing], up[missing]
            number, other = number[missing], other[missing]
        if not rows.size:
            break
        below, here = up, here * ((number + step) / (step + 1.0) * other)
    for level, at in zip(levels, found, strict=True):
        at[at == _MOST_STEPS] = np.nan
        if level > 0.5:
            np.maximum(at - 1.0, 0.0, out=at)
    return found


def gamma_scores(mean: Table, sd: Table, scores: Table) -> Table:
    """Normal scores (any x questions) as values of gammas with these means and deviations.

    By the cube root of a gamma, which is nearly normal (Wilson & Hilferty 1931): right to a
    hundredth of the deviation from about three counts on. Numbers that may be negative stay normal.
    """
    shape = np.square(mean / np.maximum(sd, 1e-12))
    safe = np.maximum(shape, 1e-6)
    root = 1 - 1 / (9 * safe) + scores / (3 * np.sqrt(safe))
    skewed = mean * np.maximum(root, 0.0) ** 3
    result: Table = np.where(mean > 0, skewed, mean + sd * scores)
    return result
