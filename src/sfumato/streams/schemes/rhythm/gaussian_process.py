"""A Gaussian process over days and hours: kernel by marginal likelihood, covariance learned by EM.

**The kernel.** A cell's deviation from its prior mean, in units of the square root of its level, is

    constant            A
  + rhythm of the day   B  exp(-(phase apart)^2 / 2 l^2)
  + its kind of day     W  the same, between days of the same kind (working, free)
  + this very day       C  exp(-|phase apart| / m), between slots of one day

plus the noise of the measurement. Phases lie on a circle. All cells are observed at the same
slots, so their second moments are one small matrix; the likelihood of many cells is a
function of it, and the amounts are found by coordinate search.

**The learned covariance.** The kernel knows that neighbouring hours are alike. That evenings are
like early mornings, that offices fill when homes empty, it does not: a few shared rhythms explain
nearly all that cells do, and they are not stationary. So its covariance over (kind of day, hour) is
the starting point only, and expectation maximisation (Dempster, Laird & Rubin 1977, for a Gaussian
observed in part) moves it towards what the snapshots show. Hours not seen yet keep the kernel's
covariance through a share of it that is mixed in at every step.

`Bands` sorts cells into bands of like level: one set of weights serves a whole band. Everything is
computed from noisy snapshots and public times: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from sfumato.model.matrices import factor
from sfumato.streams.scheme import Values


class Bands:
    """`apart` is snapshot x cell, what was measured less the prior mean."""

    def __init__(self, level: Values, apart: Values) -> None:
        bands = np.rint(2 * np.log2(level)).astype(np.int64)
        self._order = np.argsort(bands, kind="stable")
        kinds, self._starts = np.unique(bands[self._order], return_index=True)
        self._stops = np.append(self._starts[1:], level.size)
        self._apart = np.ascontiguousarray(apart[:, self._order])
        self.levels = 2.0 ** (kinds / 2)

    def combined(self, share: Values) -> Values:
        """Every cell's snapshots added up with its band's weights (band x snapshot)."""
        out = np.empty(self._order.size)
        out[self._order] = np.concatenate(
            [
                row @ self._apart[:, start:stop]
                for row, start, stop in zip(share, self._starts, self._stops, strict=True)
            ]
        )
        return out

    def of_each(self, values: Values) -> Values:
        """A number of every band, for each of its cells."""
        out = np.empty(self._order.size)
        out[self._order] = np.repeat(values, self._stops - self._starts)
        return out


_LENGTHS = (0.06, 0.1, 0.16, 0.28)
"""l as a share of the day: about 1.5 to 7 hours."""
_LENGTH_STEPS = (0.2, 0.5, 2.0, 5.0)
"""Factors by which the coordinate search changes an amount. Coarse: the kernel is only where the
learned covariance starts from."""


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """When the snapshots were taken: day, phase and kind of day of each."""

    day: NDArray[np.int64]
    phase: NDArray[np.int64]
    free: NDArray[np.bool_]
    length: int

    def with_one_more(self, day: int, phase: int, free: bool) -> Times:
        return Times(
            np.append(self.day, day),
            np.append(self.phase, phase),
            np.append(self.free, free),
            self.length,
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """The amounts A, B, W, C and the length l."""

    constant: float
    daily: float
    kind: float
    today: float
    length: float

    def lasting(self, a: Times, b: Times) -> Values:
        """What comes back on other days."""
        apart = _apart(a, b)
        alike = np.exp(-0.5 * np.square(apart / self.length))
        same_kind = a.free[:, None] == b.free[None]
        return np.asarray(
            self.constant + (self.daily + self.kind * same_kind) * alike, dtype=np.float64
        )

    def of_today(self, a: Times, b: Times) -> Values:
        """What two slots of one and the same day share besides."""
        same_day = a.day[:, None] == b.day[None]
        return np.asarray(self.today * same_day * np.exp(-_apart(a, b) / 0.3), dtype=np.float64)

    def between(self, a: Times, b: Times) -> Values:
        return self.lasting(a, b) + self.of_today(a, b)


def _apart(a: Times, b: Times) -> Values:
    """Shares of a day between the phases, on the circle."""
    apart = np.abs(a.phase[:, None] - b.phase[None]) / a.length
    return np.asarray(np.minimum(apart, 1.0 - np.minimum(apart, 1.0)), dtype=np.float64)


class Covariance(Protocol):
    """Anything that says how much the counts at two sets of times have in common."""

    def between(self, a: Times, b: Times) -> Values: ...


def likelihood(kernel: Kernel, times: Times, moments: Values, noise: float) -> float:
    """Log likelihood per cell, up to a constant, of cells with these second moments."""
    covariance = kernel.between(times, times)
    covariance[np.diag_indices_from(covariance)] += noise
    found = factor(covariance)
    if found is None:
        return -np.inf
    spread = 2.0 * np.log(np.diag(found[0])).sum()
    return float(-spread - np.trace(cho_solve(found, moments, check_finite=False)))


def fit(times: Times, moments: Values, noise: float, start: Kernel | None) -> Kernel:
    """Coordinate search from the last kernel, or from the variance that noise leaves over."""
    if start is None:
        left = max(float(np.diag(moments).mean()) - noise, 1e-3 * noise)
        start = Kernel(0.7 * left, 0.1 * left, 0.1 * left, 0.1 * left, 0.1)
    best, score = start, likelihood(start, times, moments, noise)
    for _ in range(2):
        for name in ("constant", "daily", "kind", "today"):
            for step in _LENGTH_STEPS:
                tried = replace(best, **{name: max(getattr(best, name) * step, 1e-6 * noise)})
                reached = likelihood(tried, times, moments, noise)
                if reached > score:
                    best, score = tried, reached
        for length in _LENGTHS:
            tried = replace(best, length=length)
            reached = likelihood(tried, times, moments, noise)
            if reached > score:
                best, score = tried, reached
    return best


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The process given snapshots: weights of each, for any slot and any noise.

    The covariance of the snapshots is diagonalised once; bands of cells differ only in how
    large the noise is beside their level.
    """

    kernel: Covariance
    times: Times
    values: Values
    vectors: Values

    @classmethod
    def given(cls, kernel: Covariance, times: Times) -> Posterior:
        values, vectors = np.linalg.eigh(kernel.between(times, times))
        return cls(kernel, times, np.maximum(values, 0.0), vectors)

    def weights(self, now: Times, noise: Values) -> tuple[Values, Values]:
        """Weights (band x snapshot) in the posterior mean at `now`, and its variance by band."""
        common = self.kernel.between(now, self.times)[0]
        share = self.shares(common, noise)
        variance = self.kernel.between(now, now)[0, 0] - share @ common
        return share, np.maximum(variance, 0.0)

    def shares(self, common: Values, noise: Values) -> Values:
        """Weights (band x snapshot) for what has these covariances with the snapshots."""
        shrunk = (self.vectors.T @ common) / (self.values + noise[:, None])
        return np.asarray(shrunk @ self.vectors.T)


