"""Exact addition of integer noise that cannot wrap, and the noise's variance.

The samplers never give more than 2^57 in absolute value, so a sum stays below 2^63 as long
as the number itself is at most 2^62. Larger numbers are cut to that. A refusal would be an
answer about the data that nobody paid for; cutting moves no cell of two neighbours further
apart than it was, nor in the other direction, so every sensitivity stands. No count of
people on any lattice comes near.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import InputError

LARGEST = 1 << 62


def bounded(values: NDArray[np.int64], largest: int = LARGEST) -> NDArray[np.int64]:
    """The values, cut to plus and minus `largest`, a public number."""
    if values.dtype != np.int64:
        raise InputError("Only 64-bit integers can be measured.")
    cut: NDArray[np.int64] = np.clip(values, -largest, largest)
    return cut


def add(values: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """A new array: the sum, of the shape of `values`."""
    return bounded(values) + noise.reshape(values.shape)


def gaussian_variance(sigma2: Fraction) -> float:
    """Variance of the discrete Gaussian: sigma2 itself from sigma = 4 on, less below."""
    if sigma2 >= 16:
        return float(sigma2)
    k = np.arange(-80.0, 81.0)
    weights = np.exp(-(k**2) / (2 * float(sigma2)))
    return float((k**2 * weights).sum() / weights.sum())


def laplace_variance(scale: Fraction) -> float:
    """Variance of the discrete Laplace: 2 r / (1 - r)^2 with r = exp(-1/scale)."""
    rate = 1 / float(scale)
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2
