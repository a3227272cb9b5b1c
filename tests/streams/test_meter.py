"""The meter of a stream: no window spends more than its account holds, whatever a scheme asks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from sfumato.errors import BudgetRefused, UsageError
from sfumato.privacy.events import GaussianEvent, LaplaceEvent
from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import Account, Meter

pytestmark = pytest.mark.privacy
Facts = Callable[..., StreamFacts]
WHOLE = Account("histogram", LaplaceEvent(1.0, Fraction(1)))
"""Epsilon 1 in every window."""


def costs(epsilon: Fraction) -> LaplaceEvent:
    return LaplaceEvent(1.0, 1 / epsilon)


def test_what_would_overstep_the_window_is_refused_and_not_counted(facts: Facts) -> None:
    meter = Meter([WHOLE], facts("w-event:5"))
    meter.charge("histogram@0", costs(Fraction(3, 5)))
    with pytest.raises(BudgetRefused):
        meter.charge("histogram@1", costs(Fraction(3, 5)))
    assert meter.spent("histogram", 1) == Fraction(3, 5)
    meter.charge("histogram@1", costs(Fraction(2, 5)))  # to the last crumb
    with pytest.raises(BudgetRefused):
        meter.charge("histogram@2", costs(Fraction(1, 1000)))


def test_a_window_slides_and_frees_what_lies_behind_it(facts: Facts) -> None:
    meter = Meter([WHOLE], facts("w-event:5"))
    meter.charge("histogram@0", costs(Fraction(1)))
    for slot in range(1, 5):
        with pytest.raises(BudgetRefused):
            meter.charge(f"histogram@{slot}", costs(Fraction(1, 100)))
    meter.charge("histogram@5", costs(Fraction(1)))


def test_days_and_the_period_are_windows_of_their_own(facts: Facts) -> None:
    day = Meter([WHOLE], facts("user-day", per_day=8))
    day.charge("histogram@7", costs(Fraction(1)))
    day.charge("histogram@8", costs(Fraction(1)))
    period = Meter([WHOLE], facts("user-period", per_day=8))
    period.charge("histogram@7", costs(Fraction(1)))
    with pytest.raises(BudgetRefused):
        period.charge("histogram@20", costs(Fraction(1, 100)))


def test_gaussian_noise_is_counted_in_rho_and_never_against_a_pure_account(facts: Facts) -> None:
    rho = Account("rows", GaussianEvent(1.0, Fraction(2), 1))  # a quarter
    meter = Meter([rho, WHOLE], facts("w-event:5"))
    meter.charge("rows@0", GaussianEvent(1.0, Fraction(4), 1))
    meter.charge("rows@1", GaussianEvent(1.0, Fraction(4), 1))
    with pytest.raises(BudgetRefused):
        meter.charge("rows@2", GaussianEvent(1.0, Fraction(400), 1))
    with pytest.raises(UsageError, match="pure"):
        meter.charge("histogram@2", GaussianEvent(1.0, Fraction(400), 1))


def test_a_label_is_charged_once_and_slots_do_not_go_back(facts: Facts) -> None:
    meter = Meter([WHOLE], facts("w-event:5"))
    meter.charge("histogram@3", costs(Fraction(1, 10)))
    for again in ("histogram@3", "histogram@2"):
        with pytest.raises(UsageError, match="already taken"):
            meter.charge(again, costs(Fraction(1, 10)))
    for unknown in ("other@4", "histogram", "histogram@x"):
        with pytest.raises(UsageError, match="not planned"):
            meter.charge(unknown, costs(Fraction(1, 10)))


def test_a_meter_that_was_put_away_remembers(facts: Facts) -> None:
    meter = Meter([WHOLE], facts("w-event:5"))
    meter.charge("histogram@3", costs(Fraction(9, 10)))
    again = Meter([WHOLE], facts("w-event:5"))
    again.restore(meter.state())
    with pytest.raises(BudgetRefused):
        again.charge("histogram@4", costs(Fraction(2, 10)))
    with pytest.raises(UsageError, match="already taken"):
        again.charge("histogram@3", costs(Fraction(1, 100)))
