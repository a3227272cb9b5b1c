"""Covariances of hours that cells show by themselves: expectation maximisation over all cells.

`cells.Habits` says that neighbouring hours are alike and that some people stay or return. That
evenings are like early mornings, and working hours unlike both, it does not know: homes empty while
offices fill. So in a city whose total does not change the lasting part of both its kernels, over
(kind of day, hour), is only where the search begins: what a cell's own profile is (R, times the
square of its level) and who stays or returns (N, times its level). With noise and what passes
within hours beside them, a cell of level l has vectors of covariance

    l^2 (R + passing) + l (N + fresh) + noise,

and all cells together, sorted by level, say which R and N are likeliest (Dempster, Laird & Rubin
1977). A share of the first kernels is mixed in at every step: hours that were never seen keep them.

Computed from noisy vectors and public times: post-processing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.model.matrices import factor, firm
from sfumato.streams.scheme import Values
from sfumato.streams.schemes.comb.profiles import Times

if TYPE_CHECKING:
    from sfumato.streams.schemes.comb.cells import Habits

_STEPS, _KEPT = 10, 0.005
"""Steps of expectation maximisation, and the share of the first kernels that each mixes in: as in
`rhythm`. With 30 steps, or a share of .02, errors of a crowd of 130,000 changed by 0.1 %."""
_HOURS = 24
_BANDS = 4
"""Bands of cells for every doubling of the level."""


class Learned:
    """`Habits` whose lasting parts are what the cells of the city show."""

    def __init__(self, habits: Habits) -> None:
        self._habits = habits
        phase = np.tile((np.arange(_HOURS) + 0.5) / _HOURS, 2)
        free = np.repeat([False, True], _HOURS)
        grid = Times(phase, phase, free, np.ones(phase.size))
        self._first = habits.lasting(grid, grid), habits.staying(grid, grid)
        self._own, self._people = self._first

    def fit(
        self, times: Times, seen: Values, profile: Values, level: Values, noise: Values
    ) -> None:
        """Learn from all cells' vectors (cell x vector) what their levels do not explain."""
        at = _hours(times)
        where, cells = np.ix_(at, at), level.size
        passing, fresh = self._habits.passing(times, times), self._habits.fresh(times, times)
        bands = np.rint(_BANDS * np.log2(level)).astype(np.int64)
        groups = []
        for band in np.unique(bands):
            which = np.flatnonzero(bands == band)
            apart = seen[which] - level[which][:, None] * profile[which]
            groups.append((float(level[which].mean()), which.size, apart.T @ apart / which.size))
        for _ in range(_STEPS):
            own, people = cells * self._own, cells * self._people
            for size, many, moments in groups:
                whole = size**2 * (passing + self._own[where])
                whole += size * (fresh + self._people[where]) + np.diag(noise)
                whole = firm(whole, noise)
                if factor(whole) is None:
                    # Steps multiply what rounding leaves of counts far beyond the noise: nothing
                    # of them is learned then.
                    self._own, self._people = self._first
                    return
                inverse = np.linalg.inv(whole)
                core = many * (inverse @ (moments - whole) @ inverse)
                own = own + size**2 * (self._own[:, at] @ core @ self._own[at])
                people = people + size * (self._people[:, at] @ core @ self._people[at])
            self._own = (1 - _KEPT) * own / cells + _KEPT * self._first[0]
            self._people = (1 - _KEPT) * people / cells + _KEPT * self._first[1]

    def relative(self, a: Times, b: Times) -> Values:
        """Covariance over the square of the level."""
        return self._habits.passing(a, b) + self._own[np.ix_(_hours(a), _hours(b))]

    def chance(self, a: Times, b: Times) -> Values:
        """Covariance of chance, over the level."""
        return self._habits.fresh(a, b) + self._people[np.ix_(_hours(a), _hours(b))]


def _hours(times: Times) -> NDArray[np.int64]:
    """Where on the grid of kinds of day and hours each time lies."""
    hour = np.clip((times.phase * _HOURS).astype(np.int64), 0, _HOURS - 1)
    return np.asarray(hour + _HOURS * times.free)
