"""Units contain one another, and the ledger adds what is charged for them.

Each of these was shown with commit 4627417: two accounts that never met, one of them too small.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import BudgetRefused, UsageError
from sfumato.privacy.events import (
    USER_PERIOD,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PureEvent,
    Unit,
)
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation
from sfumato.privacy.ledger.limits import losses, standing
from sfumato.privacy.ledger.views import cumulative

pytestmark = pytest.mark.privacy

DAY = 86_400_000_000
UTC_DAY = Unit.parse("user-day@UTC")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    return book


def charge(
    ledger: Ledger, name: str, unit: Unit, event: Any, days: tuple[int, int] = (0, 1), **more: Any
) -> Reservation:
    event = PureEvent(event, "test") if isinstance(event, float) else event
    period = (days[0] * DAY, days[1] * DAY)
    claim = Claim(
        "city", name, unit, 1e-6, period, (("counts", event),), {}, "f", f"/out/{name}", **more
    )
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    return found


def test_a_release_and_a_stream_about_the_same_day_add_up(ledger: Ledger) -> None:
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), USER_PERIOD)
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), Unit.parse("user-day"))
    charge(ledger, "day", USER_PERIOD, 1.0)  # its period is that day: it counts once
    with pytest.raises(BudgetRefused, match="user-day@UTC"):
        charge(ledger, "stream", UTC_DAY, 1.0)
    charge(ledger, "tomorrow", UTC_DAY, 1.0, (1, 2))


def test_the_other_direction_too(ledger: Ledger) -> None:
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), USER_PERIOD)
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), Unit.parse("user-day"))
    charge(ledger, "stream", UTC_DAY, 1.0, (0, 7))
    with pytest.raises(BudgetRefused, match="user-day@UTC"):
        charge(ledger, "week", USER_PERIOD, 1.0, (0, 7))


def test_a_longer_record_counts_twice_for_one_of_its_days(ledger: Ledger) -> None:
    """`sample:1`: removing one day can move a person's one visit to another day."""
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), USER_PERIOD)
    ledger.add_dataset("city", Cap(epsilon=1.9, delta=0), Unit.parse("user-day"))
    with pytest.raises(BudgetRefused, match="counts 2 times"):
        charge(ledger, "week", USER_PERIOD, 1.0, (0, 7))
    charge(ledger, "week", USER_PERIOD, 0.95, (0, 7))


def test_a_cap_for_days_holds_for_the_days_of_every_clock(ledger: Ledger) -> None:
    """A day of the second clock cuts two of the first, each of them twice: 0.1 + 4 times 0.5."""
    ledger.add_dataset("city", Cap(epsilon=2, delta=0), Unit.parse("user-day"))
    charge(ledger, "west", Unit.parse("user-day@America/New_York"), 0.5, (0, 7))
    with pytest.raises(BudgetRefused, match="user-day@Asia/Tokyo"):
        charge(ledger, "east", Unit.parse("user-day@Asia/Tokyo"), 0.1, (0, 7))


@pytest.mark.parametrize("windows", [("w-event:48h/1h", "w-event:49h/1h")])
def test_windows_of_48_and_of_49_hours_add_up(ledger: Ledger, windows: tuple[str, str]) -> None:
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), Unit.parse("w-event:48h"))
    charge(ledger, "one", Unit.parse(windows[0]), 1.0, (0, 7))
    with pytest.raises(BudgetRefused):
        charge(ledger, "two", Unit.parse(windows[1]), 0.1, (0, 7))


def test_48_slots_of_five_minutes_are_no_48_hours(ledger: Ledger) -> None:
    """A window of 4 hours does not protect two days for the same epsilon."""
    ledger.add_dataset("city", Cap(epsilon=2, delta=0), Unit.parse("w-event:48h"))
    charge(ledger, "hours", Unit.parse("w-event:48h/1h"), 1.0, (0, 7))
    with pytest.raises(BudgetRefused, match="counts 12 times"):
        charge(ledger, "minutes", Unit.parse("w-event:4h/5min"), 1.0, (0, 7))


def test_a_cap_for_locations_names_its_radius(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="within which distance"):
        ledger.add_dataset("city", Cap(epsilon=1, delta=0), Unit.parse("point"))
    with pytest.raises(UsageError, match="how long"):
        ledger.add_dataset("city", Cap(epsilon=1, delta=0), Unit.parse("w-event:48"))


def test_a_charge_for_windows_says_how_long_they_are(ledger: Ledger) -> None:
    ledger.add_dataset("city", Cap(epsilon=4, delta=0), Unit.parse("w-event:48h"))
    with pytest.raises(UsageError, match="how long"):
        charge(ledger, "hours", Unit.parse("w-event:48"), 1.0, (0, 7))


def test_noise_for_a_millimetre_does_not_pass_a_cap_for_ten_metres(ledger: Ledger) -> None:
    """`--kind gaussian --radius 0.001m --epsilon 0.01` was charged 0.01, whatever the radius."""
    point = Unit.parse("point")
    ledger.add_dataset("city", Cap(epsilon=0.1, delta=1e-6), Unit.parse("point:10m"))
    charge(ledger, "planar", point, MetricEvent(0.004, "planar"), least_m=1.1)
    sigma2 = Fraction(2 * 10**8)
    reach = 100 * 0.001 + math.sqrt(2)
    fine = GaussianEvent(reach, sigma2, 2)
    with pytest.raises(BudgetRefused, match="point:10m"):
        charge(ledger, "fine", point, fine, radius_m=0.001, least_m=1.1)
    (loss,) = [x for x in losses(ledger.book(), "city", 1e-6) if x.unit.radius_m == 10]
    assert loss.spend.epsilon == pytest.approx(0.04)


