"""What one unit can lose to a stream, exactly, and that nothing is decided behind the wall.

Each scheme runs on made-up counts, and again on a neighbour's with the very same answers. What it
measures, publishes and calls fresh must then be the same: whatever differs was decided from
private numbers. And the shifts behind the wall, over the noise that was put on them, must not
add up to more than epsilon (or rho), counted without the meter: from the unit's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.audit.questions import AskedWall, loss_between
from sfumato.privacy.units import Unit
from sfumato.stream.calendar import Calendar
from sfumato.stream.contract import StreamScheme
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Meter
from sfumato.stream.noise import NoiseKind
from sfumato.stream.registry import NAMES, stream_scheme
from sfumato.stream.run import Run, run_on
from sfumato.stream.schemes.baselines import Sample
from sfumato.stream.schemes.hybrid import Hybrid

Facts = Callable[..., StreamFacts]
Counts = NDArray[np.int64]
ONE_WINDOW = {"threshold", "static-hybrid", "dynamic-hybrid", "dsft", "dsat"}
UNITS = {"user-period": 1e-6, "user-day": 0.0, "w-event:5": 1e-6, "event": 0.0}
"""Every unit, and the delta with which it is tried when there is little time."""
HOURS = {
    "23 hours": (date(2024, 3, 30), date(2024, 4, 1)),
    "25 hours": (date(2024, 10, 26), date(2024, 10, 28)),
}


def units(facts: StreamFacts, all_of_them: bool) -> Iterator[Counts]:
    """What one unit can add: all in one cell, or in another cell every slot."""
    slots = np.arange(facts.slots)
    kind = str(facts.unit)
    if kind == "user-period":
        touched = [slots]
    elif kind == "user-day":
        touched = [slots[facts.calendar.day == day] for day in np.unique(facts.calendar.day)]
    else:
        # One that meets two of the disjoint windows; the last one, which may be shorter; others.
        last = facts.slots - facts.window
        begins = range(last + 1) if all_of_them else (min(3, last), last)
        touched = [slots[begin : begin + facts.window] for begin in begins]
    for when in touched if all_of_them else touched[-2:]:
        for cell in (np.zeros_like(when), when % facts.cells):
            added = np.zeros((facts.slots, facts.cells), dtype=np.int64)
            added[when, cell] = 1
            if kind == "event" and cell.any():
                added[when, (cell + 1) % facts.cells] = -1  # another record of theirs counts
            yield added


def lost(scheme: StreamScheme, facts: StreamFacts, seed: int = 7, thorough: bool = False) -> float:
    """The largest share of what was promised that any unit loses."""
    counts = np.random.default_rng(seed).integers(2, 60, (facts.slots, facts.cells))
    accounts = scheme.plan(facts).accounts
    if not accounts:
        return 0.0
    pure = accounts[0].pure

    def run(given: Counts, earlier: AskedWall | None) -> tuple[AskedWall, Run]:
        meter = Meter(accounts, facts)
        wall = AskedWall(meter, bytes([seed]) * 32, earlier)
        return wall, run_on(wall, meter, scheme, facts, given)

    heard, made = run(counts, None)
    worst = 0.0
    for added in units(facts, thorough):
        again, same = run(counts - added, heard)
        assert np.array_equal(made.values, same.values)
        assert np.array_equal(made.fresh, same.fresh)
        worst = max(worst, loss_between(heard, again, pure=pure))
    return worst / (facts.epsilon if pure else facts.rho)


def can(name: str, unit: str) -> bool:
    """Some schemes need windows that do not slide."""
    sliding = ("w-event:5",) if name == "profile" else ("w-event:5", "event")
    return not (name in {*ONE_WINDOW, "profile"} and unit in sliding)


COUNTERS = ("tree", "toeplitz")
"""Gaussian: they need a delta."""
PAIRS = [(name, unit) for name in NAMES if name != "zeros" for unit in UNITS if can(name, unit)]


@pytest.mark.parametrize(("name", "unit"), PAIRS)
def test_no_unit_loses_more_than_was_promised(name: str, unit: str, facts: Facts) -> None:
    delta = 1e-6 if name in COUNTERS else UNITS[unit]
    known = facts(unit, delta=delta, days=2, per_day=6, cells=6, people=60, columns=3)
    assert 0 < lost(stream_scheme(name), known) <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "unit", "delta"),
    [(*pair, delta) for pair in PAIRS for delta in (0.0, 1e-6) if delta or pair[0] not in COUNTERS],
)
def test_no_unit_at_all_loses_more(
    name: str, unit: str, delta: float, facts: Facts, note: Callable[[str, list[str]], None]
) -> None:
    scheme = stream_scheme(name)
    if delta and hasattr(scheme, "noise"):
        scheme = replace(scheme, noise=NoiseKind.GAUSSIAN)  # type: ignore[type-var]
    if name == "rhythm":
        scheme = replace(scheme, snapshots=2)  # type: ignore[type-var]
    known = facts(unit, delta=delta)
    found = max(lost(scheme, known, seed, thorough=True) for seed in (1, 2))
    kind = "Laplace" if scheme.plan(known).accounts[0].pure else "Gaussian"
    note("exact", [name, unit, kind, f"{found:.4f}"])
    assert found <= 1 + 1e-9


@pytest.mark.parametrize("change", HOURS)
@pytest.mark.parametrize("name", ["direct", "mean", "threshold", "static-hybrid", "fast"])
def test_nor_on_a_day_when_clocks_change(name: str, change: str) -> None:
    start, end = HOURS[change]
    calendar = Calendar.of(TimeGrid.between(start, end, "2h", "Europe/Paris"))
    known = StreamFacts(4, calendar, 1.0, 0.0, Unit.parse("user-day"), 100)
    assert 0 < lost(stream_scheme(name), known) <= 1 + 1e-9


def test_a_choice_by_score_loses_no_more_than_its_range(facts: Facts) -> None:
    for delta in (0.0, 1e-6):
        known = facts("user-day", delta=delta, days=2, per_day=6)
        assert 0 < lost(Hybrid(finished=True, by_score=True), known) <= 1 + 1e-9


def test_a_unit_that_is_said_to_be_shorter_than_it_is_shows(facts: Facts) -> None:
    """The same count of losses sees a stream that hides days and is said to hide the period."""
    days, period = facts("user-day", days=2, per_day=6), facts("user-period", days=2, per_day=6)
    counts = np.full((12, days.cells), 9)
    accounts = Sample().plan(days).accounts
    walls: list[AskedWall] = []
    for given in (counts, counts - next(units(period, True))):
        meter = Meter(accounts, days)
        walls.append(AskedWall(meter, bytes(32), walls[0] if walls else None))
        run_on(walls[-1], meter, Sample(), days, given)
    assert loss_between(*walls, pure=True) == pytest.approx(2.0)
