"""Compiled: centres of posteriors over cells."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_ITERATIONS = 60
_CLOSE_M = 0.01


@njit(cache=True)
def posterior_centres(
    reports: Floats, places: Floats, prior: Floats, per_metre: float, median: bool
) -> Floats:
    """Mean or geometric median of the posterior of every report (metres)."""
    found = np.empty_like(reports)
    weight = np.empty(prior.size)
    for i in range(reports.shape[0]):
        nearest = np.inf
        for j in range(prior.size):
            d = math.hypot(places[j, 0] - reports[i, 0], places[j, 1] - reports[i, 1])
            weight[j] = d
            nearest = min(nearest, d)
        total, x, y = 0.0, 0.0, 0.0
        for j in range(prior.size):
            # The nearest place has weight one, so that far reports do not underflow to nothing.
            weight[j] = prior[j] * math.exp(-per_metre * (weight[j] - nearest))
            total += weight[j]
            x += weight[j] * places[j, 0]
            y += weight[j] * places[j, 1]
        x, y = x / total, y / total
        if median:
            for _ in range(_ITERATIONS):
                pull, px, py = 0.0, 0.0, 0.0
                for j in range(prior.size):
                    d = math.hypot(places[j, 0] - x, places[j, 1] - y)
                    w = weight[j] / max(d, _CLOSE_M)
                    pull += w
                    px += w * places[j, 0]
                    py += w * places[j, 1]
                px, py = px / pull, py / pull
                moved = math.hypot(px - x, py - y)
                x, y = px, py
                if moved < _CLOSE_M:
                    break
        found[i, 0], found[i, 1] = x, y
    return found