def test_count_releases_count_for_a_moved_location(ledger: Ledger) -> None:
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), USER_PERIOD)
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), Unit.parse("point:200m"))
    charge(ledger, "week", USER_PERIOD, 0.4, (0, 7))
    with pytest.raises(BudgetRefused, match="point:200m"):
        charge(ledger, "walks", Unit.parse("point"), MetricEvent(0.002, "planar"), (0, 7))
    charge(ledger, "walks", Unit.parse("point"), MetricEvent(0.001, "planar"), (0, 7))


def test_the_worst_period_is_the_one_with_the_largest_epsilon(ledger: Ledger) -> None:
    """Not with the largest rho: pure noise has much rho for its epsilon."""
    ledger.add_dataset("city", Cap(epsilon=50, delta=1e-6), USER_PERIOD)
    charge(ledger, "gaussian", USER_PERIOD, GaussianEvent(1.0, Fraction(16), 1), (0, 1))
    charge(ledger, "pure", USER_PERIOD, LaplaceEvent(1.0, Fraction(2)), (1, 2))
    state = standing(ledger.book(), "city", USER_PERIOD, 1e-6)
    assert state.worst_period == (0, DAY)
    assert state.worst.epsilon > 1 > 0.5


def test_what_cannot_be_counted_is_said(ledger: Ledger) -> None:
    for unit in ("event", "user-day"):
        ledger.add_dataset("city", Cap(epsilon=9, delta=0), Unit.parse(unit))
    charge(ledger, "records", Unit.parse("event"), 1.0)
    charge(ledger, "days", UTC_DAY, 1.0, (0, 7))
    found = {str(x.unit): x for x in losses(ledger.book(), "city", 0.0)}
    assert found["user-day@UTC"].unbounded == 1
    assert found["user-day@UTC"].spend.epsilon == 1
    assert found["event"].spend.epsilon == 3
    whole = found["user-period"].whole
    assert whole is not None
    assert whole.epsilon == 7


def test_a_day_of_another_clock_counts_for_every_day_it_meets(ledger: Ledger) -> None:
    ledger.add_dataset("city", Cap(epsilon=4.5, delta=0), Unit.parse("user-day"))
    charge(ledger, "utc", UTC_DAY, 1.0, (0, 7))
    with pytest.raises(BudgetRefused, match=r"come to epsilon 4 .* unit user-day@Asia/Tokyo"):
        charge(ledger, "tokyo", Unit.parse("user-day@Asia/Tokyo"), 1.0, (0, 7))
    charge(ledger, "london", Unit.parse("user-day@Etc/UTC"), 1.0, (0, 7))


def test_a_refusal_names_the_total_that_was_held_against_the_cap(ledger: Ledger) -> None:
    ledger.add_dataset("city", Cap(epsilon=5000, delta=1e-6), Unit.parse("user-period"))
    charge(ledger, "small", Unit.parse("user-period"), 200.0)
    with pytest.raises(BudgetRefused, match=r"Together that is epsilon [\d.]+") as refusal:
        charge(ledger, "large", Unit.parse("user-period"), 4900.0)
    total = re.search(r"Together that is epsilon ([\d.]+)", refusal.value.problem)
    assert total is not None
    assert float(total[1].rstrip(".")) > 5000


def test_what_days_add_up_to_for_a_whole_record_stands_in_the_manifest(ledger: Ledger) -> None:
    """Of a user-day stream of 30 days it said "user-period: epsilon 0"."""
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), UTC_DAY)
    stream = cumulative(charge(ledger, "stream", UTC_DAY, 1.0, (0, 30)))
    (whole,) = [loss for loss in stream.per_unit if loss.unit == "user-period"]
    assert whole.epsilon == 30
    assert whole.whole_records is not None
    assert whole.whole_records.epsilon == 0


def test_a_release_is_the_first_only_where_there_is_no_other(ledger: Ledger) -> None:
    """Neither other units nor other days make it the first one about these people."""
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), UTC_DAY)
    ledger.add_dataset("city", Cap(epsilon=1, delta=0), USER_PERIOD)
    made = [
        charge(ledger, "days", UTC_DAY, 0.2, (0, 7)),
        charge(ledger, "later days", UTC_DAY, 0.2, (7, 14)),
        charge(ledger, "week", USER_PERIOD, 0.2, (14, 21)),
    ]
    assert [cumulative(one).releases for one in made] == [1, 2, 3]


def test_a_location_beside_gaussian_noise_has_a_finite_sum(ledger: Ledger) -> None:
    """At delta 0 there was none, and the manifest could not be written after the charge."""
    ledger.add_dataset("city", Cap(rho=50), Unit.parse("point:200m"))
    point = Unit.parse("point")
    charge(ledger, "first", point, GaussianEvent(2e4, Fraction(10**9), 4), radius_m=200.0)
    event = MetricEvent(0.001, "planar Laplace")
    claim = Claim("city", "second", point, 0.0, (0, DAY), (("x", event),), {}, "f", "/out/second")
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    assert math.isfinite(cumulative(found).lifetime.epsilon)
