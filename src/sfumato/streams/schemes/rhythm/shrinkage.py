"""Point estimate per cell: a weighted posterior median of its level. Post-processing.

The posterior median of a cell's level has the least absolute error over all cells. Where nearly all
are empty that is zero nearly everywhere, and the few busy cells, which a reader looks at first, are
shrunk away. Weights keep the busiest cells from shrinking to zero: a level among the busiest of the
city counts more, and the answer is the weighted median. The weight grows until the expected error
over all cells exceeds a stated limit, all errors being those that the posterior itself expects.
Weight that costs nothing over all cells is taken. More is taken only until the error on the busiest
cells is clearly below those of zeros and of the plain noisy mean; it may cost half of what was won
over these on all cells, and must not make relative errors worse than those of zeros. Constants:
docs/decisions/streams.md.

`level_correction` brings a Gaussian estimate to these levels. Cities are sparse: most cells hold
hardly anybody, a few hold many. Shrinkage with one Gaussian prior leaves noise in the empty ones
and takes people from the full ones, so levels come from the law of levels (`levels`). Where
Gaussian levels fit best the Gaussian estimate stays, and is only lifted by what busy cells count
more; and where the noise is finer than the law's grid a cell's Gaussian level stays. Everything is
computed from noisy means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.streams.output import nearest_counts
from sfumato.streams.scheme import Values
from sfumato.streams.schemes.rhythm.levels import LevelPosterior, fit_levels

BUSY = 200
"""So many cells count as the busiest, at most half of all: the cells on which the studies score
what a reader looks at first (docs/streams.md)."""
_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""What a busy level counts more, in times that make busy cells as a whole count like all. Tried in
this order until one costs too much; letting the worst of three errors decide alone gave away up to
8 % over all cells where nothing was to be mended (docs/decisions/streams.md)."""
_MATTERS = 0.05
"""Cells to whose chances the largest weight adds no more than this do not change."""
_CLEARLY = 0.97
"""The share of a rival's expected error that is clearly less."""
_SANE = 0.001
"""Relative errors are taken of at least this share of all people, and of one person."""
_CHANCE = 2 / math.pi
"""Square of a count's mean deviation from its level, per person (Poisson)."""


def weighted_medians(posterior: LevelPosterior, rival: Values) -> tuple[Values, Values, Values]:
    """The level of every cell, how much of it is due to weights, and what each level counts more.

    `rival` is what the plain noisy mean would publish.
    """
    levels, chance = posterior.levels, posterior.chance
    busy, unit = busiest_levels(posterior)
    shown = chance * busy
    least = max(_SANE * _added(chance, levels), 1.0)
    views = (chance, shown, shown / np.maximum(levels, least))
    zeros = np.array([_added(view, levels) for view in views])
    bar = np.minimum(zeros, _errors(views, levels, rival))
    plain = median_level(levels, np.cumsum(chance, axis=1))
    start, top, relative = unweighted = _errors(views, levels, whole(plain))
    limit = max((start + bar[0]) / 2, start)
    # Only cells that may be busy can change.
    some = np.flatnonzero(shown.sum(axis=1) * unit * _WEIGHTS[-1] > _MATTERS)
    part, seen = tuple(view[some] for view in views), levels[some]
    rest = unweighted - _errors(part, seen, whole(plain[some]))
    summed, more = np.cumsum(part[0], axis=1), unit * np.cumsum(part[1], axis=1)
    best, taken = plain.copy(), 0.0
    for weight in _WEIGHTS:
        tried = median_level(seen, summed + weight * more)
        reached, better, now = rest + _errors(part, seen, whole(tried))
        dear = reached > (start if top <= _CLEARLY * bar[1] else limit)
        if dear or now > max(zeros[2], relative):
            break
        if better < top:
            best[some], top, relative, taken = tried, better, now, weight
    return best, best - plain, np.asarray(taken * unit * busy, dtype=np.float64)


