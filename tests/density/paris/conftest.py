"""A made-up town that no setting was chosen on: 100,000 people, 65 towers, 49 zones, a week."""

from __future__ import annotations

import pytest

from sfumato.city import CityPlan
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

SEED = 11


@pytest.fixture(scope="session")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """As many visits per zone and hour as in a city of two million on 989 zones."""
    folder = tmp_path_factory.mktemp("held-out")
    make_city(CityPlan(users=100_000, towers=65, zones=49, area_km2=5.2, seed=SEED), folder)
    return open_city(folder, SEED)
