"""Shapes of noisy series: how each cluster's total is spread over the slots.

Two ways to take noise out, both in an orthonormal basis of time: keep the first k coefficients
(Rastogi & Nath 2010), or shrink every coefficient towards the shape that all clusters share.
Both read noisy numbers only.

The shrinkage is empirical Bayes. Cluster e of total s_e has coefficients s_e (c + d_e) + noise;
c is common, d_e has variance v_f at frequency f. c and v_f are estimated by moments from the
noisy rows; the posterior mean keeps v s^2 / (v s^2 + noise) of a cluster's own deviation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward, inverse, keep_first

Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Rows that are not negative and sum to one, and the variance of their noise."""

    values: Series
    variance: Series


def shrunk_shapes(
    noisy: Series, scale: Series, variance: float, transform: Transform = Transform.DCT
) -> Shapes:
    """Every coefficient shrunk towards the common shape; `scale` are the rows' totals."""
    slots = noisy.shape[1]
    coefficients = forward(noisy, transform)
    largest = float(scale.max(initial=0.0))
    # A cluster with next to no total must not divide by it; with no totals all are alike.
    weight = (np.maximum(scale / largest, 1e-6) if largest > 0 else np.ones(scale.size))[:, None]
    power = np.square(weight).sum()
    common = (weight * coefficients).sum(axis=0) / power
    rest = coefficients - weight * common
    spread = deviation_variance(rest, weight, variance)
    signal = np.square(weight) * spread
    gain = signal / np.maximum(signal + variance, 1e-300)
    fitted = inverse(weight * common + gain * rest, transform)
    # Noise left: the posterior variance of the deviation, and that of the common shape.
    left = gain * variance + np.square(weight) * (variance / power)
    squares = np.square(inverse(np.eye(slots), transform))
    return _normalised(fitted, left @ squares)


def first_shapes(
    noisy: Series, k: NDArray[np.int64], variance: float, transform: Transform = Transform.DCT
) -> Shapes:
    """The first k coefficients of each row."""
    slots = noisy.shape[1]
    fitted = inverse(keep_first(forward(noisy, transform), k), transform)
    kept = (np.arange(slots)[None, :] < k[:, None]).astype(np.float64)
    squares = np.square(inverse(np.eye(slots), transform))
    return _normalised(fitted, kept @ squares * variance)


def deviation_variance(rest: Series, weight: Series, variance: float) -> Series:
    """v_f by moments: what deviations show beyond the noise, neighbours averaged.

    The common shape takes one degree of freedom from every frequency.
    """
    excess = np.square(rest).sum(axis=0) - max(rest.shape[0] - 1, 0) * variance
    spread = excess / np.square(weight).sum()
    kernel = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9.0
    padded = np.pad(spread, 2, mode="edge")
    averaged: Series = np.maximum(np.convolve(padded, kernel, mode="valid"), 0.0)
    return averaged


def _normalised(fitted: Series, variance: Series) -> Shapes:
    """Not negative, rows summing to one; a row without anything becomes even."""
    slots = fitted.shape[1]
    positive = np.maximum(fitted, 0.0)
    mass = positive.sum(axis=1, keepdims=True)
    alive = mass > 0
    safe = np.where(alive, mass, 1.0)
    values = np.where(alive, positive / safe, 1.0 / slots)
    spread = np.where(alive, np.minimum(variance / np.square(safe), 1.0), 1.0 / slots**2)
    return Shapes(values, spread)
