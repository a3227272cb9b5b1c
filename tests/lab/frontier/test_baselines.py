"""Outside baselines promise what our schemes promise, and say something about the city."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import Tab
from sfumato.privacy.wall import Wall
from sfumato.utility.density import mean_relative_error, pearson
from sfumato_lab.studies.frontier.baselines import HourlyGrouping, MatrixMechanism, Quadtree
from sfumato_lab.studies.frontier.histograms import HISTOGRAMS, Partitioned, best_runs, haar
from sfumato_lab.studies.paris.setup import Stage

Baseline = Quadtree | MatrixMechanism | HourlyGrouping | Partitioned
WAVELET = MatrixMechanism(name="wavelet", strategy=haar)
BASELINES: tuple[Baseline, ...] = (
    *(Quadtree(), MatrixMechanism(), HourlyGrouping(), WAVELET),
    *HISTOGRAMS,
)
EVENLY_SPREAD = {"uniform grid", "adaptive grid"}
"""Squares hold places of unlike size, however little noise there is."""


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: b.name)
def test_what_is_charged_stays_within_the_budget(stage: Stage, baseline: Baseline) -> None:
    for epsilon in (0.1, 1.0):
        tab = Tab()
        facts = stage.facts(epsilon, 2e-6)
        table = baseline.run(stage.source, Wall.seeded(1, tab), facts)
        reached = guarantee(tab.charged.values(), facts.delta).epsilon
        assert 0.97 * epsilon < reached <= epsilon
        assert table.shape == stage.truth.shape
        assert np.isfinite(table).all()
        assert table.min() >= 0


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: b.name)
def test_with_hardly_any_noise_a_baseline_is_close_to_the_truth(
    stage: Stage, baseline: Baseline
) -> None:
    table = baseline.run(stage.source, Wall.seeded(2), stage.facts(300.0, 2e-6))
    if baseline.name not in EVENLY_SPREAD:
        assert pearson(stage.truth, table).mean() > 0.97
        assert mean_relative_error(stage.truth, table).mean() < 0.25
    assert table.sum() == pytest.approx(stage.truth.sum(), rel=0.03)


def test_more_budget_means_less_error(stage: Stage) -> None:
    for baseline in BASELINES:
        errors = [
            mean_relative_error(
                stage.truth, baseline.run(stage.source, Wall.seeded(3), stage.facts(e, 2e-6))
            ).mean()
            for e in (0.3, 3.0)
        ]
        assert errors[1] < 0.8 * errors[0]


def test_runs_are_the_best_of_all() -> None:
    """Against every way to cut a short sequence."""
    rng = np.random.default_rng(4)
    for absolute in (False, True):
        values = rng.normal(0, 1, 9) + np.repeat([0.0, 5.0, 1.0], 3)

        def cost(cuts: list[int], absolute: bool = absolute, values: Any = values) -> float:
            total = 0.0
            for low, high in itertools.pairwise([0, *cuts, values.size]):
                part = values[low:high] - values[low:high].mean()
                apart = np.abs(part).sum() if absolute else (part**2).sum()
                total += max(apart - (high - low - 1) * 0.09 ** (0.5 if absolute else 1), 0.0)
                total += 0.3 + 0.4 / (high - low)
            return total

        every = (list(cuts) for k in range(9) for cuts in itertools.combinations(range(1, 9), k))
        best = min(cost(cuts) for cuts in every)
        found = best_runs(values, 0.09, 0.3, 0.4, False, absolute)
        cuts = [int(i) for i in np.unique(found)[1:]]
        assert cost(cuts) == pytest.approx(best)
