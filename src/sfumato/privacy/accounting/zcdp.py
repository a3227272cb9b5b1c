"""Zero-concentrated DP to (epsilon, delta), by the tight conversion, in every direction.

Canonne, Kamath & Steinke (2020): a rho-zCDP mechanism is (epsilon, delta)-DP
for every alpha > 1 with

    delta = exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.

Solved for each of the three numbers, the formula holds for *every* alpha, so a minimiser
that stops early costs tightness and never soundness. With h(alpha) =
(-log delta - log(alpha - 1) + alpha log(1 - 1/alpha)) / (alpha - 1):

    epsilon = min over alpha of  alpha rho + h(alpha)
    rho     = max over alpha of  (epsilon - h(alpha)) / alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sfumato.model.errors import UsageError

_Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_SEARCH = np.linspace(-25.0, 45.0, 281)
"""Values of log(alpha - 1) that are tried before the best one is refined."""


def _least(curve: _Curve) -> float:
    """Smallest value of the curve over log(alpha - 1)."""
    tried = curve(_SEARCH)
    best = int(np.argmin(tried))
    low = _SEARCH[max(best - 1, 0)]
    high = _SEARCH[min(best + 1, _SEARCH.size - 1)]
    found = minimize_scalar(
        lambda x: float(curve(np.array([x]))[0]),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return min(float(found.fun), float(tried[best]))


def _spread(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log of (1 - 1/alpha)^alpha / (alpha - 1), where x = log(alpha - 1)."""
    excess = np.exp(x)
    return -(1.0 + excess) * np.log1p(1.0 / excess) - x


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The smallest delta that rho-zCDP implies at this epsilon."""
    _check(rho=rho, epsilon=epsilon)
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return 1.0

    def curve(x: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = np.exp(x)
        return np.minimum(excess * ((1.0 + excess) * rho - epsilon) + _spread(x), 1e300)

    return min(1.0, math.exp(min(0.0, _least(curve))))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The smallest epsilon that rho-zCDP implies at this delta."""
    _check(rho=rho, delta=delta)
    if rho == 0 or delta >= 1:
        return 0.0
    if math.isinf(rho) or delta == 0:
        return math.inf
    tail = -math.log(delta)
    found = _least(lambda x: (1.0 + np.exp(x)) * rho + (tail + _spread(x)) * np.exp(-x))
    return max(0.0, found)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose conversion stays within (epsilon, delta)."""
    _check(epsilon=epsilon, delta=delta)
    if math.isinf(epsilon) or delta >= 1:
        return math.inf
    if delta == 0:
        return 0.0
    tail = -math.log(delta)
    found = -_least(lambda x: ((tail + _spread(x)) * np.exp(-x) - epsilon) / (1.0 + np.exp(x)))
    rho = max(0.0, found)
    step = 2.0**-50
    while rho > 0 and zcdp_epsilon(rho, delta) > epsilon:
        rho, step = rho * (1 - step), min(2 * step, 0.5)
    return rho


def _check(rho: float = 0.0, epsilon: float = 0.0, delta: float = 0.0) -> None:
    if not (rho >= 0 and epsilon >= 0 and 0 <= delta <= 1):
        raise UsageError("rho and epsilon are not negative, and delta lies between 0 and 1.")
