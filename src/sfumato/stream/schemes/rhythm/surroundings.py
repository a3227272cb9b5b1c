"""Prior mean and level of every cell from a noisy mean histogram, and whole counts at the end.

The prior mean of a cell is the level of the cells around it, without its own: a blur of the
width, of a few tried, that foretells the cells best, or the city's mean where none does better
or the cells are no grid. The level is the cell's own mean shrunk towards that, as much as the
noise asks for (James & Stein 1961). Both are computed from noisy numbers: post-processing.
"""

from __future__ import annotations

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


def neighbourhood(mean: Values, columns: int | None) -> Values:
    """What the cells around foretell of each cell."""
    whole = np.full(mean.size, max(float(mean.mean()), 0.0))
    if columns is None:
        return whole
    best, error = whole, float(np.square(mean - whole).mean())
    grid = mean.reshape(-1, columns)
    here = np.zeros((13, 13))
    here[6, 6] = 1.0
    for width in _BLURS:
        own = float(gaussian_filter(here, width, mode="constant", truncate=3.0)[6, 6])
        around = gaussian_filter(grid, width, mode="nearest", truncate=3.0)
        blurred = np.maximum((around - own * grid) / (1 - own), 0.0).ravel()
        reached = float(np.square(mean - blurred).mean())
        if reached < error:
            best, error = blurred, reached
    return best


def levels(mean: Values, prior: Values, variance: float) -> Values:
    """Every cell's level as a multiple of the mean level; `variance` is the noise in a mean."""
    spread = float(np.square(mean - prior).mean())
    trust = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    level = prior + trust * (mean - prior)
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
