"""People who are seen in every hour, not only when they call: `bayes` must be told."""

from __future__ import annotations

import numpy as np

from sfumato.attacks.republish import Stage
from sfumato.attacks.trajectories import counts_of
from sfumato.city.crowd import CrowdPlan, generate
from sfumato.density.bayes.clipping import too_active

PLAN = CrowdPlan(people=800, days=1, columns=17, rows=17, seed=5)


def test_stated_visits_bring_the_level_back() -> None:
    rows = generate(PLAN).cells[:, 0]
    truth, stage = counts_of(rows, PLAN.cells), Stage.of_crowd(PLAN)

    def error(parameters: dict[str, float]) -> tuple[float, float]:
        made = stage.published("bayes", rows, 1.0, 1e-6, 3, parameters=parameters)
        return float(made.sum() / truth.sum()) - 1, float(np.abs(made - truth).mean())

    assumed, stated = error({}), error({"visits": PLAN.slots})
    assert assumed[0] < -0.5  # as in call records: 1.5 visits in 19 hours
    assert abs(stated[0]) < 0.3
    assert stated[1] < 0.8 * assumed[1]


def test_far_more_than_expected_is_said_and_noise_is_not_taken_for_it() -> None:
    assert too_active(np.full(24, 250.0), 30.0, 800, 1.9)
    assert not too_active(np.full(24, 100.0), 30.0, 800, 1.9)
    assert not too_active(np.full(24, 250.0), 3000.0, 800, 1.9)
