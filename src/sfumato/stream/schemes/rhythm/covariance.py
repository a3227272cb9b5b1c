"""The covariance of hours, learned from snapshots: a city's rhythms are few, and not stationary.

The kernel of `process` knows that neighbouring hours are alike. That evenings are like early
mornings, that offices fill when homes empty, it does not: a few shared rhythms explain nearly
all that cells do. So its covariance over (kind of day, hour) is the starting point only, and
expectation maximisation (Dempster, Laird & Rubin 1977, for a Gaussian observed in part) moves
it towards what the snapshots show. Hours not seen yet keep the kernel's covariance through a
share of it that is mixed in at every step. Everything is computed from noisy snapshots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sfumato.stream.contract import Values
from sfumato.stream.schemes.rhythm.process import Kernel, Times

HOURS = 48
"""At most so many parts of the day are told apart."""
_KEPT = 0.005
"""Share of the kernel's covariance that is mixed in at every step."""
_STEPS = 4


class Hours:
    """The grid of (kind of day, part of the day) that the covariance is over."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.parts = min(length, HOURS)
        part = np.arange(self.parts)
        phase = part * length // self.parts
        kinds = np.repeat([False, True], self.parts)
        # Every point is a day of its own: what only one day has in common is not in here.
        day = np.arange(2 * self.parts)
        self.times = Times(day, np.tile(phase, 2), kinds, length)

    @property
    def size(self) -> int:
        return 2 * self.parts

    def index(self, times: Times) -> NDArray[np.int64]:
        """Where on the grid each time lies."""
        part = np.minimum(times.phase, self.length - 1) * self.parts // self.length
        return np.asarray(part + self.parts * times.free, dtype=np.int64)

    def start(self, kernel: Kernel) -> Values:
        """The kernel's own covariance on the grid."""
        return kernel.lasting(self.times, self.times)


class Learned:
    """A kernel whose lasting part was learned; what is shared by one day only is the kernel's."""

    def __init__(self, hours: Hours, kernel: Kernel, covariance: Values) -> None:
        self.hours = hours
        self.kernel = kernel
        self.covariance = covariance

    def between(self, a: Times, b: Times) -> Values:
        lasting = self.covariance[np.ix_(self.hours.index(a), self.hours.index(b))]
        return lasting + self.kernel.of_today(a, b)

    def with_level(self, times: Times) -> Values:
        """Covariance of each time with the level: the mean over kinds of day and hours."""
        return np.asarray(self.covariance.mean(axis=0)[self.hours.index(times)])


def learned(
    hours: Hours,
    kernel: Kernel,
    times: Times,
    moments: Values,
    noise: float,
    before: Values | None,
) -> Learned:
    """Some steps of expectation maximisation, from where the last snapshot left off."""
    prior = hours.start(kernel)
    covariance = prior if before is None else before
    seen = hours.index(times)
    fixed = kernel.of_today(times, times)
    fixed[np.diag_indices_from(fixed)] += noise
    for _ in range(_STEPS):
        across = covariance[:, seen]
        factor = factored(across[seen] + fixed)
        gain = cho_solve(factor, across.T, check_finite=False).T
        found = gain @ moments @ gain.T + covariance - gain @ across.T
        covariance = (1 - _KEPT) * (found + found.T) / 2 + _KEPT * prior
    return Learned(hours, kernel, covariance)


def factored(covariance: Values) -> tuple[Values, bool]:
    """Cholesky factor. Where counts are huge beside the noise, rounding may have cost the last
    digits that keep it positive; then a hair of noise more is assumed."""
    more, level = 0.0, float(np.diag(covariance).mean())
    while True:
        raised = covariance + more * level * np.eye(covariance.shape[0])
        try:
            found, lower = cho_factor(raised, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            if more > 1.0:
                raise
            more = max(10 * more, 1e-12)
            continue
        return np.asarray(found), bool(lower)
