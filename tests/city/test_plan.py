from __future__ import annotations

from datetime import date

import pytest

from sfumato.city import CityPlan, Geometry, Match
from sfumato.errors import UsageError


@pytest.mark.parametrize(
    "wrong",
    [
        {"users": 0},
        {"towers": 2},
        {"zones": 1},
        {"days": 0},
        {"tz": "Paris"},
        {"place_activity": 1.0},
        {"strike_day": 7},
        {"match": Match(people=300_000)},
        {"match": Match(people=10, day=9)},
        {"match": Match(people=10, hour=23, hours=3)},
        {"geometry": Geometry.PARIS},
        {"users": float("nan")},
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        CityPlan(**wrong)  # type: ignore[arg-type]


def test_the_default_period_is_the_week_of_the_paris_study() -> None:
    grid = CityPlan().grid
    assert grid.slots == 168
    assert grid.starts()[0].isoformat() == "2007-09-10T00:00:00+02:00"


def test_a_week_with_a_clock_change_has_its_real_hours() -> None:
    assert CityPlan(start=date(2007, 10, 22)).grid.slots == 169


def test_activity_is_pro_rata_to_the_days() -> None:
    assert CityPlan().tower_hours == 13.55
    assert CityPlan(days=14).tower_hours == pytest.approx(27.1)
