"""One small city that several tests look at; nobody changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato_lab.studies.frontier.cities import SEEDS, Kind, plan_of
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    folder: Path = tmp_path_factory.mktemp("frontier") / "city"
    make_city(plan_of(Kind.EVENTS, 20_000, towers=40, zones=30), folder)
    return open_city(folder, SEEDS[Kind.EVENTS])
