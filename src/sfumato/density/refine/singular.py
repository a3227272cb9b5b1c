"""Unknown rhythms: the low-rank part of a noisy matrix, by singular values.

A matrix of independent noise with standard deviation sigma has its largest singular value
near sigma * (sqrt(n) + sqrt(m)); what rises above it is signal that many places share. Counts
vary by chance on top of the noise that was added, so the level of the noise is read from
the middle of the spectrum, which signal of low rank does not reach (Gavish & Donoho 2014).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_MARGIN = 1.02
"""How far above the edge of pure noise a singular value must stand."""


def noise_edge(rows: int, columns: int, sigma: float) -> float:
    """Where the singular values of pure noise end."""
    return sigma * float(np.sqrt(rows) + np.sqrt(columns))


@functools.cache
def middle_of_noise(rows: int, columns: int) -> float:
    """Median singular value of unit noise of that shape (Marchenko & Pastur 1967)."""
    small, large = min(rows, columns), max(rows, columns)
    beta = small / large
    low, high = (1 - np.sqrt(beta)) ** 2, (1 + np.sqrt(beta)) ** 2
    x = np.linspace(low, high, 20_001)
    density = np.sqrt(np.maximum((high - x) * (x - low), 0.0)) / np.maximum(x, 1e-12)
    share = np.cumsum(density)
    return float(np.sqrt(np.interp(0.5, share / share[-1], x) * large))


def effective_noise(matrix: Matrix, columns: int | None = None) -> float:
    """Standard deviation of everything in the matrix that has no low rank.

    `columns` is the number of dimensions left where some were projected out before.
    """
    rows, width = matrix.shape
    alive = min(rows, columns or width)
    if alive < 1:
        return 0.0
    values = np.linalg.svd(matrix, compute_uv=False)[:alive]
    return float(np.median(values)) / middle_of_noise(rows, columns or width)


def components(
    matrix: Matrix, sigma: float, columns: int | None = None, most: int = 40
) -> tuple[Matrix, Matrix, Matrix]:
    """Left vectors, noisy values and right vectors of what rises above the noise."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    edge = _MARGIN * noise_edge(matrix.shape[0], columns or matrix.shape[1], sigma)
    rank = min(int((values > edge).sum()), most)
    return left[:, :rank], values[:rank], right[:rank].T
