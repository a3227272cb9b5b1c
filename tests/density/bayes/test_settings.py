"""Bounds and shares follow from public facts alone; fitting limits to people charges nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from sfumato.density.bayes.scheme import Bayes
from sfumato.density.bayes.settings import (
    LADDER_SHARE,
    MOST_LADDER_SHARE,
    MOST_SLOT_SHARE,
    SLOT_SHARE,
    WEEKLY_VISITS,
    effective,
    expected_visits,
    settings_for,
)
from sfumato.density.scheme import PublicFacts
from sfumato.errors import UsageError
from sfumato.model.counts import Counting
from sfumato.model.time_grid import TimeGrid

SIZES = [60, 2_000, 20_000, 200_000, 500_000, 4_000_000]


def facts(users: int | None = 2_000_000, days: int = 7, slot: str = "1h") -> PublicFacts:
    end = date.fromordinal(date(2007, 9, 10).toordinal() + days)
    grid = TimeGrid.between(date(2007, 9, 10), end, slot, "Europe/Paris")
    return PublicFacts(np.array(["a", "b"]), grid, 0.3, 2e-7, users)


def test_the_number_of_people_must_be_given_not_counted() -> None:
    with pytest.raises(UsageError, match="expected_users"):
        settings_for(facts(users=None))


def test_a_stronger_signal_carries_heavier_contributions() -> None:
    weak, middle, strong = (settings_for(facts(n)) for n in (20_000, 500_000, 4_000_000))
    assert weak.matrix_limit < middle.matrix_limit < strong.matrix_limit
    assert weak.place_limit < middle.place_limit < strong.place_limit
    assert weak.signal < middle.signal < strong.signal


@pytest.mark.parametrize("users", SIZES)
def test_shares_make_one_budget(users: int) -> None:
    found = settings_for(facts(users))
    shares = (found.ladder_share, found.place_share, found.slot_share, found.matrix_share)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= LADDER_SHARE
    assert found.matrix_share > 0.2  # without a matrix nothing but margins would be left


def test_the_ladder_takes_much_of_a_weak_budget_and_a_hundredth_of_a_strong_one() -> None:
    found = [settings_for(facts(users)) for users in SIZES]
    ladders = [one.ladder_share for one in found]
    assert ladders[0] == MOST_LADDER_SHARE <= 0.3
    assert found[0].signal < 1_000
    assert ladders[-1] == LADDER_SHARE == 0.01
    assert ladders == sorted(ladders, reverse=True)
    slots = [one.slot_share for one in found]
    assert (slots[0], slots[-1]) == (MOST_SLOT_SHARE, SLOT_SHARE)
    assert slots == sorted(slots, reverse=True)


def test_visits_scale_with_the_period_and_fall_with_long_slots() -> None:
    week = expected_visits(facts())
    assert week == pytest.approx(WEEKLY_VISITS)
    assert expected_visits(facts(days=14)) == pytest.approx(2 * week)
    assert expected_visits(facts(slot="1d")) < week / 3
    assert expected_visits(facts(slot="15min")) > week


def test_stated_visits_are_expected_but_limits_wait_for_the_ladder() -> None:
    stated = replace(facts(), parameters={"visits": 120})
    assert expected_visits(stated) == 120
    assert settings_for(stated) == settings_for(facts())
    with pytest.raises(UsageError, match="visits is a number from"):
        expected_visits(replace(facts(), parameters={"visits": "many"}))
    with pytest.raises(UsageError, match="visits is a number from"):
        Bayes().plan(replace(facts(), parameters={"visits": "many"}))


@pytest.mark.parametrize("users", [2_000, 200_000, 4_000_000])
def test_fitted_limits_grow_with_activity_on_a_grid_of_quarter_octaves(users: int) -> None:
    settings = settings_for(facts(users))
    visits = np.geomspace(0.2, 2_000, 60)
    limits = [settings.fitted(float(v)) for v in visits]
    for name, planned in (
        ("places", settings.place_limit),
        ("slots", settings.slot_limit),
        ("matrix", settings.matrix_limit),
    ):
        bounds = [getattr(one, name) for one in limits]
        steps = np.array([4 * math.log2(bound.most) for bound in bounds])
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)
        reached = [effective(bound) for bound in bounds]
        assert reached == sorted(reached)
        assert min(reached) >= 2**-0.125  # one visit, up to the grid
        assert reached[-1] > 2 * planned
        as_in_call_records = getattr(settings.fitted(WEEKLY_VISITS), name)
        assert (as_in_call_records.limit, as_in_call_records.most) == (planned, 1.0)
    # Numbers that differ in their last bit must not fit another limit.
    assert settings.fitted(40.0) == settings.fitted(np.nextafter(40.0, 41.0))


@pytest.mark.privacy
@pytest.mark.parametrize("visits", [0.0, 1e-9, 1.0, 13.55, 240.0, 1e9])
def test_whatever_the_ladder_says_the_limit_is_the_planned_one(visits: float) -> None:
    """`most` has no part in the sensitivity; the limit has, and never follows the ladder."""
    settings = settings_for(facts(200_000))
    limits = settings.fitted(max(visits, 1.0))
    assert limits.places.limit == settings.place_limit
    assert limits.slots.limit == settings.slot_limit
    assert limits.matrix.limit == settings.matrix_limit
    assert all(
        2.0**-10 <= bound.most <= 2.0**10 for bound in (limits.places, limits.slots, limits.matrix)
    )


def test_the_plan_says_what_it_expects_and_that_activity_is_measured() -> None:
    assumed = " ".join(Bayes().plan(facts(2_000)).lines)
    assert "13.6 visits of an average person" in assumed
    assert "as in call records" in assumed
    stated = " ".join(Bayes().plan(replace(facts(), parameters={"visits": 120})).lines)
    assert "expects 120 visits" in stated
    assert "call records" not in stated
    assert "measures how many there are" in stated
    in_people = Bayes().plan(replace(facts(), counting=Counting.PEOPLE))
    assert "13.6 people of" in " ".join(in_people.lines)
