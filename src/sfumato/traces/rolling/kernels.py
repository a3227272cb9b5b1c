"""Compiled: which reports keep every run of hours within the cap."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@njit(cache=True)
def allow(
    users: int, user: Ints, hour: Ints, spent: Ints, runs: int, cost: int, cap: int
) -> NDArray[np.bool_]:
    """Reports sorted by user and time; `spent` has rows (user, hour, units), by user.

    `load[s]` is what the hours s … s + runs - 1 bear. A report in hour h touches the `runs` loads
    that contain h and passes only if all of them stay within the cap.
    """
    passed = np.zeros(user.size, np.bool_)
    start, row = 0, 0
    for who in range(users):
        stop = start
        while stop < user.size and user[stop] == who:
            stop += 1
        if stop > start:
            first, last = hour[start], hour[stop - 1]
            load = np.zeros(last - first + 2 * runs, np.int64)
            base = first - runs + 1
            while row < spent.shape[0] and spent[row, 0] <= who:
                if spent[row, 0] == who:
                    at = spent[row, 1] - base
                    for s in range(max(at - runs + 1, 0), min(at, load.size - 1) + 1):
                        load[s] += spent[row, 2]
                row += 1
            for i in range(start, stop):
                at = hour[i] - base
                fits = True
                for s in range(at - runs + 1, at + 1):
                    if load[s] + cost > cap:
                        fits = False
                        break
                if fits:
                    passed[i] = True
                    for s in range(at - runs + 1, at + 1):
                        load[s] += cost
        start = stop
    return passed
