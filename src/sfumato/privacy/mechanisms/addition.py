"""Exact addition of integer noise, refusing what could wrap, and the noise's variance.

The samplers never give more than 2^57 in absolute value, so a sum stays below 2^63 as long
as the number itself is at most 2^62. Larger numbers are refused. The refusal depends on the
data, but only on numbers that no count of people on any lattice reaches; it comes after
the charge, like everything that looks into the box.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import InputError

LARGEST = 1 << 62


def checked(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values, if noise can be added to every one of them exactly."""
    if values.dtype != np.int64:
        raise InputError("Only 64-bit integers can be measured.")
    if values.size and (values.max() > LARGEST or values.min() < -LARGEST):
        raise InputError(
            "A number is too large for noise to be added exactly.",
            remedy="Choose a coarser lattice (fewer units per count).",
        )
    return values


def add(values: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """A new array: the sum, of the shape of `values`."""
    return checked(values) + noise.reshape(values.shape)


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
