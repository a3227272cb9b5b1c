"""Levels by nonparametric empirical Bayes: how full cells are, judged by how full cells are.

Cities are sparse: most cells hold hardly anybody, a few hold many. Shrinkage with one Gaussian
prior leaves noise in the empty ones and takes people from the full ones. Here the prior is
estimated without a form: the mixing law over a grid of levels with the largest likelihood
(Robbins 1956; Kiefer & Wolfowitz 1956), by expectation maximisation, with the exact law of
the noise. Cells with like surroundings share a prior; the surroundings do not contain
the cell itself. Everything is computed from noisy means: post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import kve

from sfumato.stream.contract import Values

_GRID = 40
_STEPS = 40
_CUTS = (0.5, 0.75, 0.9, 0.97)
"""Shares of the cells, by their surroundings, at which the prior changes."""
_FEW = 60
"""Cells that a prior is estimated from, at least."""
_FREEDOM = 4.0
"""A mixing law has about eight parameters that matter, each worth half a log of the cells."""
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


def mixed(mean: Values, around: Values, variance: float, draws: int, laplace: bool) -> Levels:
    """Levels from mixing laws without a form, one for each kind of surroundings."""
    top = max(float(mean.max()), 1.0)
    least = min(0.05 * math.sqrt(variance), 0.5 * top)
    grid = np.concatenate(([0.0], np.geomspace(least, top, _GRID - 1)))
    found, spread, fit = np.empty(mean.size), np.empty(mean.size), 0.0
    for chosen in _strata(around):
        logs = log_density(mean[chosen, None] - grid, variance, draws, laplace)
        highest = logs.max(axis=1, keepdims=True)
        likelihood = np.exp(logs - highest)
        weights = np.full(grid.size, 1 / grid.size)
        for _ in range(_STEPS):
            fitted = likelihood @ weights
            weights = weights * (likelihood.T @ (1 / fitted)) / chosen.size
        fitted = likelihood @ weights
        fit += float((np.log(fitted) + highest[:, 0]).sum()) - _FREEDOM * math.log(chosen.size)
        found[chosen] = likelihood @ (weights * grid) / fitted
        second = likelihood @ (weights * np.square(grid)) / fitted
        spread[chosen] = np.maximum(second - np.square(found[chosen]), 0.0)
    return Levels(found, spread, fit)


def bell(mean: Values, prior: Values, variance: float) -> float:
    """Log likelihood of the other picture: Gaussian levels around the surroundings.

    They vary in proportion to the surroundings, which do not contain the cell itself.
    """
    scale = np.clip(prior / max(float(prior.mean()), 1e-9), 0.05, None)
    signal = max(float(np.square(mean - prior).mean()) - variance, 0.0)
    whole = signal * scale / float(scale.mean()) + variance
    return float(-0.5 * (np.square(mean - prior) / whole + np.log(2 * math.pi * whole)).sum())


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
    if found.fit <= bell(mean, prior, variance):
        return Correction(np.ones(mean.size), np.zeros(mean.size), np.zeros(mean.size))
    factor = np.minimum(found.mean / np.maximum(base, 1e-9), 1.0)
    return Correction(factor, np.maximum(found.mean - base, 0.0), found.variance)


def _strata(around: Values) -> list[NDArray[np.int64]]:
    """Cells with like surroundings, or all of them where the surroundings say nothing."""
    order = np.argsort(around, kind="stable")
    if around[order[0]] == around[order[-1]] or around.size < _FEW * (len(_CUTS) + 1):
        return [order]
    stops = [round(cut * around.size) for cut in _CUTS]
    parts, begin = [], 0
    for stop in (*stops, around.size):
        if stop - begin >= _FEW and around.size - stop >= (_FEW if stop < around.size else 0):
            parts.append(order[begin:stop])
            begin = stop
    if begin < around.size:
        parts.append(order[begin:])
    return parts
