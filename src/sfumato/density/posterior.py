"""The posterior of a density: draws, from which value, median, interval and every sum come.

Draws hold what is not known of a count's expectation: the level, the totals of places and of slots,
the layers. On top comes chance: a count is a whole number of visits around its expectation, or
is gathered from shares of such numbers, and the part of that which the measurement did not see has
a variance and no draws. Draws come in pairs that lie on both sides of the mean, so
that their mean has hardly any chance of its own.

Quantiles are those of a law fitted to the draws' mean and variance, not order statistics of a few
draws. Counts are small, skewed and often zero, so the law is a negative binomial in pieces
of the size that a cell is gathered in (one, where whole visits are counted), read halfway through
its steps; above a few dozen pieces it is a gamma.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

_MANY = 60.0
"""Pieces from which the steps of a count no longer matter."""
_LEAST_PIECE = 0.02
_SEEN = 0.8
"""Variance over that of independent visits below which the count itself was seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A sum of cells: its posterior mean, and an interval of the stated probability."""

    value: float
    lower: float
    upper: float
    coverage: float


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Draws x places x slots of expectations, and the variance of chance for each cell."""

    draws: NDArray[np.float32]
    chance: Table
    piece: Vector
    """Size in which the counts of a place come: 1 for whole visits, less for shares."""

    @property
    def mean(self) -> Table:
        """The posterior mean of every cell. It adds up."""
        found: Table = self.draws.mean(axis=0, dtype=np.float64)
        return found

    @property
    def sd(self) -> Table:
        """Standard deviation of a count's error."""
        found: Table = np.sqrt(self.draws.var(axis=0, dtype=np.float64, ddof=1) + self.chance)
        return found

    def quantiles(self, *levels: float) -> tuple[Table, ...]:
        """Of every cell, one table for each level."""
        mean, variance = self.mean, np.square(self.sd)
        piece = np.broadcast_to(self.piece[:, None], mean.shape)
        return tuple(_quantile(mean, variance, piece, level) for level in levels)

    def interval(self, coverage: float) -> tuple[Table, Table]:
        """Central interval of that probability for every cell."""
        low, high = self.quantiles(0.5 - coverage / 2, 0.5 + coverage / 2)
        return low, high

    def total(self, coverage: float, cells: Table | None = None) -> Estimate:
        """A sum of cells, each with a weight (all, with weight one, unless told)."""
        if cells is None:
            sums = self.draws.sum(axis=(1, 2), dtype=np.float64)
            chance = float(self.chance.sum())
        else:
            flat = self.draws.reshape(self.draws.shape[0], -1)
            sums = np.asarray(flat @ cells.ravel(), dtype=np.float64)
            chance = float((np.square(cells) * self.chance).sum())
        mean = float(sums.mean())
        variance = float(sums.var(ddof=1)) + chance
        ends = [
            float(_smooth_quantile(np.array(mean), np.array(variance), level))
            for level in (0.5 - coverage / 2, 0.5 + coverage / 2)
        ]
        return Estimate(mean, ends[0], ends[1], coverage)


def _smooth_quantile(mean: Table, variance: Table, level: float) -> Table:
    """Of a gamma with that mean and variance."""
    safe = np.maximum(mean, 1e-9)
    spread = np.maximum(variance, 1e-12 * np.square(safe))
    found = np.asarray(stats.gamma.ppf(level, np.square(safe) / spread, scale=spread / safe))
    return np.where(mean > 1e-9, found, 0.0)


def _quantile(mean: Table, variance: Table, piece: Table, level: float) -> Table:
    size = np.maximum(piece, _LEAST_PIECE)
    pieces, spread = mean / size, variance / np.square(size)
    result = _smooth_quantile(mean, variance, level)
    # Less variance than chance alone would have: the count itself was seen, and no law of
    # independent visits fits.
    few = (pieces < _MANY) & (pieces > 1e-9) & (spread > _SEEN * pieces)
    chance = np.clip(pieces[few] / spread[few], 1e-9, 1 - 1e-6)
    number = pieces[few] * chance / (1 - chance)
    at = np.asarray(stats.nbinom.ppf(level, number, chance))
    # A bound can only lie on a whole number, so the probability beyond it is too large or too
    # small. Whichever is nearer: no interval is then too wide on average.
    if level != 0.5:
        below = np.asarray(stats.nbinom.cdf(at - 1, number, chance))
        middle = (below + np.asarray(stats.nbinom.cdf(at, number, chance))) / 2
        at = at + (middle < level) if level < 0.5 else at - (middle >= level)
    result[few] = np.maximum(at, 0.0) * size[few]
    return np.maximum(result, 0.0)