def busiest_levels(posterior: LevelPosterior) -> tuple[NDArray[np.bool_], float]:
    """Which levels are among the busiest, and the weight at which they count like all cells."""
    logs = np.log2(posterior.base)[:, None] + np.log2(np.maximum(posterior.multiples, 1e-9))
    bins = (8 * (logs - float(logs.min()))).astype(np.int64)
    cells = np.bincount(bins.ravel(), weights=posterior.chance.ravel())
    above = np.cumsum(cells[::-1])[::-1]
    least = int(np.flatnonzero(above >= min(BUSY, posterior.base.size / 2)).max(initial=0))
    busy = (bins >= least) & (posterior.multiples > 0)
    people = float(posterior.base @ ((posterior.chance * busy) @ posterior.multiples))
    return busy, float(posterior.expected.sum()) / max(people, 1e-12)


def median_level(levels: Values, summed: Values) -> Values:
    """Medians along the rows by running sums of weights, between the levels around the half."""
    half = 0.5 * summed[:, -1]
    after = np.argmax(summed >= half[:, None], axis=1)
    rows, before = np.arange(after.size), np.maximum(after - 1, 0)
    below = np.where(after > 0, summed[rows, before], 0.0)
    share = (half - below) / np.maximum(summed[rows, after] - below, 1e-300)
    low = np.where(after > 0, levels[rows, before], 0.0)
    return np.asarray(low + share * (levels[rows, after] - low))


def whole(level: Values) -> Values:
    """The median of a Poisson count, nearly."""
    return np.asarray(np.floor(np.maximum(level + 1 / 3 - 0.02 / np.maximum(level, 0.05), 0.0)))


def _errors(views: tuple[Values, ...], levels: Values, answer: Values) -> Values:
    """Expected absolute errors of whole answers, summed with each of the weights."""
    some = answer > 0
    error = levels.copy()
    apart = np.square(levels[some] - answer[some, None])
    error[some] = np.sqrt(apart + _CHANCE * levels[some])
    return np.array([_added(view, error) for view in views])


def _added(weights: Values, values: Values) -> float:
    """The weighted sum, in one thread and without a copy."""
    return float(np.einsum("ij,ij->", weights, values))


@dataclass(frozen=True, slots=True, eq=False)
class LevelCorrection:
    """Brings a Gaussian estimate to other levels: down by a factor, up by people."""

    factor: Values
    more: Values
    settled: NDArray[np.bool_]
    """Cells whose level was chosen: how uncertain it is has been taken into account."""
    doubt: Values
    """How uncertain chosen levels are (a variance)."""

    def apply(self, values: Values, variance: Values, of_level: Values) -> tuple[Values, Values]:
        """`of_level` is the part of the variance that is the level's."""
        left = np.where(self.settled, np.maximum(variance - of_level, 0.0), variance)
        return values * self.factor + self.more, left * np.square(self.factor)

    def sd(self, variance: Values) -> float:
        """Standard deviation of one value, in the mean over cells."""
        return float(np.sqrt((variance + self.doubt).mean()))


def level_correction(
    mean: Values,
    prior: Values,
    base: Values,
    variance: float,
    draws: int,
    laplace: bool,
    whole: bool = True,
    chance: float = 0.0,
) -> LevelCorrection:
    """From the levels `base` to those of the law that fits the noisy means best.

    Levels are chosen for the least absolute error of `whole` counts, or else are means.
    """
    posterior = fit_levels(mean, prior, variance, draws, laplace, chance)
    if whole:
        level, lifted, _ = weighted_medians(posterior, nearest_counts(mean).astype(np.float64))
    else:
        level, lifted = posterior.expected, np.zeros(mean.size)
    settled = level * (posterior.step - 1) <= math.sqrt(variance)
    none = np.zeros(mean.size)
    if posterior.name == "gaussian":
        more = np.where(settled, lifted, 0.0)
        return LevelCorrection(none + 1, more, none.astype(bool), none)
    doubt = np.where(settled, posterior.doubt(level), 0.0)
    level = np.where(settled, level, base)
    factor = np.minimum(level / np.maximum(base, 1e-9), 1.0)
    return LevelCorrection(factor, np.maximum(level - base, 0.0), settled, doubt)
