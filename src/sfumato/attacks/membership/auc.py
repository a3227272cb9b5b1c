"""The area under the ROC curve, and how sure it is.

The area is the chance that a group with the target scores above one without (ties count half):
0.5 is guessing, 1 is certainty. The interval is a percentile bootstrap that redraws targets and,
within a target, games: both are samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
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


def interval(
    with_target: Scores,
    without: Scores,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Auc:
    """Target x game scores of either kind."""
    targets, games = with_target.shape
    each = [area(a, b) for a, b in zip(with_target, without, strict=True)]
    drawn = np.empty(_REDRAWN)
    for k in range(_REDRAWN):
        who: NDArray[np.int64] = rng.integers(0, targets, (targets,))
        drawn[k] = np.mean(
            [
                area(
                    with_target[t, rng.integers(0, games, games)],
                    without[t, rng.integers(0, games, games)],
                )
                for t in who
            ]
        )
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Auc(float(np.mean(each)), float(low), float(high), confidence)
