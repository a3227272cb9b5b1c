"""Fourier perturbation as printed: FPA, EFPA and EFPAG, for many series at once.

FPA is Rastogi & Nath (2010); EFPA is Acs, Chen & Castelluccia (2012); EFPAG is Acs &
Castelluccia (2014, Alg. 4). k counts real coefficients, so it means the same for both
transforms. Reproduction only: floating-point noise, per-cluster accounting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward, inverse, keep_first, tail_norms

Series = NDArray[np.float64]
Draw = Callable[[tuple[int, ...]], Series]
"""Noise of a given shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Perturbed:
    """Noisy series, one row a cluster, and how many coefficients each kept."""

    series: Series
    kept: NDArray[np.int64]


def gaussian_sigma(l2: float, epsilon: float, delta: float) -> float:
    """sqrt(2 ln(4/delta)) * l2 / epsilon, the calibration of the paper's Theorem 3."""
    return l2 * math.sqrt(2 * math.log(4 / delta)) / epsilon


def fpa(
    series: Series,
    k: int,
    epsilon: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
) -> Perturbed:
    """Keep the first k coefficients and add Laplace noise of scale sqrt(k) * l2 / epsilon."""
    kept = np.full(series.shape[0], k, dtype=np.int64)
    noise = rng.laplace(0.0, math.sqrt(k) * l2 / epsilon, series.shape)
    return _rebuilt(forward(series, transform) + noise, kept, transform)


def efpa(
    series: Series,
    epsilon: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
) -> Perturbed:
    """Choose k with half of epsilon, then Laplace noise with the other half."""
    half = epsilon / 2
    coefficients = forward(series, transform)
    k = np.arange(1, series.shape[1] + 1)
    cost = efpa_utility(coefficients, half, l2)
    kept = _choose(cost, half / (2 * l2), rng)
    scale = np.sqrt(k)[kept - 1] * l2 / half
    noise = rng.laplace(0.0, 1.0, series.shape) * scale[:, None]
    return _rebuilt(coefficients + noise, kept, transform)


def efpag(
    series: Series,
    epsilon: float,
    delta: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
) -> Perturbed:
    """Choose k with half of epsilon, then Gaussian noise with the other half and delta."""
    half = epsilon / 2
    sigma = gaussian_sigma(l2, half, delta)
    coefficients = forward(series, transform)
    kept = _choose(efpag_utility(coefficients, sigma), half / (2 * l2), rng)
    return _rebuilt(coefficients + rng.normal(0.0, sigma, series.shape), kept, transform)


def efpa_utility(coefficients: Series, epsilon: float, l2: float) -> Series:
    """Expected root squared error if the first k are kept, k = 1 … n; smaller is better."""
    k = np.arange(1, coefficients.shape[-1] + 1)
    result: Series = tail_norms(coefficients) + math.sqrt(2) * k * l2 / epsilon
    return result


def efpag_utility(coefficients: Series, sigma: float) -> Series:
    """The same for Gaussian noise of the given standard deviation."""
    k = np.arange(1, coefficients.shape[-1] + 1)
    result: Series = tail_norms(coefficients) + np.sqrt(k) * sigma
    return result


def _choose(cost: Series, factor: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """k with probability proportional to exp(-factor * cost), by the Gumbel trick."""
    return np.asarray(np.argmax(-factor * cost + rng.gumbel(size=cost.shape), axis=1) + 1)


def _rebuilt(noisy: Series, kept: NDArray[np.int64], transform: Transform) -> Perturbed:
    return Perturbed(inverse(keep_first(noisy, kept), transform), kept)
