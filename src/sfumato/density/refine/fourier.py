"""Fourier shapes of noisy series: orthonormal transforms, kept or shrunk coefficients.

Rastogi & Nath (2010) and Acs & Castelluccia (2014, section 5.3.2) keep the first k
coefficients of a series. With Gaussian noise, measuring all coefficients costs no more
than measuring k of them, so k is chosen here *after* the noise, from noisy coefficients
alone: post-processing, and free.

Both transforms are orthonormal and real. The plain half spectrum of a Fourier transform
is not norm preserving; here every complex coefficient becomes two real ones times
sqrt(2), lowest frequency first.

A shape is how a cluster's total is spread over the slots. Two ways to take noise out of it, both
reading noisy numbers only: keep the first k coefficients, or shrink every coefficient towards the
shape that all clusters share. The shrinkage is empirical Bayes. Cluster e of total s_e has
coefficients s_e (c + d_e) + noise; c is common, d_e has variance v_f at frequency f. c and v_f are
estimated by moments from the noisy rows; the posterior mean keeps v s^2 / (v s^2 + noise) of a
cluster's own deviation.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import scipy.fft
from numpy.typing import NDArray

Series = NDArray[np.float64]


class Transform(StrEnum):
    DCT = "dct"
    DFT = "dft"


def forward(series: Series, transform: Transform = Transform.DCT) -> Series:
    """Coefficients of each row, lowest frequency first; norms are kept."""
    if transform is Transform.DCT:
        dct: Series = scipy.fft.dct(series, norm="ortho", axis=-1)
        return dct
    n = series.shape[-1]
    spectrum = scipy.fft.rfft(series, norm="ortho", axis=-1)
    result = np.empty(series.shape)
    result[..., 0] = spectrum[..., 0].real
    inner = (n - 1) // 2
    result[..., 1 : 2 * inner : 2] = spectrum[..., 1 : inner + 1].real * np.sqrt(2)
    result[..., 2 : 2 * inner + 1 : 2] = spectrum[..., 1 : inner + 1].imag * np.sqrt(2)
    if n % 2 == 0:
        result[..., n - 1] = spectrum[..., n // 2].real
    return result


def inverse(coefficients: Series, transform: Transform = Transform.DCT) -> Series:
    """The series that `forward` came from."""
    if transform is Transform.DCT:
        idct: Series = scipy.fft.idct(coefficients, norm="ortho", axis=-1)
        return idct
    n = coefficients.shape[-1]
    inner = (n - 1) // 2
    spectrum = np.zeros((*coefficients.shape[:-1], n // 2 + 1), dtype=np.complex128)
    spectrum[..., 0] = coefficients[..., 0]
    spectrum[..., 1 : inner + 1] = (
        coefficients[..., 1 : 2 * inner : 2] + 1j * coefficients[..., 2 : 2 * inner + 1 : 2]
    ) / np.sqrt(2)
    if n % 2 == 0:
        spectrum[..., n // 2] = coefficients[..., n - 1]
    series: Series = scipy.fft.irfft(spectrum, n=n, norm="ortho", axis=-1)
    return series


def tail_norms(coefficients: Series) -> Series:
    """sqrt of the sum of squares of what is dropped when the first k are kept, k = 1 … n."""
    squares = np.square(coefficients)
    after = np.cumsum(squares[..., ::-1], axis=-1)[..., ::-1]
    result: Series = np.sqrt(np.maximum(after - squares, 0.0))
    return result


def keep_first(coefficients: Series, k: NDArray[np.int64]) -> Series:
    """Zero all but the first k coefficients of each row."""
    index = np.arange(coefficients.shape[-1])
    result: Series = np.where(index < np.asarray(k)[..., None], coefficients, 0.0)
    return result


def cheapest_cut(coefficients: Series, variance: float) -> NDArray[np.int64]:
    """The k that minimises Stein's unbiased estimate of the squared error, for each row.

    Keeping a coefficient costs the noise variance; dropping it costs its square, of which
    the noisy square is an estimate that is too large by the variance.
    """
    gain = np.cumsum(np.square(coefficients) - 2 * variance, axis=-1)
    return np.asarray(np.argmax(gain, axis=-1) + 1, dtype=np.int64)


def shrunk_shapes(
    noisy: Series, scale: Series, variance: float, transform: Transform = Transform.DCT
) -> Series:
    """Every coefficient shrunk towards the common shape; `scale` are the rows' totals."""
    coefficients = forward(noisy, transform)
    largest = float(scale.max(initial=0.0))
    # A cluster with next to no total must not divide by it; with no totals all are alike.
    weight = (np.maximum(scale / largest, 1e-6) if largest > 0 else np.ones(scale.size))[:, None]
    common = (weight * coefficients).sum(axis=0) / np.square(weight).sum()
    rest = coefficients - weight * common
    spread = deviation_variance(rest, weight, variance)
    signal = np.square(weight) * spread
    gain = signal / np.maximum(signal + variance, 1e-300)
    return _normalised(inverse(weight * common + gain * rest, transform))


def first_shapes(
    noisy: Series, k: NDArray[np.int64], transform: Transform = Transform.DCT
) -> Series:
    """The first k coefficients of each row."""
    return _normalised(inverse(keep_first(forward(noisy, transform), k), transform))


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


def _normalised(fitted: Series) -> Series:
    """Not negative, rows summing to one; a row without anything becomes even."""
    slots = fitted.shape[1]
    positive = np.maximum(fitted, 0.0)
    mass = positive.sum(axis=1, keepdims=True)
    alive = mass > 0
    safe = np.where(alive, mass, 1.0)
    shapes: Series = np.where(alive, positive / safe, 1.0 / slots)
    return shapes
