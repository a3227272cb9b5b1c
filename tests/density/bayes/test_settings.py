"""Bounds and shares follow from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from sfumato.density.bayes.scheme import (
    SLOT_SHARE,
    TOTAL_SHARE,
    Bayes,
    expected_visits,
    settings_for,
)
from sfumato.density.scheme import PublicFacts
from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid


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


@pytest.mark.parametrize("users", [2_000, 200_000, 4_000_000])
def test_shares_make_one_budget(users: int) -> None:
    found = settings_for(facts(users))
    total = found.place_share + SLOT_SHARE + found.matrix_share
    total += TOTAL_SHARE if found.with_total else 0
    assert total == pytest.approx(1)


def test_the_grand_total_is_dropped_where_it_would_be_pure_noise() -> None:
    assert settings_for(facts()).with_total
    assert not settings_for(facts(2_000, days=1)).with_total


def test_visits_scale_with_the_period_and_fall_with_long_slots() -> None:
    week = expected_visits(facts())
    assert week == pytest.approx(13.55)
    assert expected_visits(facts(days=14)) == pytest.approx(2 * week)
    assert expected_visits(facts(slot="1d")) < week / 3
    assert expected_visits(facts(slot="15min")) > week


def test_stated_visits_take_the_place_of_those_of_call_records() -> None:
    stated = replace(facts(), parameters={"visits": 120})
    assert expected_visits(stated) == 120
    assert settings_for(stated).place_limit > settings_for(facts()).place_limit
    with pytest.raises(UsageError, match="visits is a number from"):
        settings_for(replace(facts(), parameters={"visits": "many"}))


def test_limits_never_fall_below_one_visit() -> None:
    tiny = settings_for(replace(facts(2_000, days=1, slot="1d")))
    assert min(tiny.matrix_limit, tiny.place_limit, tiny.slot_limit) >= 1


def test_the_plan_says_what_it_expects_and_where_the_level_may_be_too_low() -> None:
    town = " ".join(Bayes().plan(facts(2_000)).lines)
    assert "the parameter visits" in town
    assert "grand total is not measured" in town
    city = " ".join(Bayes().plan(replace(facts(), parameters={"visits": 120})).lines)
    assert "expects 120 visits" in city
    assert "--parameter" not in city
    assert "not measured" not in city
