"""Matrices made of noisy numbers: roots, inverses and solutions that exist whatever the numbers.

On paper a covariance has no eigenvalue below zero. In floating point one whose largest eigenvalue
is 10^16 times its smallest has, or has not, as rounding goes, and a Cholesky factor of it exists on
one processor and not on another. So whether a matrix is taken as it is follows from a test on its
numbers, with a margin that rounding does not reach: with ones on the diagonal, a matrix of n rows
has a computed root where its smallest eigenvalue is above n (n + 1) roundings (Demmel 1989).
Matrices that pass the test are used as they are, to the last bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

_ROUNDING, _SURELY = float(np.finfo(np.float64).eps), 0.01
"""A rounding, and the part of a number that its error must stay below for the number to stand."""


def _least(size: int) -> float:
    """Smallest eigenvalue, beside ones on the diagonal, that rounding cannot reach."""
    return 4.0 * size * (size + 2) * _ROUNDING


def firm(matrices: Table, own: Vector | float) -> Table:
    """Covariances of several things, each with a part of its own, of which one matrix or a stack
    may be given: the same where those parts stand above rounding, elsewhere raised until they do.

    Args:
        matrices: Without negative eigenvalues on paper, even without `own`.
        own: What every thing has for itself and what is in the diagonal already.
    """
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    short = np.maximum(_least(matrices.shape[-1]) * diagonal - own, 0.0)
    if not short.any():
        return matrices
    return np.asarray(matrices + short[..., None] * np.eye(matrices.shape[-1]))


def factor(matrix: Table) -> tuple[Table, bool] | None:
    """The lower Cholesky factor as `scipy.linalg.cho_solve` takes it; None where a pivot does not
    stand above rounding, whether a processor would have found a root or not."""
    found, failed = dpotrf(matrix, lower=1, clean=0)
    if failed:
        return None
    pivots = np.square(np.diagonal(found))
    if not (pivots > _least(matrix.shape[0]) * np.diagonal(matrix)).all():
        return None
    return np.asarray(found), True


def inverse(curvature: Table) -> Table:
    """The inverse of a matrix that is the unit matrix and more: none of its eigenvalues is below 1.

    Of many people in few slots the total is known to a part in 10^5 and how it comes about hardly:
    one eigenvalue is 10^9 and the others are 1. An inverse of all entries at once is then off by
    more than its own smallest eigenvalue, and is positive or not as rounding has it; one by its
    axes is not.
    """
    values, axes = np.linalg.eigh(curvature)
    off = curvature.shape[0] * _ROUNDING * float(values[-1])
    if off * float(values[-1]) < _SURELY:
        return np.asarray(np.linalg.inv(curvature))
    return np.asarray((axes / np.maximum(values, 1.0)) @ axes.T)


def solved(curvature: Table, right: Vector) -> Vector:
    """The vector that such a matrix takes to `right`."""
    # No eigenvalue is above their sum: below this no pivot is lost.
    if curvature.shape[0] * _ROUNDING * float(np.trace(curvature)) < _SURELY:
        return np.asarray(np.linalg.solve(curvature, right))
    values, axes = np.linalg.eigh(curvature)
    return np.asarray(axes @ ((axes.T @ right) / np.maximum(values, 1.0)))


def root(covariance: Table) -> Table:
    """The lower triangular root of a covariance, of which directions may be known exactly."""
    sd = np.sqrt(np.diag(covariance))
    alike = covariance / np.outer(sd, sd)
    size = sd.size
    least = _least(size)
    short = least - float(np.linalg.eigvalsh(alike)[0])
    if short > 0:
        return np.asarray(sd[:, None] * np.linalg.cholesky(alike + (short + least) * np.eye(size)))
    return np.asarray(np.linalg.cholesky(covariance))
