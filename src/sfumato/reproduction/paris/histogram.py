"""Figure 6: the towers' shares from one random visit of each user, or from all visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.density.published.paris import VISIT_CAP
from sfumato.reproduction.paris.stage import Stage, Table
from sfumato.utility import metrics


@dataclass(frozen=True, slots=True)
class HistogramScore:
    """Means over repetitions of the divergence of shares (bits) and of the totals' MRE."""

    epsilon: float
    sampling: bool
    divergence: float
    mre: float


def histogram_study(
    stage: Stage, epsilons: tuple[float, ...], repetitions: int
) -> list[HistogramScore]:
    """Both ways at each epsilon, which is the scaling's own budget."""
    truth = stage.at_towers.sum(axis=1).astype(np.float64)
    rng = np.random.default_rng([stage.seed, 6])
    return [
        _score(truth, epsilon, sampling, repetitions, stage, rng)
        for epsilon in epsilons
        for sampling in (True, False)
    ]


def _score(
    truth: Table,
    epsilon: float,
    sampling: bool,
    repetitions: int,
    stage: Stage,
    rng: np.random.Generator,
) -> HistogramScore:
    divergence, error = [], []
    for repetition in range(repetitions):
        if sampling:
            drawn = stage.one_visit(repetition) + rng.laplace(0, 2 / epsilon, truth.size)
            found = drawn / stage.users * (truth.sum() + rng.laplace(0, 2 * VISIT_CAP / epsilon))
        else:
            found = truth + rng.laplace(0, 2 * VISIT_CAP / epsilon, truth.size)
        found = np.maximum(found, 0.0)
        divergence.append(float(metrics.jensen_shannon(truth[:, None], found[:, None])[0]))
        error.append(float(metrics.relative_error(truth[:, None], found[:, None]).mean()))
    return HistogramScore(epsilon, sampling, float(np.mean(divergence)), float(np.mean(error)))
