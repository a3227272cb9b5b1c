"""What `plan` forecasts is what a release then measures, within a quarter.

A small city that had no part in setting the forecaster; docs/benchmarks/plan.md has more of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato.city import CityPlan
from sfumato.density.registry import SCHEMES
from sfumato.density.rehearsal import Rehearsal
from sfumato.engine.local import LocalSource
from sfumato.model.counts import SampleBound
from sfumato.model.source import RememberingSource
from sfumato.privacy.wall import Wall
from sfumato.utility.density import relative_error
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

USERS, TOWERS, ZONES, SEED = 20_000, 60, 45, 205
DRAWS = 4


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    folder = tmp_path_factory.mktemp("forecast") / "city"
    area = ZONES * 105 / 989
    make_city(CityPlan(users=USERS, towers=TOWERS, zones=ZONES, seed=SEED, area_km2=area), folder)
    return open_city(folder)


@pytest.fixture(scope="module")
def rehearsal(city: Stage) -> Rehearsal:
    def remembered(*given: Any) -> RememberingSource:
        return RememberingSource(LocalSource(*given))

    return Rehearsal(city.facts(1.0, 2e-6), USERS, ZONES, remembered, relative_error)


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [("laplace", 1.0), ("gaussian", 0.3), ("gaussian", 1.0), ("paris", 1.0), ("bayes", 1.0)],
)
def test_a_forecast_is_within_a_quarter_of_what_is_measured(
    city: Stage, rehearsal: Rehearsal, name: str, epsilon: float
) -> None:
    facts = city.facts(epsilon, 2e-6)
    if name == "laplace":
        facts = replace(facts, bound=SampleBound(30))
    said = rehearsal.run(SCHEMES[name], epsilon=epsilon, bound=facts.bound, draws=DRAWS)
    errors = []
    for draw in range(DRAWS):
        density = SCHEMES[name].run(city.source, Wall.seeded(50 + draw), facts)
        released = np.asarray(density.values, np.float64)
        errors.append(relative_error(city.truth, released).mean())
    assert said.mean_relative_error == pytest.approx(np.mean(errors), rel=0.25)
