"""Positive levels behind noisy totals: a law of sizes fitted to all of them. Post-processing.

Places differ in size by orders of magnitude and none holds less than nothing, so a total drowned in
noise should be read as "small", not as whatever the noise says nor as a fixed floor. The
levels are taken to be log-normal around what is expected of each; the spread of the law is the one
of highest marginal likelihood, and each level then has a posterior of its own, from which mean and
draws come. Where a total stands far above its noise, the law changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.matrices import inverse, root, solved

Vector = NDArray[np.float64]
Table = NDArray[np.float64]

_SPREADS = np.geomspace(0.02, 3.0, 22)
_LIKELY_SPREAD, _SURE_OF_SPREAD = 0.5, 1.5
"""A weak prior of the law's spread: with a handful of totals their likelihood has no maximum."""
_NODES = np.linspace(-6.0, 6.0, 49)
"""Standard deviations from the middle, evenly spaced: with fewer or uneven nodes the error of the
evidence, times a thousand places, is larger than what noise leaves of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Posterior of each level on nodes of its own."""

    mean: Vector
    sd: Vector
    spread: float
    """Of the law: standard deviation of the logarithm."""
    _nodes: Table
    _cumulative: Table

    def draw(self, uniform: Table) -> Table:
        """Draws x levels, from numbers between 0 and 1 of that shape."""
        found = np.empty(uniform.shape)
        for k in range(self.mean.size):
            found[:, k] = np.interp(uniform[:, k], self._cumulative[k], self._nodes[k])
        return found


def level_posterior(noisy: Vector, variance: Vector, expected: Vector) -> Levels:
    """Levels around `expected` (positive) behind totals with normal noise of those variances."""
    sd = np.sqrt(np.maximum(variance, 1e-18 * np.square(expected)))
    scores = []
    for spread in _SPREADS:
        nodes, log_mass = _log_mass(noisy, sd, expected, float(spread))
        top = log_mass.max(axis=1, keepdims=True)
        mass = np.exp(log_mass - top)
        evidence = np.log(_integral(mass, nodes)) + top[:, 0]
        away = np.log(spread / _LIKELY_SPREAD) / _SURE_OF_SPREAD
        scores.append(float(evidence.sum()) - 0.5 * away**2)
    spread = float(_SPREADS[int(np.argmax(scores))])
    nodes, log_mass = _log_mass(noisy, sd, expected, spread)
    mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
    steps = _steps(mass, nodes)
    cumulative = np.concatenate((np.zeros((noisy.size, 1)), np.cumsum(steps, axis=1)), axis=1)
    cumulative /= np.maximum(cumulative[:, -1:], 1e-300)
    whole = _integral(mass, nodes)
    mean = _integral(mass * nodes, nodes) / whole
    square = _integral(mass * np.square(nodes), nodes) / whole
    deviation = np.sqrt(np.maximum(square - np.square(mean), 0.0))
    return Levels(mean, deviation, spread, nodes, cumulative)


def _log_mass(noisy: Vector, sd: Vector, expected: Vector, spread: float) -> tuple[Table, Table]:
    """Nodes where the posterior may lie, and the logarithm of its density there.

    Half of the nodes follow the noisy total, half the law: whichever is the sharper is seen.
    """
    least = expected * 1e-6
    seen = np.maximum(noisy[:, None] + sd[:, None] * _NODES, least[:, None])
    law = expected[:, None] * np.exp(spread * _NODES - spread**2 / 2)
    nodes = np.sort(np.concatenate((seen, np.maximum(law, least[:, None])), axis=1), axis=1)
    logs = np.log(nodes / expected[:, None])
    log_mass = (
        -0.5 * np.square((noisy[:, None] - nodes) / sd[:, None])
        - 0.5 * np.square(logs / spread + spread / 2)
        - np.log(nodes * spread)
        - np.log(sd)[:, None]
    )
    return nodes, log_mass


def _steps(values: Table, nodes: Table) -> Table:
    """What lies between nodes, by trapezoids over the logarithm, in which the law is normal."""
    heights = values * nodes
    found: Table = 0.5 * (heights[:, 1:] + heights[:, :-1]) * np.diff(np.log(nodes), axis=1)
    return found


