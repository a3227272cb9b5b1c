"""Compiled: the predictive mechanism's walk along traces, with noise drawn beforehand."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sfumato.traces.kernels import EARTH_RADIUS_M

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True)
def _metres(lon: float, lat: float, other_lon: float, other_lat: float) -> float:
    a, b = math.radians(lat), math.radians(other_lat)
    across = math.sin(math.radians(other_lon - lon) / 2.0)
    up = math.sin((b - a) / 2.0)
    h = up * up + math.cos(a) * math.cos(b) * across * across
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


@njit(cache=True)
def walk(
    starts: Ints,
    lon: Floats,
    lat: Floats,
    noisy_lon: Floats,
    noisy_lat: Floats,
    tests_cm: Ints,
    threshold_cm: int,
    most_hard: int,
    most_tests: int,
    kind: Ints,
    from_index: Ints,
) -> None:
    """For each fix: 0 a fresh report, 1 the prediction held, 2 the budget is spent.

    `from_index` is the fix whose noisy location is reported. The prediction is the last
    report. Every decision after the test depends on published reports alone.
    """
    for t in range(starts.size - 1):
        hard, tests = 0, 0
        last = -1
        for i in range(starts[t], starts[t + 1]):
            easy = False
            if last >= 0 and (tests >= most_tests or hard >= most_hard):
                kind[i], from_index[i] = 2, last
                continue
            if last >= 0:
                tests += 1
                metres = _metres(lon[i], lat[i], noisy_lon[last], noisy_lat[last])
                apart = math.floor(100.0 * metres)
                easy = apart <= threshold_cm + tests_cm[i]
            if easy:
                kind[i], from_index[i] = 1, last
            else:
                hard += 1
                last = i
                kind[i], from_index[i] = 0, i
