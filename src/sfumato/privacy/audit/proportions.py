"""Exact confidence limits for a proportion (Clopper & Pearson 1934), vectorised.

`k` successes in `n` independent trials; each limit fails with probability at most `alpha`,
whatever the true proportion is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv


def lower_limit(k: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """A number that the true proportion is below with probability at most `alpha`."""
    hits = np.asarray(k, dtype=np.float64)
    safe = np.maximum(hits, 1.0)
    return np.where(hits > 0, betaincinv(safe, n - safe + 1, alpha), 0.0)


def upper_limit(k: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """A number that the true proportion is above with probability at most `alpha`."""
    hits = np.asarray(k, dtype=np.float64)
    safe = np.minimum(hits, n - 1.0)
    return np.where(hits < n, betaincinv(safe + 1, n - safe, 1 - alpha), 1.0)