def _integral(values: Table, nodes: Table) -> Vector:
    return np.asarray(np.maximum(_steps(values, nodes).sum(axis=1), 1e-300))


_ROUNDS = 40
_LENGTHS = (1.0, 2.5)
_SPREADS_OF_DAY = (0.15, 0.4, 0.8, 1.3)
_OWN_SPREADS = (0.03, 0.12, 0.4)
_FARTHEST = 100.0
"""Logarithm of a level beyond which none is: with its square a number still."""
_OTHER_KIND = 0.7
"""How alike the logarithms of one time are on workdays and at weekends."""


@dataclass(frozen=True, slots=True, eq=False)
class SmoothLevels:
    """Log-normal levels on a clock: the mode, its error, and the levels' means."""

    mean: Vector
    _mode: Vector
    _errors: Table
    """Root of the posterior covariance of the logarithms."""

    def draw(self, normal: Table) -> Table:
        """Draws x levels, from standard normal numbers of that shape."""
        found: Table = np.exp(self._mode + normal @ self._errors.T)
        return found


def levels_of_day(noisy: Vector, variance: Vector, hour: Vector, kind: Vector) -> SmoothLevels:
    """Levels of times of day on kinds of days, behind noisy ones: alike from hour to hour.

    The logarithm is a Gaussian process around the mean level, on the clock's circle, plus a part of
    each time's own; how much it varies and how fast is chosen by the Laplace approximation of the
    marginal likelihood. Levels stay positive however noisy they are.
    """
    centre = max(float(noisy.mean()), 1e-9)
    apart = np.abs(hour[:, None] - hour[None])
    apart = np.minimum(apart, 24.0 - apart)
    alike = np.where(kind[:, None] == kind[None], 1.0, _OTHER_KIND)
    best: tuple[float, Vector, Table] | None = None
    for length in _LENGTHS:
        # On a circle only a kernel of the chord is positive definite for every length.
        chord = 24.0 / np.pi * np.sin(np.pi * apart / 24.0)
        shape = np.exp(-0.5 * np.square(chord / length)) * alike
        for spread in _SPREADS_OF_DAY:
            for own in _OWN_SPREADS:
                prior = spread**2 * shape + own**2 * np.eye(hour.size)
                found = _log_mode(noisy, variance, centre, prior)
                if best is None or found[0] > best[0]:
                    best = found
    assert best is not None
    _, mode, errors = best
    mean = np.exp(mode + 0.5 * np.square(errors).sum(axis=1))
    return SmoothLevels(mean, mode, errors)


def _log_mode(
    noisy: Vector, variance: Vector, centre: float, prior: Table
) -> tuple[float, Vector, Table]:
    """Log evidence, mode of the log levels, and a root of their posterior covariance."""
    lower = np.linalg.cholesky(prior + 1e-9 * np.eye(noisy.size))  # public: its own part is firm
    base = np.log(centre)
    latent = np.zeros(noisy.size)

    def level_of(point: Vector) -> Vector:
        return np.asarray(np.exp(np.clip(base + lower @ point, -_FARTHEST, _FARTHEST)))

    def cost(point: Vector) -> float:
        away = noisy - level_of(point)
        return float(0.5 * (np.square(away) / variance).sum() + 0.5 * point @ point)

    now = cost(latent)
    damping = 1e-3
    curvature = np.eye(noisy.size)
    for _ in range(_ROUNDS):
        level = level_of(latent)
        slope = lower * level[:, None]
        curvature = (slope / variance[:, None]).T @ slope + np.eye(noisy.size)
        gradient = latent - slope.T @ ((noisy - level) / variance)
        step = solved(curvature + damping * np.eye(noisy.size), gradient)
        trial = latent - step
        after = cost(trial)
        if after < now:
            rests = now - after < 1e-6 * (1.0 + abs(now))
            latent, now = trial, after
            damping = max(damping / 5, 1e-6)
            if rests:
                break
        else:
            damping *= 10
            if damping > 1e8:
                break
    within = inverse(curvature)
    errors = lower @ root(0.5 * (within + within.T))
    evidence = -now - 0.5 * float(np.linalg.slogdet(curvature)[1])
    return evidence, np.clip(base + lower @ latent, -_FARTHEST, _FARTHEST), errors
