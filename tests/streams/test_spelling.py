"""What reservations hold of settings and of units."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit, UnitKind
from sfumato.privacy.ledger.chain import canonical
from sfumato.privacy.ledger.nesting import steps
from sfumato.streams.facts import StreamFacts, charged_unit, unit_in_slots
from sfumato.streams.live import StreamRequest
from sfumato.streams.registry import SCHEMES, settings_of, stream_scheme
from sfumato.streams.scheme import NoiseKind


@dataclass(frozen=True)
class Inner:
    share: Fraction = Fraction(1, 4)


@dataclass(frozen=True)
class Outer:
    noise: NoiseKind = NoiseKind.BEST
    cutoff: int | None = None
    both: tuple[Inner, float] = (Inner(), 0.5)
    name: str = "outer"


def test_every_field_is_spelled_by_its_name() -> None:
    spelled = settings_of(Outer())  # type: ignore[arg-type]
    both = [{"share": "1/4"}, 0.5]
    assert spelled == {"noise": "best", "cutoff": None, "both": both, "name": "outer"}
    assert spelled != settings_of(Outer(both=(Inner(Fraction(1, 3)), 0.5)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SCHEMES)
def test_settings_of_every_scheme_are_plain_values(name: str) -> None:
    """What the ledger writes down and reads back is compared with what a resumed run asks for."""
    spelled = settings_of(stream_scheme(name))
    assert json.loads(canonical(spelled)) == spelled


def test_a_window_may_be_asked_for_as_a_length_of_time() -> None:
    grid = TimeGrid.between(date(2024, 3, 29), date(2024, 4, 2), "15min", "Europe/Paris")
    assert unit_in_slots(Unit.parse("w-event:12h"), grid) == Unit.parse("w-event:48")
    assert unit_in_slots(Unit.parse("user-day@Europe/Paris"), grid) == Unit.parse("user-day")
    for unit in ("w-event:20min", "w-event:12h/1h", "user-day@UTC"):
        with pytest.raises(UsageError):
            unit_in_slots(Unit.parse(unit), grid)
    with pytest.raises(UsageError, match="number of slots"):
        StreamFacts(1, Calendar.of(grid), 1.0, 0.0, Unit.parse("w-event:12h"))


@pytest.mark.privacy
@pytest.mark.parametrize(
    ("unit", "slot", "tz", "charged"),
    [
        ("user-day", "1h", "Europe/Paris", "user-day@Europe/Paris"),
        ("w-event:48", "5min", "UTC", "w-event:4h/5min"),
        ("w-event:48", "1h", "UTC", "w-event:48h/1h"),
        ("w-event:48", "1h", "Europe/Paris", "w-event:48h/1h"),
        ("w-event:6", "7h", "UTC", "w-event:34h/7h"),
        ("w-event:500", "1h", "UTC", "w-event:500h/1h"),
        ("user-period", "1h", "UTC", "user-period"),
        ("event", "1h", "UTC", "event"),
    ],
)
def test_a_stream_is_charged_for_a_length_of_time_and_a_clock(
    unit: str, slot: str, tz: str, charged: str
) -> None:
    grid = TimeGrid.between(date(2024, 3, 29), date(2024, 4, 2), slot, tz)
    assert str(charged_unit(Unit.parse(unit), grid)) == charged
    facts = StreamFacts(1, Calendar.of(grid), 1.0, 0.0, Unit.parse(unit))
    request = StreamRequest(
        "city", "s", stream_scheme("direct"), facts, grid, np.array(["a"]), Path("/out")
    )
    assert str(request.claim().unit) == charged
    assert request.config()["unit"] == unit, "as it was asked for: a resumed run is compared by it"


@pytest.mark.privacy
@pytest.mark.parametrize(
    ("slot", "window", "tz", "first"),
    [
        ("16h", 4, "UTC", date(2024, 1, 1)),  # 16 and 8 hours: four of them are two days
        ("1d", 2, "Europe/Paris", date(2024, 10, 25)),  # edges an hour later from the 28th on
        ("18h", 99, "UTC", date(2024, 1, 1)),
    ],
)
def test_slots_of_unequal_length_are_not_taken_for_a_regular_row(
    slot: str, window: int, tz: str, first: date
) -> None:
    """A window beside the true edges counted once, and cuts two windows of the stream."""
    grid = TimeGrid.between(first, first + timedelta(days=5), slot, tz)
    unit = charged_unit(Unit.parse(f"w-event:{window}"), grid)
    step, begin = int(grid.step.total_seconds() * 1e6), int(grid.edges[0])
    nominal = np.arange(begin, int(grid.edges[-1]), step, dtype=np.int64)
    off = nominal[~np.isin(nominal, grid.edges)]
    assert off.size
    counted = steps(unit, grid.period, UnitKind.W_EVENT, np.full_like(off, begin), off)
    assert (counted >= 2).all()
