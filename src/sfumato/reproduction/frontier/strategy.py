"""The best linear strategy for a workload under Gaussian noise, and its exact integer form.

The matrix mechanism (Li et al. 2010) measures S x instead of x and answers W x by least
squares; its squared error is sigma^2 tr(W X^-1 W'), X = S'S. HDMM (McKenna et al. 2018) seeks a
good S among parametrised ones. Under Gaussian noise with columns of norm at most one the
problem is convex, and its optimum satisfies X D X = W'W with a diagonal D that a fixed point
finds (Denisov et al. 2022): nothing that measures each hour by itself and is linear does better
in total squared error for this workload.

Sensitivity of the integer form: columns M_p of norm at most `units` (checked in integers), so
||M x_t||_2 <= sum_p x_pt ||M_p||_2 <= units m_t for the mass m_t of a user in slot t, and over
slots units * C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.errors import InputError, UsageError
from sfumato.model.private import Private

Matrix = NDArray[np.float64]
UNITS = 1 << 10
_RIDGE = 1e-4
"""Places that no query asks for still need a positive definite problem."""


@dataclass(frozen=True, slots=True, eq=False)
class Strategy:
    """Integer rows to measure (on 1/`UNITS`), and the way back to the places."""

    whole: NDArray[np.int64]
    back: Matrix
    """Places x rows: the least-squares inverse of `whole` / `UNITS`."""


def best_strategy(workload: Matrix, rounds: int = 12) -> Strategy:
    """The optimal strategy for a workload (queries x places), put on the lattice."""
    gram = workload.T @ workload
    size = gram.shape[0]
    gram = gram + _RIDGE * float(np.trace(gram)) / size * np.eye(size)
    weight = np.maximum(np.diag(gram), 1e-12) ** 0.5
    for _ in range(rounds):
        weight = np.maximum(np.diag(_root(gram, weight)), 1e-12)
    scale = 1.0 / np.sqrt(weight)
    inner = _root(gram, weight) * np.outer(scale, scale)
    inner = inner / np.outer(*(2 * [np.sqrt(np.diag(inner))]))
    rows = scipy.linalg.cholesky(inner + 1e-9 * np.eye(size))
    # Towards zero: a column can only become shorter.
    rows = rows / np.linalg.norm(rows, axis=0)
    whole = np.trunc(rows * UNITS).astype(np.int64)
    return Strategy(whole, np.linalg.inv(whole / UNITS))


def _root(gram: Matrix, weight: Matrix) -> Matrix:
    """The square root of D^1/2 G D^1/2."""
    half = np.sqrt(weight)
    values, vectors = scipy.linalg.eigh(gram * np.outer(half, half), driver="evd")
    root: Matrix = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def apply_strategy(box: Private[Counts], whole: NDArray[np.int64]) -> Private[Counts]:
    """Rows of the strategy x slot, exact; for place x slot counts bounded in mass per slot."""
    if int(np.square(whole).sum(axis=0).max()) > UNITS * UNITS:
        raise InputError("A column of the strategy is longer than one.")
    most = int(np.abs(whole).sum(axis=1).max())

    def mapped(counts: Counts) -> Counts:
        if counts.norms:
            raise UsageError("Counts weighted for event norms have no bound on mass per slot.")
        if int(np.abs(counts.values).max(initial=0)) > (1 << 62) // max(most, 1):
            raise InputError("The counts are too large for this lattice.")
        return replace(
            counts,
            values=whole @ counts.values,
            units_per_count=counts.units_per_count * UNITS,
            l1=counts.l2 * UNITS * math.sqrt(whole.shape[0] * counts.values.shape[1]),
            l2=counts.l2 * UNITS,
            what="rows of a strategy",
        )

    return box.map(mapped, "rows of a strategy")
