"""Levels by nonparametric empirical Bayes: how full cells are, judged by how full cells are.

Cities are sparse: most cells hold hardly anybody, a few hold many. Shrinkage with one Gaussian
prior leaves noise in the empty ones and takes people from the full ones. Here the prior is
estimated without a form: the law, over multiples of what a cell's surroundings say, with the
largest likelihood (Robbins 1956; Kiefer & Wolfowitz 1956), by expectation maximisation, with
the exact law of the noise. It is used where it fits the noisy means better than Gaussian
levels do. Everything is computed from noisy means: post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, kve

from sfumato.stream.contract import Values

_GRID, _LEAST = 40, 0.05
"""How many multiples of the surroundings are told apart, and the smallest that is not 0."""
_STEPS = 40
_FLOOR = 0.2
"""Surroundings are taken as at least this share of their mean."""
_FREEDOM = 2.0
"""A mixing law has about four parameters that matter, each worth half a log of the cells."""
_LAPLACE_UP_TO = 12
"""Means of more Laplace draws than this are taken as Gaussian."""


def log_density(apart: Values, variance: float, draws: int, laplace: bool) -> Values:
    """Log density of the mean of so many noise draws; `variance` is that of the mean."""
    if not laplace or draws > _LAPLACE_UP_TO:
        return np.asarray(-0.5 * (np.square(apart) / variance + math.log(2 * math.pi * variance)))
    # The sum of n Laplace numbers: (|x|/2b)^(n-1/2) K_(n-1/2)(|x|/b), which is smooth in |x|.
    scale = math.sqrt(variance * draws / 2) / draws
    top = float(np.abs(apart).max()) / scale
    x = np.linspace(1e-3, max(top, 1.0), 600)
    order = draws - 0.5
    table = order * np.log(x / 2) + np.log(kve(order, x)) - x
    table -= math.log(scale * math.sqrt(math.pi)) + math.lgamma(draws)
    return np.interp(np.abs(apart) / scale, x, table)


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Posterior mean and variance of every cell's level, and how well the picture fits."""

    mean: Values
    variance: Values
    fit: float
    """Log likelihood, less what the freedom of the mixing laws is worth."""


def mixed(mean: Values, prior: Values, variance: float, draws: int, laplace: bool) -> Levels:
    """Levels as multiples of what the surroundings say, from one mixing law without a form."""
    base = np.maximum(prior, max(_FLOOR * float(prior.mean()), 1e-9))
    top = max(float((mean / base).max()), 1.0)
    grid = np.concatenate(([0.0], np.geomspace(min(_LEAST, 0.5 * top), top, _GRID - 1)))
    logs = log_density(mean[:, None] - base[:, None] * grid, variance, draws, laplace)
    highest = logs.max(axis=1, keepdims=True)
    likelihood = np.exp(logs - highest)
    weights = np.full(grid.size, 1 / grid.size)
    for _ in range(_STEPS):
        fitted = likelihood @ weights
        weights = weights * (likelihood.T @ (1 / fitted)) / mean.size
    fitted = likelihood @ weights
    fit = float((np.log(fitted) + highest[:, 0]).sum()) - _FREEDOM * math.log(mean.size)
    found = base * (likelihood @ (weights * grid)) / fitted
    second = np.square(base) * (likelihood @ (weights * np.square(grid))) / fitted
    return Levels(found, np.maximum(second - np.square(found), 0.0), fit)


def bell(mean: Values, prior: Values, variance: float, draws: int, laplace: bool) -> float:
    """Log likelihood of the other picture: Gaussian levels around the surroundings.

    They vary in proportion to the surroundings, which do not contain the cell itself. A single
    draw of Laplace noise has tails that no Gaussian has, and is taken as what it is.
    """
    scale = np.clip(prior / max(float(prior.mean()), 1e-9), 0.05, None)
    apart = mean - prior
    signal = max(float(np.square(apart).mean()) - variance, 0.0) * scale / float(scale.mean())
    found = -math.inf
    for share in (1.0, 0.5, 0.0):  # second moments are no firm ground where tails are heavy
        if laplace and draws == 1:
            logs = _normal_laplace(apart, np.sqrt(share * signal), math.sqrt(variance / 2))
        else:
            whole = share * signal + variance
            logs = -0.5 * (np.square(apart) / whole + np.log(2 * math.pi * whole))
        found = max(found, float(logs.sum()))
    return found


def _normal_laplace(x: Values, sd: Values, scale: float) -> Values:
    """Log density of a Gaussian number plus a Laplace one (Reed 2006)."""
    sd = np.maximum(sd, 0.05 * scale)
    sides = []
    for sign in (-1.0, 1.0):
        u = (sd / scale + sign * x / sd) / math.sqrt(2)
        # log erfcx(u), which is log 2 + u^2 far to the left, where erfcx itself overflows.
        log = np.log(erfcx(np.maximum(u, -5.0)))
        sides.append(np.where(u < -5.0, math.log(2) + np.square(u), log))
    together = np.logaddexp(sides[0], sides[1]) - 0.5 * np.square(x / sd)
    return np.asarray(together - math.log(4 * scale))


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Brings a Gaussian estimate to other levels: down by a factor, up by people."""

    factor: Values
    more: Values
    variance: Values
    """How uncertain the level still is."""

    def apply(self, values: Values, variance: Values) -> tuple[Values, Values]:
        return (
            values * self.factor + self.more,
            variance * np.square(self.factor) + self.variance,
        )


def correction(
    mean: Values, prior: Values, base: Values, variance: float, draws: int, laplace: bool
) -> Correction:
    """From the levels `base` to those of the mixing laws, if these fit the noisy means better.

    Where Gaussian levels fit as well they stay.
    """
    found = mixed(mean, prior, variance, draws, laplace)
    if found.fit <= bell(mean, prior, variance, draws, laplace):
        return Correction(np.ones(mean.size), np.zeros(mean.size), np.zeros(mean.size))
    factor = np.minimum(found.mean / np.maximum(base, 1e-9), 1.0)
    return Correction(factor, np.maximum(found.mean - base, 0.0), found.variance)
