"""Outside baselines promise what our schemes promise, and say something about the city."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.lab.frontier.baselines import HourlyGrouping, MatrixMechanism, Quadtree
from sfumato.lab.paris.setup import Stage
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import Tab
from sfumato.privacy.wall import Wall
from sfumato.utility.density import mean_relative_error, pearson

BASELINES = (Quadtree(), MatrixMechanism(), HourlyGrouping())


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: b.name)
def test_what_is_charged_stays_within_the_budget(
    stage: Stage, baseline: Quadtree | MatrixMechanism | HourlyGrouping
) -> None:
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
    stage: Stage, baseline: Quadtree | MatrixMechanism | HourlyGrouping
) -> None:
    table = baseline.run(stage.source, Wall.seeded(2), stage.facts(300.0, 2e-6))
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
