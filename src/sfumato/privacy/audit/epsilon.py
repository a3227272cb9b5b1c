"""A lower bound of epsilon at a given delta, from runs on two neighbouring inputs.

A mechanism that is (epsilon, delta)-DP satisfies P(E) <= exp(epsilon) Q(E) + delta for every
event E, P and Q being its output laws on neighbouring inputs, in either order. So one event
with P(E) >= p and Q(E) <= q proves epsilon >= log((p - delta) / q), as in Jagielski, Ullman &
Oprea 2020 and Nasr et al. 2021.

Three disjoint groups of runs: a quarter *fits* every statistic, a quarter *chooses* one event
(statistic, threshold, tail and order of the two inputs) and the last half *certifies* it with
two Clopper-Pearson limits, each failing with probability (1 - confidence) / 2. Only one event
is ever certified, so the stated confidence covers everything that was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.audit.proportions import lower_limit, upper_limit
from sfumato.privacy.audit.statistics import EVERYTHING, Released, Score, Statistic, as_released

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
    p = float(lower_limit(best.hits(likely[certify]), n, alpha))
    q = float(upper_limit(best.hits(rare[certify]), n, alpha))
    proved = max(0.0, float(np.log((p - delta) / q))) if p > delta else 0.0
    return EpsilonBound(proved, delta, confidence, best.words, runs)


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
