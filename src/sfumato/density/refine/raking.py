"""Scale a table until its row and column sums agree with margins measured apart.

Deming & Stephan (1940). The ratios are what is applied, so they can be smoothed or shrunk
by the caller; rows or columns without mass take theirs from the margins evenly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def ratios(target: Table, current: Table, largest: float = 4.0) -> Table:
    """target / current, kept within 1/largest … largest; 1 where there is nothing to scale."""
    usable = (current > 0) & (target > 0)
    raw = np.where(usable, target / np.where(usable, current, 1.0), 1.0)
    result: Table = np.clip(raw, 1 / largest, largest)
    return result


def rake(table: Table, rows: Table, columns: Table, rounds: int = 2) -> Table:
    """Columns first, then rows, `rounds` times."""
    result = table
    for _ in range(rounds):
        result = result * ratios(columns, result.sum(axis=0))[None, :]
        result = result * ratios(rows, result.sum(axis=1))[:, None]
    return result
