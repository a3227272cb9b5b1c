"""The area under the ROC curve, how sure it is, and how large a guarantee lets it be.

The area is the chance that a round with the target scores above one without (ties count half):
0.5 is guessing, 1 is certainty. Targets and rounds are both samples, and all targets are scored
on the same rounds, so the interval is a percentile bootstrap that redraws targets and rounds
apart from each other (Owen & Eckles 2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Inside = NDArray[np.bool_]
_REDRAWN = 400


@dataclass(frozen=True, slots=True)
class Auc:
    """Mean over targets with its confidence interval."""

    value: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def loss(self) -> float:
        """Privacy loss as Pyrgelis et al. have it: 0 for guessing, 1 for certainty."""
        return max(0.0, 2 * self.value - 1)


def area(with_target: Scores, without: Scores) -> float:
    """Mann & Whitney's statistic as a share."""
    below = np.sort(without)
    wins = np.searchsorted(below, with_target, "left").sum()
    wins_or_ties = np.searchsorted(below, with_target, "right").sum()
    return float((wins + wins_or_ties) / (2 * with_target.size * without.size))


def allowed(epsilon: float, delta: float = 0.0) -> float:
    """No adversary's area exceeds this under (epsilon, delta), adding or removing one record.

    Of all rounds, TPR <= e^eps FPR + delta and 1 - FPR <= e^eps (1 - TPR) + delta (Kairouz, Oh &
    Viswanath 2015); the area under the lower of both lines is e^eps / (1 + e^eps) where delta is
    zero, and delta lifts every point of the curve by no more than delta.
    """
    return min(1.0, 1 / (1 + math.exp(-epsilon)) + delta)


def interval(
    folds: list[tuple[Scores, Inside]], rng: np.random.Generator, confidence: float = 0.95
) -> Auc:
    """Target x round scores and who was inside; scores compare within a fold alone."""
    wins = [_wins(scores, inside) for scores, inside in folds]
    once = [np.ones((1, w.shape[1])) for w in wins]
    whole = np.mean([_areas(w, o, i) for w, o, (_, i) in zip(wins, once, folds, strict=True)])
    drawn = np.zeros(_REDRAWN)
    targets = folds[0][0].shape[0]
    who = rng.multinomial(targets, np.full(targets, 1 / targets), _REDRAWN) / targets
    for w, (_, inside) in zip(wins, folds, strict=True):
        rounds = w.shape[1]
        weight = rng.multinomial(rounds, np.full(rounds, 1 / rounds), _REDRAWN).astype(np.float64)
        drawn += (who * _areas(w, weight, inside)).sum(axis=1) / len(folds)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Auc(float(whole), float(low), float(high), confidence)


def _wins(scores: Scores, inside: Inside) -> Scores:
    """For each target and pair of rounds: does the first, with it, beat the second, without?"""
    one, other = scores[:, :, None], scores[:, None, :]
    pairs = inside[:, :, None] & ~inside[:, None, :]
    return np.where(pairs, (one > other) + 0.5 * (one == other), 0.0)


def _areas(wins: Scores, weight: Scores, inside: Inside) -> Scores:
    """Draw x target areas for rounds taken `weight` times; 0.5 where a side is empty."""
    held = weight @ inside.T
    pairs = held * (weight.sum(axis=1, keepdims=True) - held)
    won = np.einsum("bi,tij,bj->bt", weight, wins, weight, optimize=True)
    return np.asarray(np.where(pairs > 0, won / np.maximum(pairs, 1), 0.5))
