"""The compiled grouping of regions that are due."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def groups(
    order: NDArray[np.int64],
    predicted: NDArray[np.float64],
    past: NDArray[np.float64],
    alone_above: float,
    alike: float,
    near: float,
) -> NDArray[np.int64]:
    """Group of each region in `order` (ascending prediction); numbers from 0.

    A region predicted above `alone_above` stays alone. Others join the open group while
    they are within `near` of its first member, the group's predictions stay below
    `alone_above`, and their last releases correlate with the first member's.
    """
    out = np.empty(order.size, dtype=np.int64)
    number, pivot = -1, -1
    total = 0.0
    for k in range(order.size):
        cell = order[k]
        value = max(predicted[cell], 0.0)
        joins = pivot >= 0 and value <= alone_above
        if joins:
            joins = abs(value - max(predicted[pivot], 0.0)) < near and total + value < alone_above
        if joins:
            joins = _correlation(past[:, cell], past[:, pivot]) > alike
        if joins:
            total += value
        else:
            number += 1
            pivot, total = cell, value
        out[k] = number
    return out


@njit(cache=True)
def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Pearson; two flat series count as alike."""
    x, y = a - a.mean(), b - b.mean()
    size = np.sqrt((x * x).sum() * (y * y).sum())
    if size < 1e-12:
        return 1.0 if (x * x).sum() + (y * y).sum() < 1e-12 else 0.0
    return float((x * y).sum() / size)
