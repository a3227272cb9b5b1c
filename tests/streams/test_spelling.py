"""What paid reservations hold of settings never changes, whatever classes are called."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.model.traces import Box
from sfumato.privacy.events import Unit, UnitKind
from sfumato.privacy.ledger.chain import spelled
from sfumato.privacy.ledger.nesting import steps
from sfumato.privacy.mechanisms.planar import Prediction
from sfumato.privacy.noise.planar import Strength
from sfumato.streams.facts import StreamFacts, charged_unit, unit_in_slots
from sfumato.streams.live import StreamRequest
from sfumato.streams.registry import (
    FROZEN,
    NAMES,
    as_begun,
    later_settings,
    settings_text,
    stream_scheme,
)
from sfumato.traces.request import FROZEN as TRACES
from sfumato.traces.request import GaussianTraces

BEST = "noise=<NoiseKind.BEST: 'best'>"
PID = "Pid(proportional=0.9, integral=0.1, derivative=0.0, theta=5.0, setpoint=0.1, memory=5)"
DSAT = (
    "threshold=0.025, tolerance=0.05, theta=0.5, share=0.1, skip=2, compare=Fraction(1, 4), "
    "finished=False)"
)
FIRST_VERSION = {
    "rhythm": f"Rhythm(snapshots=None, whole=True, {BEST}, name='rhythm', finished=False)",
    "profile": f"Profile(parts=None, whole=True, {BEST}, name='profile', finished=True)",
    "smoother": (
        f"Smoother(parts=None, reach=6, survey=0.01, {BEST}, name='smoother', finished=True)"
    ),
    "zeros": "Zeros(name='zeros', finished=False)",
    "sample": f"Sample({BEST}, name='sample', finished=False)",
    "mean": f"Mean({BEST}, name='mean', finished=True)",
    "uniform": f"Direct({BEST}, name='uniform', finished=False)",
    "direct": f"Direct({BEST}, name='direct', finished=False)",
    "threshold": (
        f"Threshold(threshold=None, cutoff=None, {BEST}, name='threshold', finished=False)"
    ),
    "static-hybrid": f"Hybrid(finished=True, cutoff=None, {BEST}, by_score=False)",
    "dynamic-hybrid": f"Hybrid(finished=False, cutoff=None, {BEST}, by_score=False)",
    "bd": "WEvent(absorb=False, finished=False)",
    "ba": "WEvent(absorb=True, finished=False)",
    "fast": f"Fast(ratio=0.15, process=None, particles=0, pid={PID}, {BEST}, finished=False)",
    "fast-particles": (
        f"Fast(ratio=0.15, process=None, particles=64, pid={PID}, {BEST}, finished=False)"
    ),
    "dsft": f"Dsat(adaptive=False, {DSAT}",
    "dsat": f"Dsat(adaptive=True, {DSAT}",
    "rescuedp": (
        "Rescue(proportional=0.9, integral=0.1, theta=10.0, growth=0.2, most_share=0.6, "
        "most_of_all=Fraction(1, 5), alone_above=30.0, alike=0.5, near=25.0, process=None, "
        "name='rescuedp', finished=False)"
    ),
    "fan-temporal": f"FanTemporal(process=None, {BEST}, name='fan-temporal', finished=False)",
    "fan-spatial": f"FanSpatial({BEST}, name='fan-spatial', finished=False)",
    "tree": "Counter(root=False, finished=False)",
    "toeplitz": "Counter(root=True, finished=False)",
}


@pytest.mark.parametrize("name", FIRST_VERSION)
def test_a_scheme_is_spelled_as_in_the_first_version(name: str) -> None:
    assert settings_text(stream_scheme(name)) == FIRST_VERSION[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_has_a_frozen_spelling_of_all_its_settings(name: str) -> None:
    """What is not in it came later, and is named in the reservation where it is not the default."""
    scheme = stream_scheme(name)
    assert is_dataclass(scheme)
    _, frozen = FROZEN[type(scheme)]
    assert {field.name for field in fields(scheme)} >= set(frozen)
    begun = stream_scheme(name, as_begun(name, None, {}))
    assert name not in FIRST_VERSION or later_settings(begun) == {}


def test_a_stream_that_was_begun_before_a_default_changed_goes_on_as_it_was() -> None:
    """Its reservation says nothing of counts, and what it published before has none."""
    new, old = stream_scheme("rhythm"), stream_scheme("rhythm", as_begun("rhythm", None, {}))
    assert later_settings(new) == {"counts": "True"}
    assert as_begun("rhythm", {"memory": 8}, later_settings(new)) == {"memory": 8}
    assert as_begun("rhythm", {"counts": True}, {}) == {"counts": True}, "what is asked for stands"
    assert as_begun("rhythm", None, None) is None, "a new stream"
    known = StreamFacts(9, Calendar.regular(8, 8), 1.0, 0.0, Unit.parse("user-day"), 5, 3)
    assert (new.plan(known).median, new.plan(known).sums) == (True, 0.9)
    assert (old.plan(known).median, old.plan(known).sums) == (False, 0.0)
    assert new.plan(known).accounts == old.plan(known).accounts


def test_settings_of_traces_are_spelled_as_in_the_first_version() -> None:
    gaussian = GaussianTraces(Box.parse("2.2,48.7,2.5,49.0"), 500.0, 4, 1.0, 1e-6)
    assert spelled(gaussian, TRACES) == (
        "GaussianTraces(box=Box(west=2.2, south=48.7, east=2.5, north=49.0), radius_m=500.0, "
        "most_reports=4, epsilon=1.0, delta=1e-06)"
    )
    prediction = Prediction(Strength(0.004), Strength(0.0004), 300.0, 4, 40)
    assert spelled(prediction, TRACES) == (
        "Prediction(report=Strength(per_metre=0.004), test=Strength(per_metre=0.0004), "
        "threshold_m=300.0, most_reports=4, most_tests=40)"
    )


def test_a_class_that_is_renamed_keeps_its_spelling() -> None:
    class Renamed(type(stream_scheme("direct"))):  # type: ignore[misc]
        pass

    table = {**FROZEN, Renamed: FROZEN[type(stream_scheme("direct"))]}
    assert spelled(Renamed(), table) == FIRST_VERSION["direct"]


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
