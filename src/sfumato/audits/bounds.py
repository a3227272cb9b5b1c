"""Lower bounds of privacy loss: epsilon at delta, mu and rho from runs; exact epsilon from laws.

**Clopper-Pearson.** All bounds from runs rest on exact confidence limits for a proportion (Clopper
& Pearson 1934): `k` successes in `n` independent trials; each limit fails with probability at most
`alpha`, whatever the true proportion is.

**Epsilon at a given delta**, from runs on two neighbouring inputs. A mechanism that is
(epsilon, delta)-DP satisfies P(E) <= exp(epsilon) Q(E) + delta for every
event E, P and Q being its output laws on neighbouring inputs, in either order. So one event
with P(E) >= p and Q(E) <= q proves epsilon >= log((p - delta) / q), as in Jagielski, Ullman &
Oprea 2020 and Nasr et al. 2021.

Three disjoint groups of runs: a quarter *fits* every statistic, a quarter *chooses* one event
(statistic, threshold, tail and order of the two inputs) and the last half *certifies* it with
two Clopper-Pearson limits, each failing with probability (1 - confidence) / 2. Only one event
is ever certified, so the stated confidence covers everything that was tried.

**Mu for Gaussian schemes**, on the whole released vector. At delta = 1e-6 no feasible number of
runs shows the events on which a Gaussian release loses
its epsilon. What runs do show is how far two neighbouring inputs lie apart. A mechanism is
mu-GDP (Dong, Roth & Su 2022) if no test tells them apart better than it tells N(0, 1) from
N(mu, 1): errors of the first and second kind obey b >= Phi(Phi^-1(1 - a) - mu). A Gaussian
mechanism with L2 sensitivity D and standard deviation s is D/s-GDP, and so is everything
computed from it. Three bounds, for a score that was fitted on other runs:

* `paired`: the chance that the score of a run with the user beats one without is at most
  Phi(mu / sqrt 2) (the area under the trade-off curve), and wins among independent pairs are
  coin flips: one Clopper-Pearson limit. Exact for every mu-GDP mechanism, and the default.
* `threshold`: errors of one threshold test, two Clopper-Pearson limits. Exact as well; better
  where the loss sits in a tail.
* `parametric`: standardised mean difference, non-central t. The most powerful, and the only
  one that relies on the score being normal with one variance. Never the sole ground of a
  verdict.

What is tested: discrete Gaussian noise is certified as (mu^2 / 2)-zCDP, which does not imply
mu-GDP. It is mu-GDP up to a total variation of at most `slack` between discrete and rounded
continuous noise (on each input), and that is the statement tested here: an error may fall
short of the curve by `slack`, and the area may pass it by 2 slack. `rho_lower_bound` tests
the zCDP statement itself, at a loss of power.

**Exact epsilon** of a mechanism whose output probabilities are known (small support). No runs, no
confidence: P and Q are the probabilities of every output on two neighbouring
inputs, and the answer is the smallest epsilon with P(E) <= exp(epsilon) Q(E) + delta and
Q(E) <= exp(epsilon) P(E) + delta for every event E. The worst event collects the outputs
whose ratio exceeds exp(epsilon), so it is enough to look at sums of (p - exp(epsilon) q)+.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import nct, norm

from sfumato.audits.statistics import (
    EVERYTHING,
    Released,
    Score,
    Statistic,
    as_released,
    projection,
)
from sfumato.errors import UsageError


def lower_limit(k: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """A number that the true proportion is below with probability at most `alpha`."""
    hits = np.asarray(k, dtype=np.float64)
    safe = np.maximum(hits, 1.0)
    return np.where(hits > 0, betaincinv(safe, n - safe + 1, alpha), 0.0)


def upper_limit(k: ArrayLike, n: int, alpha: float) -> NDArray[np.float64]:
    """A number that the true proportion is above with probability at most `alpha`."""
    hits = np.asarray(k, dtype=np.float64)
    safe = np.minimum(hits, n - 1.0)
    return np.where(hits < n, betaincinv(safe + 1, n - safe, 1 - alpha), 1.0)


_THRESHOLDS = 400
SMALLEST_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class EpsilonBound:
    """Epsilon at `delta` is at least `epsilon`, with probability at least `confidence`."""

    epsilon: float
    delta: float
    confidence: float
    event: str
    runs: int
    if_doubled: float = 0.0
    """What they would have proved, had the person moved the score of this event twice as far."""


@dataclass(frozen=True, slots=True)
class _Event:
    """`sign * score >= threshold`, more probable under the first input if `forward`."""

    score: Score
    threshold: float
    sign: int
    forward: bool
    worth: float
    words: str

    def hits(self, rows: Released) -> int:
        return int((self.sign * self.score(rows) >= self.threshold).sum())


def epsilon_lower_bound(
    with_user: NDArray[np.float64] | NDArray[np.int64],
    without_user: NDArray[np.float64] | NDArray[np.int64],
    *,
    delta: float = 0.0,
    confidence: float = 0.999,
    statistics: Sequence[Statistic] = EVERYTHING,
) -> EpsilonBound:
    """What these runs prove. Rows are runs; columns the numbers released in a run."""
    if not 0 <= delta < 1 or not 0.5 <= confidence < 1:
        raise UsageError("An audit needs delta in [0, 1) and a confidence in [0.5, 1).")
    one, other = as_released(with_user), as_released(without_user)
    runs = min(len(one), len(other))
    if runs < SMALLEST_SAMPLE:
        raise UsageError(f"An audit needs at least {SMALLEST_SAMPLE} runs on each input.")
    alpha = (1 - confidence) / 2
    quarter = runs // 4
    fit, choose, certify = slice(quarter), slice(quarter, 2 * quarter), slice(2 * quarter, runs)
    best: _Event | None = None
    for statistic in statistics:
        score = statistic.fit(one[fit], other[fit])
        for event in _events(statistic.name, score, one[choose], other[choose], delta, alpha):
            if best is None or event.worth > best.worth:
                best = event
    if best is None:
        return EpsilonBound(0.0, delta, confidence, "nothing differs", runs)
    likely, rare = (one, other) if best.forward else (other, one)
    n = runs - 2 * quarter
    hits, misses = best.hits(likely[certify]), best.hits(rare[certify])
    proved = float(_proved(hits, misses, n, delta, alpha))
    # Twice the shift, in units of the score's spread as if it were normal, at its best threshold.
    shift = float(np.subtract(*ndtri(np.clip([hits, misses], 0.5, n - 0.5) / n)))
    tails = np.geomspace(0.5 / n, 0.5, _THRESHOLDS // 10)
    doubled = _proved(n * ndtr(ndtri(tails) + 2 * shift), n * tails, n, delta, alpha)
    return EpsilonBound(proved, delta, confidence, best.words, runs, float(doubled.max()))


def _proved(
    likely: ArrayLike, rare: ArrayLike, n: int, delta: float, alpha: float
) -> NDArray[np.float64]:
    """Epsilon from how often an event was seen in n runs on either input."""
    excess = np.maximum(lower_limit(likely, n, alpha) - delta, 1e-300)
    return np.maximum(0.0, np.log(excess / upper_limit(rare, n, alpha)))


def _events(
    name: str, score: Score, one: Released, other: Released, delta: float, alpha: float
) -> list[_Event]:
    """The most promising event of each tail and order, judged on the choosing runs."""
    first, second = score(one), score(other)
    found = []
    for sign in (1, -1):
        a, b = np.sort(sign * first), np.sort(sign * second)
        marks = _thresholds(np.concatenate((a, b)))
        if marks.size < 2:
            continue  # the score is constant: nothing to choose
        in_a = a.size - np.searchsorted(a, marks, side="left")
        in_b = b.size - np.searchsorted(b, marks, side="left")
        for forward, k_p, k_q in ((True, in_a, in_b), (False, in_b, in_a)):
            excess = lower_limit(k_p, len(one), alpha) - delta
            ceiling = upper_limit(k_q, len(other), alpha)
            worth = np.log(np.maximum(excess, 1e-300) / ceiling)
            top = int(np.argmax(worth))
            order = "with the user" if forward else "without the user"
            words = f"{name} {'high' if sign > 0 else 'low'}, likelier {order}"
            found.append(_Event(score, float(marks[top]), sign, forward, float(worth[top]), words))
    return found


def _thresholds(pooled: NDArray[np.float64]) -> NDArray[np.float64]:
    """Candidate thresholds: all values if few, else quantiles that reach into both tails."""
    values = np.unique(pooled)
    if values.size <= _THRESHOLDS:
        return values
    tail = np.geomspace(1 / pooled.size, 0.5, _THRESHOLDS // 2)
    levels = np.unique(np.concatenate((tail, 1 - tail)))
    picked: NDArray[np.float64] = np.unique(np.quantile(pooled, levels, method="nearest"))
    return picked


Scores = NDArray[np.float64]
_FIT_SHARE = 4
_NORMAL_DF = 20_000
_FAR = 300.0


@dataclass(frozen=True, slots=True)
class MuBound:
    """mu is at least `mu` with probability at least `confidence`; `parametric` if normal."""

    mu: float
    parametric: float
    confidence: float
    statistic: str
    runs: int
    if_doubled: float = 0.0
    """What the paired bound would have been, had the person moved the score twice as far."""


def mu_lower_bound(
    with_user: NDArray[np.float64] | NDArray[np.int64],
    without_user: NDArray[np.float64] | NDArray[np.int64],
    *,
    confidence: float = 0.999,
    statistic: Statistic = projection,
    slack: float = 0.0,
    seed: int = 0,
) -> MuBound:
    """The paired bound, and the parametric one beside it, on the scores of unseen runs."""
    one, other = as_released(with_user), as_released(without_user)
    runs = min(len(one), len(other))
    if runs < SMALLEST_SAMPLE:
        raise UsageError(f"An audit needs at least {SMALLEST_SAMPLE} runs on each input.")
    fit, test = slice(runs // _FIT_SHARE), slice(runs // _FIT_SHARE, runs)
    score = statistic.fit(one[fit], other[fit])
    a, b = score(one[test]), score(other[test])
    n = min(a.size, b.size)
    wins = _wins(a, b, seed)
    doubled = n * float(ndtr(2 * ndtri(min(max(wins, 0.5), n - 0.5) / n)))
    return MuBound(
        _from_wins(wins, n, confidence, slack),
        parametric(a, b, confidence=confidence),
        confidence,
        statistic.name,
        runs,
        _from_wins(doubled, n, confidence, slack),
    )


def paired(a: Scores, b: Scores, *, confidence: float, slack: float = 0.0, seed: int = 0) -> float:
    """mu from how often a score with the user beats one without; a fair coin breaks ties."""
    return _from_wins(_wins(a, b, seed), min(a.size, b.size), confidence, slack)


def _wins(a: Scores, b: Scores, seed: int) -> int:
    n = min(a.size, b.size)
    coin = np.random.default_rng(seed).integers(0, 2, n)
    return int(np.where(a[:n] == b[:n], coin, a[:n] > b[:n]).sum())


def _from_wins(wins: float, n: int, confidence: float, slack: float) -> float:
    area = float(lower_limit(wins, n, 1 - confidence)) - 2 * slack
    return max(0.0, math.sqrt(2) * float(ndtri(area))) if area > 0 else 0.0


def threshold(a: Scores, b: Scores, at: float, *, confidence: float, slack: float = 0.0) -> float:
    """mu from the two errors of the test "in if the score exceeds `at`"."""
    alpha = (1 - confidence) / 2
    false_alarm = float(upper_limit((b > at).sum(), b.size, alpha)) + slack
    miss = float(upper_limit((a <= at).sum(), a.size, alpha)) + slack
    if false_alarm >= 1 or miss >= 1:
        return 0.0
    return max(0.0, float(ndtri(1 - false_alarm) - ndtri(miss)))


def parametric(a: Scores, b: Scores, *, confidence: float) -> float:
    """Standardised mean difference, lower limit; holds if the scores are normal."""
    n, m = a.size, b.size
    df = n + m - 2
    pooled = ((n - 1) * a.var(ddof=1) + (m - 1) * b.var(ddof=1)) / df
    if pooled == 0:
        return math.inf if a.mean() > b.mean() else 0.0
    scale = math.sqrt(n * m / (n + m))
    t = scale * (a.mean() - b.mean()) / math.sqrt(pooled)
    return max(0.0, _smallest_noncentrality(float(t), df, 1 - confidence) / scale)


def _smallest_noncentrality(t: float, df: int, alpha: float) -> float:
    """The non-centrality under which a value of t or more has probability alpha."""
    spread = math.sqrt(1 + t * t / (2 * df))
    guess = t - float(norm.isf(alpha)) * spread
    if df > _NORMAL_DF or abs(t) > _FAR:
        return guess  # t is normal to four digits here, or so large that digits do not matter
    return float(brentq(lambda c: nct.sf(t, df, c) - alpha, guess - 2 * spread, guess + 2 * spread))


def rho_lower_bound(a: Scores, b: Scores, at: float, *, confidence: float) -> float:
    """rho of zCDP from one threshold test: D_x(two coins) <= x rho for every order x > 1.

    Exact for every rho-zCDP mechanism (data processing). Binary events keep about 2/pi of a
    small Gaussian's rho, so this cannot see a sensitivity that is 1.2 times too small. Four
    limits serve both orders and both sides of the threshold.
    """
    alpha = (1 - confidence) / 4
    above = [int((scores > at).sum()) for scores in (a, b)]
    low = [float(lower_limit(k, s.size, alpha)) for k, s in zip(above, (a, b), strict=True)]
    high = [float(upper_limit(k, s.size, alpha)) for k, s in zip(above, (a, b), strict=True)]
    best = 0.0
    for first, second in ((0, 1), (1, 0)):
        for p, q in ((low[first], high[second]), (1 - high[first], 1 - low[second])):
            if p > q:
                best = max(best, _best_order(p, q))
    return best


def _best_order(p: float, q: float) -> float:
    def negative(log_excess: float) -> float:
        x = 1 + math.exp(log_excess)
        inner = math.exp(x * math.log(p) + (1 - x) * math.log(q))
        inner += math.exp(x * math.log1p(-p) + (1 - x) * math.log1p(-q)) if p < 1 else 0.0
        return -math.log(inner) / ((x - 1) * x)

    return -float(minimize_scalar(negative, bounds=(-7.0, 4.0), method="bounded").fun)


def runs_needed(
    mu: float, *, factor: float = 1.2, confidence: float = 0.999, power: float = 0.99
) -> int:
    """Runs on each input with which `mu_lower_bound` sees a claim of `mu` broken by `factor`.

    Normal approximation of the paired bound, including the quarter of the runs that the
    fit uses up. Grows as 1 / mu^2 for small mu: about 3,100 / mu^2 at the defaults.
    """
    claimed, true = (float(norm.cdf(m / math.sqrt(2))) for m in (mu, factor * mu))
    margin = float(norm.isf(1 - confidence)) * math.sqrt(claimed * (1 - claimed))
    margin += float(norm.isf(1 - power)) * math.sqrt(true * (1 - true))
    return math.ceil((margin / (true - claimed)) ** 2 * _FIT_SHARE / (_FIT_SHARE - 1))


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
