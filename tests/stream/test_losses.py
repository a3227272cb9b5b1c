"""What one unit can lose to a stream, exactly, and that nothing is decided behind the wall.

Each scheme runs on made-up counts, and again on a neighbour's with the very same answers. What it
measures and writes to its files must then be the same, byte for byte: whatever differs was
decided from private numbers. No measurement and no question may move further than it was charged
for. And the shifts behind the wall, over the noise that was put on them, must not add up to more
than epsilon (or rho), counted without the meter: from the unit's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.audit.streams import AskedWall, loss_between, moved_by
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.stream.facts import StreamFacts
from sfumato.stream.output import Consistency, line_bytes, table_bytes
from sfumato.stream.registry import NAMES, stream_scheme
from sfumato.stream.replay import Run, run_on
from sfumato.stream.scheme import Meter, NoiseKind, Publication, StreamScheme
from sfumato.stream.schemes.baselines import Sample
from sfumato.stream.schemes.hybrid import Hybrid

pytestmark = pytest.mark.privacy
Facts = Callable[..., StreamFacts]
Counts = NDArray[np.int64]
ONE_WINDOW = {"threshold", "static-hybrid", "dynamic-hybrid", "dsft", "dsat"}
UNITS = {"user-period": 1e-6, "user-day": 0.0, "w-event:5": 1e-6, "event": 0.0}
"""Every unit, and the delta with which it is tried when there is little time."""
COUNTERS = ("tree", "toeplitz")
"""Gaussian: they need a delta. Their rows are bounded together, no row by itself."""
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
        assert written(made) == written(same)
        if scheme.name not in COUNTERS:
            assert not [shift for shift in moved_by(heard, again) if shift.moved > shift.allowed]
        worst = max(worst, loss_between(heard, again, pure=pure))
    return worst / (facts.epsilon if pure else facts.rho)


def written(made: Run) -> bytes:
    """Everything that a stream writes of its slots: partitions and lines."""
    ids = np.array([f"z{cell}" for cell in range(made.values.shape[1])])
    return b"".join(
        table_bytes(ids, values) + line_bytes(slot, "start", "end", said, values)
        for slot, values in enumerate(made.values)
        for said in [Publication(values, bool(made.fresh[slot]), float(made.sd[slot]))]
    )


def can(name: str, unit: str) -> bool:
    """Some schemes need windows that do not slide."""
    sliding = ("w-event:5",) if name == "profile" else ("w-event:5", "event")
    return not (name in {*ONE_WINDOW, "profile"} and unit in sliding)


PAIRS = [(name, unit) for name in NAMES if name != "zeros" for unit in UNITS if can(name, unit)]


@pytest.mark.parametrize(("name", "unit"), PAIRS)
def test_no_unit_loses_more_than_was_promised(name: str, unit: str, facts: Facts) -> None:
    delta = 1e-6 if name in COUNTERS else UNITS[unit]
    known = facts(unit, delta=delta, days=2, per_day=6, cells=6, people=60, columns=3)
    assert 0 < lost(stream_scheme(name), known) <= 1 + 1e-9


@pytest.mark.parametrize("how", [Consistency.RANDOM, Consistency.NEAREST])
@pytest.mark.parametrize("name", ["direct", "threshold", "rhythm"])
def test_nor_do_consistent_numbers_tell(name: str, how: Consistency, facts: Facts) -> None:
    """Whole non-negative numbers are made of noisy ones and of coins of their own."""
    known = facts("user-day", days=2, per_day=6, cells=6, people=60, columns=3)
    scheme = stream_scheme(name)
    counts = np.random.default_rng(3).integers(0, 4, (known.slots, known.cells))
    walls: list[AskedWall] = []
    files = []
    for given in (counts, counts + next(units(known, False))):
        meter = Meter(scheme.plan(known).accounts, known)
        walls.append(AskedWall(meter, bytes(32), walls[0] if walls else None))
        files.append(written(run_on(walls[-1], meter, scheme, known, given, how)))
    assert files[0] == files[1]


ASKING = [
    ("threshold", "user-period", NoiseKind.LAPLACE, "question"),
    ("threshold", "user-period", NoiseKind.GAUSSIAN, "L2"),
    ("static-hybrid", "user-period", NoiseKind.LAPLACE, "question"),
    ("static-hybrid", "user-day", NoiseKind.GAUSSIAN, "L2"),
    ("dynamic-hybrid", "user-period", NoiseKind.LAPLACE, "question"),
    ("dynamic-hybrid", "user-period", NoiseKind.GAUSSIAN, "L2"),
    ("dsat", "user-period", None, "question"),
    ("bd", "w-event:5", None, "L1"),
    ("ba", "w-event:5", None, "L1"),
    ("rescuedp", "w-event:5", None, "L1"),
]
"""Schemes that pay to compare or to choose, their noise, and the norm in which they pay."""


@pytest.mark.parametrize(("name", "unit", "noise", "norm"), ASKING)
def test_paid_comparisons_reach_their_stated_sensitivity(
    name: str, unit: str, noise: NoiseKind | None, norm: str, facts: Facts
) -> None:
    """Somebody who moves, or stands where few are, in crowds that lie on either side of them."""
    delta = 1e-6 if noise is NoiseKind.GAUSSIAN else 0.0
    known = facts(unit, delta=delta, days=2, per_day=6, cells=6, people=60, columns=3)
    scheme = stream_scheme(name)
    if noise is not None:
        scheme = replace(scheme, noise=noise)  # type: ignore[type-var]
    accounts = scheme.plan(known).accounts
    reached: dict[str, float] = {}
    for seed in range(4):
        counts = np.random.default_rng(seed).integers(1, 60, (known.slots, known.cells))
        if seed == 0:  # everybody is where the person is not: every distance moves by two
            counts = np.zeros_like(counts)
            counts[::2, 0], counts[1::2, 1] = 40, 40
        heard: AskedWall | None = None
        for added in (np.zeros_like(counts), *units(known, True), *against(known)):
            meter = Meter(accounts, known)
            wall = AskedWall(meter, bytes([seed]) * 32, heard)
            run_on(wall, meter, scheme, known, counts + added)
            if heard is None:
                heard = wall
                continue
            for shift in moved_by(heard, wall):
                assert shift.moved <= shift.allowed
                if shift.norm == norm:
                    what = shift.label.partition("@")[0]
                    reached[what] = max(reached.get(what, 0.0), shift.moved / shift.allowed)
    assert reached
    assert min(reached.values()) > 0.99, reached


@pytest.mark.parametrize("noise", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("name", ["threshold", "static-hybrid", "dynamic-hybrid"])
def test_a_distance_on_the_edge_of_the_threshold_tells_nothing(
    name: str, noise: NoiseKind, facts: Facts
) -> None:
    """The crowd drifts away by one a slot, past any threshold; one person shifts the crossing."""
    delta = 1e-6 if noise is NoiseKind.GAUSSIAN else 0.0
    known = facts("user-period", delta=delta, days=2, per_day=30, cells=6, people=60, columns=3)
    scheme = replace(stream_scheme(name), noise=noise)  # type: ignore[type-var]
    counts = np.full((known.slots, known.cells), 5)
    counts[:, 0] += np.arange(known.slots)
    mine = np.zeros_like(counts)
    mine[0, 1], mine[1:, 0] = 1, 1
    walls: list[AskedWall] = []
    files = []
    for given in (counts, counts + mine):
        meter = Meter(scheme.plan(known).accounts, known)
        walls.append(AskedWall(meter, bytes(32), walls[0] if walls else None))
        files.append(written(run_on(walls[-1], meter, scheme, known, given)))
    assert files[0] == files[1]


def against(facts: StreamFacts) -> Iterator[Counts]:
    """One person over the first window, always in the cell where the others are not."""
    for first in (0, 1):
        mine = np.zeros((facts.slots, facts.cells), dtype=np.int64)
        slot = np.arange(min(facts.window, facts.slots))
        mine[slot, (slot + first) % 2] = 1
        yield mine


def test_a_choice_of_the_division_comes_close_to_its_range(facts: Facts) -> None:
    """Somebody who goes up and down against everybody else moves every distance by two."""
    known = facts("user-day", days=1, per_day=6, cells=6, columns=3)
    counts = np.zeros((6, 6), np.int64)
    counts[::2, 0], counts[1::2, 1] = 9, 9
    mine = np.zeros_like(counts)
    mine[::2, 1], mine[1::2, 0] = 1, 1
    scheme, walls = Hybrid(finished=True, by_score=True), list[AskedWall]()
    for given in (counts, counts + mine):
        meter = Meter(scheme.plan(known).accounts, known)
        walls.append(AskedWall(meter, bytes(32), walls[0] if walls else None))
        run_on(walls[-1], meter, scheme, known, given)
    (shift,) = [shift for shift in moved_by(*walls) if shift.norm == "range"]
    assert 0.79 * shift.allowed < shift.moved <= shift.allowed


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
