"""People who are seen in every hour, not only when they call: the ladder notices."""

from __future__ import annotations

import numpy as np

from sfumato.attacks.republish import Stage
from sfumato.attacks.trajectories import counts_of
from sfumato.city.crowd import CrowdPlan, generate

PLAN = CrowdPlan(people=800, days=1, columns=17, rows=17, seed=5)


def test_the_level_holds_whether_or_not_visits_are_stated() -> None:
    """Ten times as many visits as in call records; saying so is a weak prior and no more."""
    rows = generate(PLAN).cells[:, 0]
    truth, stage = counts_of(rows, PLAN.cells), Stage.of_crowd(PLAN)
    for parameters in ({}, {"visits": PLAN.slots}):
        made = stage.published("bayes", rows, 1.0, 1e-6, 3, parameters=parameters)
        assert abs(made.sum() / truth.sum() - 1) < 0.15, parameters
        assert np.abs(made - truth).mean() < 0.9 * truth.mean()
