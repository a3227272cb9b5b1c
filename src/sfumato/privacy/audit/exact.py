"""The exact epsilon of a mechanism whose output probabilities are known (small support).

No runs, no confidence: P and Q are the probabilities of every output on two neighbouring
inputs, and the answer is the smallest epsilon with P(E) <= exp(epsilon) Q(E) + delta and
Q(E) <= exp(epsilon) P(E) + delta for every event E. The worst event collects the outputs
whose ratio exceeds exp(epsilon), so it is enough to look at sums of (p - exp(epsilon) q)+.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from sfumato.model.errors import UsageError

_LARGEST = 700.0  # exp of more overflows


def exact_epsilon(p: ArrayLike, q: ArrayLike, delta: float = 0.0) -> float:
    """The smallest epsilon at `delta`, in both orders; infinite where delta cannot cover it."""
    first, second = _law(p), _law(q)
    if first.shape != second.shape:
        raise UsageError("Both laws need a probability for the same outputs.")
    if not 0 <= delta < 1:
        raise UsageError("Delta must lie in [0, 1).")
    if delta == 0:
        return max(_largest_ratio(first, second), _largest_ratio(second, first))
    return max(_smallest(first, second, delta), _smallest(second, first, delta))


def exact_delta(p: ArrayLike, q: ArrayLike, epsilon: float) -> float:
    """The smallest delta at `epsilon`, in both orders."""
    first, second = _law(p), _law(q)
    return max(_excess(first, second, epsilon), _excess(second, first, epsilon))


def _law(p: ArrayLike) -> NDArray[np.float64]:
    law = np.asarray(p, dtype=np.float64).ravel()
    if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum() - 1) > 1e-9:
        raise UsageError("Probabilities are non-negative and sum to one.")
    return law


def _largest_ratio(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    possible = p > 0
    if (q[possible] == 0).any():
        return math.inf
    return float(np.log(p[possible] / q[possible]).max())


def _excess(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def _smallest(p: NDArray[np.float64], q: NDArray[np.float64], delta: float) -> float:
    if _excess(p, q, 0.0) <= delta:
        return 0.0
    if _excess(p, q, _LARGEST) > delta:
        return math.inf
    return float(brentq(lambda e: _excess(p, q, e) - delta, 0.0, _LARGEST, xtol=1e-12))
