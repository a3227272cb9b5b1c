"""Days of a grid: every slot has one, and a day that is over does not come back."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pytest

from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import LaplaceEvent, Unit
from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import Account, Meter

pytestmark = pytest.mark.privacy

CHANGES = {
    "forward": (date(2024, 3, 30), date(2024, 4, 2), "Europe/Paris", [24, 23, 24]),
    "back": (date(2024, 10, 26), date(2024, 10, 29), "Europe/Paris", [24, 25, 24]),
    # Newfoundland set its clocks back at one past midnight: midnight came twice that night.
    "back over midnight": (
        date(2006, 10, 28),
        date(2006, 10, 31),
        "America/St_Johns",
        [24, 25, 24],
    ),
    "half an hour": (date(2024, 4, 6), date(2024, 4, 9), "Australia/Lord_Howe", [24, 24.5, 24]),
    "a skipped day": (date(2011, 12, 29), date(2012, 1, 1), "Pacific/Apia", [24, 24]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_days_go_on_and_have_the_slots_of_the_clock(change: str) -> None:
    start, end, tz, hours = CHANGES[change]
    calendar = Calendar.of(TimeGrid.between(start, end, "30min", tz))
    assert (np.diff(calendar.day) >= 0).all()
    _, lengths = np.unique(calendar.day, return_counts=True)
    assert lengths.tolist() == [2 * length for length in hours]
    assert calendar.longest_day == max(lengths)


def test_a_day_with_two_midnights_has_one_budget() -> None:
    """A slot of that night reads as the day before again; its budget is not there again."""
    start, end, tz, _ = CHANGES["back over midnight"]
    calendar = Calendar.of(TimeGrid.between(start, end, "30min", tz))
    facts = StreamFacts(1, calendar, 1.0, 0.0, Unit.parse("user-day"))
    event = LaplaceEvent(1.0, Fraction(1))
    meter = Meter([Account("histogram", event)], facts)
    measured = []
    for slot in range(facts.slots):
        if meter.affords("histogram", slot, event):
            meter.charge(f"histogram@{slot}", event)
            measured.append(slot)
    assert measured == [0, 48, 98]
