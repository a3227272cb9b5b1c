"""Prior mean and level of every cell from a noisy mean histogram, and whole counts at the end.

The prior mean of a cell is foretold by the level of the cells around it, without its own: a
blur of the width, of a few tried, that foretells the cells best by a line, which is flat where
surroundings say nothing; or the city's mean where the cells are no grid. The level is the
cell's own mean shrunk towards that, as much as the noise asks for (James & Stein 1961). All
of it is computed from noisy numbers: post-processing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from sfumato.stream.contract import Values

_BLURS = (0.7, 1.5, 3.0, 6.0)
"""Widths, in cells, of the neighbourhoods tried."""
_LEAST = 0.05
"""No cell's level is below this share of the mean."""
_SHARE, _FEW = 0.1, 50
"""Share of the cells that count as busy, and the fewest of them."""
_MORE = 1.5
"""Times the publicly expected people that there may be."""
_DOUBT = 2.0
"""Standard errors of the city's mean below which it is taken as 0."""
_PRICE = 3.0
"""Twice the log likelihood that surroundings must gain, in logs of the number of cells."""
_FIRM = 0.5
"""Share of the cells' spread that must be more than noise for their own means to be levels."""


def neighbourhood(
    mean: Values, columns: int | None, variance: float = 0.0, people: int | None = None
) -> Values:
    """What the cells around foretell of each cell; `variance` is the noise in a mean.

    The city's mean is itself noisy, and is taken to be lower by as much as it is uncertain: a
    city that may well be empty is empty. And there are not many more people than are expected.
    """
    found = _foretold(mean, columns, variance)
    if people is not None:
        found = found * min(1.0, _MORE * people / max(float(found.sum()), 1e-9))
    return found


def _foretold(mean: Values, columns: int | None, variance: float) -> Values:
    middle = float(mean.mean())
    doubt = _DOUBT**2 * variance / mean.size
    middle = max(middle - doubt / middle, 0.0) if middle > 0 else 0.0
    best, error = np.full(mean.size, middle), float(np.square(mean - middle).mean())
    first, price = error, _PRICE * math.log(mean.size)
    if columns is None:
        return best
    grid = mean.reshape(-1, columns)
    here = np.zeros((13, 13))
    here[6, 6] = 1.0
    for width in _BLURS:
        own = float(gaussian_filter(here, width, mode="constant", truncate=3.0)[6, 6])
        around = gaussian_filter(grid, width, mode="nearest", truncate=3.0)
        blurred = ((around - own * grid) / (1 - own)).ravel()
        # A blur of noise foretells nothing: its slope is near 0, and so is what is left of it.
        apart = blurred - blurred.mean()
        slope = float(apart @ (mean - middle)) / max(float(apart @ apart), 1e-12)
        guess = np.maximum(middle + min(max(slope, 0.0), 1.0) * apart, 0.0)
        reached = float(np.square(mean - guess).mean())
        if reached < error and mean.size * math.log(first / max(reached, 1e-300)) > price:
            best, error = guess, reached
    return best


def levels(mean: Values, prior: Values, variance: float) -> Values:
    """Every cell's level as a multiple of the mean level; `variance` is the noise in a mean.

    While most of what sets cells apart is noise, levels are those of the surroundings, which do
    not contain the cell: its own noise would pass for how much it varies.
    """
    spread = float(np.square(mean - prior).mean())
    trust = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    level = prior + trust * (mean - prior) if trust > _FIRM else prior
    return np.asarray(np.clip(level / max(float(level.mean()), 1e-9), _LEAST, None))


def busiest(level: Values) -> NDArray[np.int64]:
    """Indices of the cells with the highest levels, on which covariances are learned."""
    return np.argsort(-level, kind="stable")[: max(int(_SHARE * level.size), _FEW)]


def median_counts(mean: Values, variance: Values) -> Values:
    """Whole people: the median of a count with that mean, as uncertain as that.

    A count around an uncertain intensity is skewed (negative binomial), and what has the least
    absolute error is its median, not its mean: mean - skew / 6 (Cornish & Fisher 1938). Nearly
    empty cells become zeros by this, full ones stay what they are.
    """
    mean = np.maximum(mean, 1e-3)
    third = mean + 3.0 * variance + 2.0 * np.square(variance) / mean
    return np.asarray(np.rint(np.maximum(mean - third / (mean + variance) / 6.0, 0.0)))
