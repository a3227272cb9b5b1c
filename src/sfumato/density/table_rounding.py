"""Rounding of released tables: three decimals, no negative zero. Post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DECIMALS = 3


def rounded(*tables: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Each table to `DECIMALS`; what rounds to nothing is plain zero."""
    return tuple(np.round(table, DECIMALS) + 0.0 for table in tables)