HOURS = 48
"""At most so many parts of the day are told apart."""
_KEPT = 0.005
"""Share of the kernel's covariance that is mixed in at every step. Learning the covariance took 15
to 22 % off the error on development crowds (docs/decisions/streams.md)."""
_FIT_STEPS = 4
"""Steps of expectation maximisation a snapshot; the next one goes on from there."""


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
    for _ in range(_FIT_STEPS):
        across = covariance[:, seen]
        if factor(across[seen] + fixed) is None:
            # Distances on a circle make the kernel one only nearly, which noise hides. Where
            # counts are far above the noise, steps would carry that on and multiply it.
            prior, covariance = nearest_covariance(prior), nearest_covariance(covariance)
            across = covariance[:, seen]
        gain = cho_solve(factored(across[seen] + fixed), across.T, check_finite=False).T
        expected = gain @ moments @ gain.T + covariance - gain @ across.T
        covariance = (1 - _KEPT) * (expected + expected.T) / 2 + _KEPT * prior
    return Learned(hours, kernel, covariance)


def nearest_covariance(matrix: Values) -> Values:
    """The nearest matrix without negative eigenvalues (Higham 1988)."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def factored(covariance: Values) -> tuple[Values, bool]:
    """Cholesky factor. Where counts are huge beside the noise, rounding may have cost the last
    digits that keep it positive; then a hair of noise more is assumed."""
    more, unit = 0.0, float(np.diag(covariance).mean()) * np.eye(covariance.shape[0])
    while (found := factor(covariance + more * unit)) is None:
        if more > 1.0:
            raise np.linalg.LinAlgError("no covariance")
        more = max(10 * more, 1e-12)
    return found
