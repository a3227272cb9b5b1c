"""Orthonormal transforms of series in time, and how many noisy coefficients to keep.

Rastogi & Nath (2010) and Acs & Castelluccia (2014, section 5.3.2) keep the first k
coefficients of a series. With Gaussian noise, measuring all coefficients costs no more
than measuring k of them, so k is chosen here *after* the noise, from noisy coefficients
alone: post-processing, and free.

Both transforms are orthonormal and real. The plain half spectrum of a Fourier transform
is not norm preserving; here every complex coefficient becomes two real ones times
sqrt(2), lowest frequency first.
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


def shrink_towards_common_shape(
    coefficients: Series, scale: NDArray[np.float64], variance: float
) -> Series:
    """Wiener shrinkage of each row towards `scale` times the shape that all rows share.

    Model: row e is scale_e * (shape + deviation_e), with deviations of a variance that
    depends on the frequency only. Shape and variances are estimated from the noisy rows
    by moments; a frequency without visible deviation keeps the common shape alone.
    """
    weight = np.maximum(scale, 1e-9)[:, None]
    shape = (weight * coefficients).sum(axis=0) / np.square(weight).sum()
    rest = coefficients - weight * shape
    excess = np.square(rest).sum(axis=0) - rest.shape[0] * variance
    spread = np.maximum(excess, 0.0) / np.square(weight).sum()
    # Neighbouring frequencies share their estimate: single moments are noisy.
    kernel = np.array([1, 2, 3, 2, 1]) / 9
    padded = np.pad(spread, 2, mode="edge")
    spread = np.convolve(padded, kernel, mode="valid")
    signal = np.square(weight) * spread
    result: Series = weight * shape + rest * signal / (signal + variance)
    return result
