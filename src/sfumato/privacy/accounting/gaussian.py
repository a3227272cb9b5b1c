"""The privacy curve of Gaussian noise: exact, and when discrete noise may claim it.

*The curve.* With mu = (L2 sensitivity) / sigma, Gaussian noise is (epsilon, delta)-DP exactly when
delta >= Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (Balle & Wang 2018).
Several Gaussian measurements with fixed mu_i are one with mu^2 = sum of mu_i^2, also where
later queries depend on earlier answers (Dong, Roth & Su 2022).

The two terms nearly cancel, so they are not subtracted. Put x1 = epsilon/mu - mu/2 and
x2 = epsilon/mu + mu/2; the density satisfies phi(x1) = e^epsilon phi(x2), and so

    delta = phi(x1) * (R(x1) - R(x2)),   R(x) = Phi(-x) / phi(x)   (the Mills ratio).

R is a scaled complementary error function; for small mu the difference is the integral of
-R'(x) = 1 - x R(x), which Gauss-Legendre quadrature gives without cancellation. Everything
is kept as log delta.

*Discrete noise.* The curve is a theorem about continuous noise. Discrete noise N_Z(0, s2) is not
rounded continuous noise, but close to it, and the distance can be paid for in delta.

**Lemma (one cell).** For sigma >= 4, TV(N_Z(0, sigma^2), round(N(0, sigma^2))) <=
0.021 / sigma^2. *Proof.* Let f be the density of N(0, sigma^2).

1. The discrete law is p(k) = f(k) / (1 + t), and by Poisson summation t = 2 * sum over
   j >= 1 of exp(-2 pi^2 sigma^2 j^2), so sum |p - f| = t; at sigma = 4 that is below 1e-130.
2. The rounded law is q(k) = integral of f over [k - 1/2, k + 1/2], so q(k) - f(k) =
   integral of K(u) f''(k + u) du with K(u) = (1/2 - |u|)^2 / 2, whose integral is 1/24.
3. Hence sum |q - f| <= integral of K(u) * G(u) du, G(u) = sum over k of |f''(k + u)|. The
   midpoint rule with the same kernel (K <= 1/8) gives G(u) <= int |f''| + V(|f''|') / 8,
   where V is total variation, jumps of the derivative at +-sigma included.
4. int |f''| = 4 phi(1) / sigma^2 = 0.967883 / sigma^2. For sigma = 1, V = int |phi''''| plus
   two jumps of 2 |phi'''(1)| = 4 phi(1): 2.80060 + 1.93577 = 4.73637; it scales as sigma^-4.
5. TV = sum |p - q| / 2 <= phi(1)/12 / sigma^2 + 0.012335 / sigma^4 + t/2, and phi(1)/12 =
   0.0201643. At sigma = 4 the first two are 0.020936 / sigma^2. QED

phi(1)/12 is also the limit of sigma^2 * TV, so 0.021 is within 4.2 % of the best constant.

**Theorem (a vector, one round).** q is an integer vector of which one unit moves at most d
cells, by at most `l2` in L2; M(D) = q(D) + N_Z(0, sigma^2)^n. If continuous noise is
(epsilon, delta_c)-DP, then M is (epsilon, delta_c + (1 + e^epsilon) * tau)-DP with tau =
d * 0.021 / sigma^2. *Proof.* Fix neighbours D, D' and let T be the cells where q(D) and q(D')
differ, |T| <= d. The noise outside T is independent of that inside and its cells have the
same law under D and D', so condition on them: it is enough that the inequality holds for
every section of the event, on T alone. There, q integer, q + round(N) = round(q + N) is
post-processing of continuous noise; with R for that law and P for M's, TV(P, R) <= tau by
the lemma and independence. So P(S) <= R(S) + tau <= e^eps R'(S) + delta_c + tau <=
e^eps P'(S) + delta_c + (1 + e^eps) tau. QED

**Theorem (rounds).** Rounds i = 1..k may choose their integer query from all earlier
outputs, but l2_i, sigma_i and d_i are fixed before the first one. Then the same holds with
mu^2 = sum of (l2_i / sigma_i)^2 and tau = sum of tau_i. *Proof.* Fix D, D'. Given the past y,
T_i(y) is determined; let R draw rounded continuous noise on T_i(y) and discrete noise
elsewhere. Replace the rounds of P by those of R from the last to the first: each costs at
most tau_i for every past, so TV(P, R) <= tau, and the same for P', R'. In R, round i given
any past is a post-processed Gaussian pair of ratio at most mu_i times a law common to both
sides, hence mu_i-Gaussian DP, and these compose adaptively (Dong, Roth & Su 2022). QED
Where sigma_i themselves are chosen adaptively under a fixed cap on sum mu_i^2 and tau, the
statement needs the filter theorem of Smith & Thakurta (2022); the zCDP statement always
has one (Feldman & Zrnic 2021; Whitehouse et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from sfumato.errors import UsageError
from sfumato.privacy.exact import Number, exact

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
    if x1 > 0 and gap > 0:  # all digits cancelled; what is taken off can only make it less
        return first
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


VARIATION = Fraction(21, 1000)
"""sigma^2 times the total variation between discrete and rounded Gaussian, at most."""
LEAST_SIGMA2 = 16
"""The lemma is proved from sigma = 4 on; below, the exact curve is never claimed."""


def variation(sigma2: Number, touched: int) -> float:
    """Total variation of `touched` cells from rounded continuous noise: at most this, or 1."""
    if sigma2 < LEAST_SIGMA2:
        return 1.0
    return min(1.0, float(touched * VARIATION / exact(sigma2)) * (1 + 1e-15))


def discrete_delta(mu: float, epsilon: float, tau: float) -> float:
    """The delta that may be claimed for discrete noise at this epsilon."""
    if tau and epsilon > 700:
        return 1.0
    return min(1.0, gaussian_delta(mu, epsilon) + (1 + math.exp(min(epsilon, 700))) * tau)


def discrete_epsilon(mu: float, delta: float, tau: float) -> float:
    """The smallest epsilon that may be claimed at this delta; infinite where none can.

    Solves delta_c(eps) + (1 + e^eps) tau = delta from below: each step pays for the
    variation at the last epsilon, so the steps climb to the smallest solution, if any.
    """
    epsilon = gaussian_epsilon(mu, delta)
    if tau == 0 or math.isinf(epsilon):
        return epsilon
    for _ in range(200):
        left = delta - (1 + math.exp(min(epsilon, 700))) * tau
        if left <= 0:
            return math.inf
        following = gaussian_epsilon(mu, left)
        if following <= epsilon * (1 + 1e-13):
            break
        epsilon = following
    step = 1e-13
    while discrete_delta(mu, epsilon, tau) > delta:
        epsilon, step = max(epsilon, 1e-300) * (1 + step), 2 * step
        if step > 1e-3:
            return math.inf
    return epsilon
