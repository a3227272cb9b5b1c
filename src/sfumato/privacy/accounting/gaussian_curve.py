"""The exact privacy curve of Gaussian noise, in every direction and down to tiny deltas.

With mu = (L2 sensitivity) / sigma, Gaussian noise is (epsilon, delta)-DP exactly when
delta >= Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (Balle & Wang 2018).
Several Gaussian measurements with fixed mu_i are one with mu^2 = sum of mu_i^2, also where
later queries depend on earlier answers (Dong, Roth & Su 2022).

The two terms nearly cancel, so they are not subtracted. Put x1 = epsilon/mu - mu/2 and
x2 = epsilon/mu + mu/2; the density satisfies phi(x1) = e^epsilon phi(x2), and so

    delta = phi(x1) * (R(x1) - R(x2)),   R(x) = Phi(-x) / phi(x)   (the Mills ratio).

R is a scaled complementary error function; for small mu the difference is the integral of
-R'(x) = 1 - x R(x), which Gauss-Legendre quadrature gives without cancellation. Everything
is kept as log delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from sfumato.model.errors import UsageError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_MILLS = math.sqrt(math.pi / 2)
_ROOT2 = math.sqrt(2.0)


def _mills_drop(x1: float, mu: float) -> float:
    """R(x1) - R(x1 + mu) for x1 >= 0."""
    if mu > 0.1:
        return float(_MILLS * (erfcx(x1 / _ROOT2) - erfcx((x1 + mu) / _ROOT2)))
    x = x1 + mu / 2 * (1 + _NODES)
    slope = 1 - x * _MILLS * erfcx(x / _ROOT2)
    return float(mu / 2 * np.dot(_WEIGHTS, slope))


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Natural logarithm of the exact delta at this epsilon (which may be negative)."""
    if mu < 0 or math.isnan(mu) or math.isnan(epsilon):
        raise UsageError("mu is not negative.")
    if mu == 0 or math.isinf(epsilon):
        return -math.inf if epsilon >= 0 else math.log(-math.expm1(epsilon))
    if math.isinf(mu):
        return 0.0
    x1, x2 = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if 0 <= x1 < 1e4:
        drop = _mills_drop(x1, mu)
        if drop > 0:
            return -x1 * x1 / 2 - _HALF_LOG_TWO_PI + math.log(drop)
    first = float(log_ndtr(-x1))
    gap = epsilon + float(log_ndtr(-x2)) - first
    return first if gap < -700 else first + math.log(max(-math.expm1(gap), 1e-300))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta at this epsilon."""
    return math.exp(gaussian_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 at which Gaussian noise with this mu has at most this delta."""
    if not (mu >= 0 and 0 <= delta <= 1):
        raise UsageError("mu is not negative, and delta lies between 0 and 1.")
    if mu == 0 or delta >= 1:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    target = math.log(delta)
    if gaussian_log_delta(mu, 0.0) <= target:
        return 0.0
    # Phi(-x1) <= delta already at x1 = sqrt(2 log(1/delta)).
    high = mu * mu / 2 + mu * math.sqrt(-2 * target) + mu
    found = _root(lambda e: gaussian_log_delta(mu, e) - target, high)
    step = 2.0**-50
    while gaussian_log_delta(mu, found) > target:
        found, step = found * (1 + step), 2 * step
    return found


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose exact delta at this epsilon is at most `delta`."""
    if not (epsilon >= 0 and 0 <= delta <= 1):
        raise UsageError("epsilon is not negative, and delta lies between 0 and 1.")
    if math.isinf(epsilon) or delta >= 1:
        return math.inf
    if delta == 0:
        return 0.0
    target = math.log(delta)
    high = 1.0
    while gaussian_log_delta(high, epsilon) <= target:
        high *= 2
    found = _root(lambda m: gaussian_log_delta(m, epsilon) - target, high)
    step = 2.0**-50
    while gaussian_log_delta(found, epsilon) > target:
        found, step = found * (1 - step), min(2 * step, 0.5)
    return found


def _root(gap: Callable[[float], float], high: float) -> float:
    """Where a monotone function that changes sign on (0, high] is zero."""
    low = high
    sign = gap(high) > 0
    while (gap(low) > 0) == sign:
        low /= 2
        if low < 1e-280:
            return low
    return float(brentq(gap, low, 2 * low, xtol=1e-300, rtol=8.9e-16, maxiter=500))
