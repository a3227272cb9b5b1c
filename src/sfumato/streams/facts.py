"""`StreamFacts`: everything public about a stream, its unit and its windows.

None of it is read from the data. `window` is the heart of it: the most slots that one unit of
privacy can touch.

=============  ==================================================  =============
unit           one unit is                                         window
=============  ==================================================  =============
`user-period`  all that one person did in the whole stream         all slots
`user-day`     what one person did on one local day                slots of a day
`w-event:w`    what one person did in any w successive slots       w
`event`        one record                                          1
=============  ==================================================  =============

In each slot a person counts once, in one place, so a unit moves a slot's counts by 1 (L1 and
L2). For `event` the person may have other records in the slot: taking one away can move the
count to another place, which is 2 in L1 and the root of 2 in L2.

A scheme that samples, or needs a window as a whole, starts anew at a disjoint window
(`begins_window`); `charged_unit` is the window as the ledger knows it.

`grid_columns` says whether places are the cells of a full grid in row order, from public geometry
and nothing else. Schemes that look at a cell's surroundings need to know who its neighbours are.
Where the middles of the zones, in the order of their ids, step evenly along rows of one length, the
length of a row is found here; towers and statistical areas are no grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import MOST_PEOPLE
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import MICROSECONDS, Calendar, TimeGrid
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.events import USER_PERIOD, Unit, UnitKind

if TYPE_CHECKING:  # it reads folders, and most streams have nothing before them
    from sfumato.streams.kept import Vectors

_UNEVEN = 0.2
"""Share of a step by which steps may differ: squares of a plane are not quite even in degrees."""


def grid_columns(places: Places) -> int | None:
    """Cells in a row, or None where the places are no full rectangle in row order."""
    if places.kind is not PlaceKind.ZONES or len(places) < 4:
        return None
    middles = shapely.get_coordinates(shapely.centroid(places.geometry))
    steps = np.diff(middles, axis=0)
    turns = np.flatnonzero(~_even(steps, steps[0]))
    if not turns.size or len(middles) % (turns[0] + 1):
        return None
    columns = int(turns[0]) + 1
    if columns < 2:
        return None
    grid = middles.reshape(-1, columns, 2)
    along, down = np.diff(grid, axis=1), np.diff(grid, axis=0)
    (ax, ay), (bx, by) = along[0, 0], down[0, 0]
    upright = abs(ax * by - ay * bx) > 0.5 * np.hypot(ax, ay) * np.hypot(bx, by)
    if not (upright and _even(along, along[0, 0]).all() and _even(down, down[0, 0]).all()):
        return None
    return columns


def _even(steps: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.asarray(np.hypot(*np.moveaxis(steps - first, -1, 0)) <= _UNEVEN * np.hypot(*first))


@dataclass(frozen=True, slots=True, eq=False)
class StreamFacts:
    """Cells, calendar, unit and (epsilon, delta); delta 0 asks for pure privacy."""

    cells: int
    calendar: Calendar
    epsilon: float
    delta: float = 0.0
    unit: Unit = USER_PERIOD
    expected_users: int | None = None
    grid_columns: int | None = None
    """Where the cells are a full rectangle in row order: its width."""
    roads: NDArray[np.float64] | None = None
    """Length of road in each cell, from a public map."""
    adjacent: NDArray[np.int64] | None = None
    """Pairs of cells that lie side by side, from a public map."""
    past_days: tuple[NDArray[np.float64], ...] = ()
    """Of each published earlier day the distances between its successive slots, oldest first."""
    past: Vectors | None = None
    """Vectors that earlier streams measured and published."""
    begins: int = 0
    """Slot of the first day from which on there is a feed, as its operator says publicly."""

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise UsageError("A stream has at least one cell.")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise UsageError("Epsilon must be finite and positive.", remedy="Try `epsilon=1`.")
        if not 0 <= self.delta < 1:
            raise UsageError("Delta lies between 0 and 1.", remedy="Try `delta=1e-6`.")
        if self.expected_users is not None and not 1 <= self.expected_users <= MOST_PEOPLE:
            raise UsageError(f"Between 1 and {MOST_PEOPLE:.0e} users may be expected.")
        if self.expected_users is not None and self.delta > 1 / self.expected_users:
            raise UsageError(
                "Delta is above one over the expected users.",
                remedy=f"Take `delta={0.1 / self.expected_users:.0e}` or less.",
            )
        if self.unit.kind is UnitKind.POINT:
            raise UsageError("A stream of counts has no unit of points.")
        if self.unit.kind is UnitKind.W_EVENT and self.unit.window is None:
            raise UsageError("A stream's window is a number of slots.", remedy="Write w-event:48.")
        if self.grid_columns is not None and self.cells % self.grid_columns:
            raise UsageError("The cells are not a full rectangle of that width.")

    @property
    def slots(self) -> int:
        return self.calendar.slots

    @property
    def window(self) -> int:
        """The most slots that one unit touches."""
        if self.unit.kind is UnitKind.USER_DAY:
            return self.calendar.longest_day
        if self.unit.kind is UnitKind.W_EVENT:
            assert self.unit.window is not None
            return min(self.unit.window, self.slots)
        return 1 if self.unit.kind is UnitKind.EVENT else self.slots

    @property
    def windows(self) -> int:
        """How many windows the stream is long, side by side."""
        if self.unit.kind is UnitKind.USER_DAY:
            return int(self.calendar.day[-1] - self.calendar.day[0]) + 1
        return -(-self.slots // self.window)

    @property
    def l1(self) -> int:
        """What one unit changes in one slot, in L1."""
        return 2 if self.unit.kind is UnitKind.EVENT else 1

    @property
    def l2(self) -> float:
        """What one unit changes in one slot, in L2."""
        return math.sqrt(2.0) if self.unit.kind is UnitKind.EVENT else 1.0

    @property
    def rho(self) -> float:
        """The zCDP budget within (epsilon, delta)."""
        if self.delta == 0:
            return self.epsilon**2 / 2
        return zcdp_rho(self.epsilon, self.delta)

    def same_window(self, earlier: int, later: int) -> bool:
        """Whether one unit can touch both slots."""
        if self.unit.kind is UnitKind.USER_PERIOD:
            return True
        if self.unit.kind is UnitKind.USER_DAY:
            return bool(self.calendar.day[earlier] == self.calendar.day[later])
        return later - earlier < self.window

    def windows_between(self, earlier: int, later: int) -> int:
        """How many windows on `later` is; 0 where one unit can touch both slots."""
        if later <= earlier or self.same_window(earlier, later):
            return 0
        if self.unit.kind is UnitKind.USER_DAY:
            return int(self.calendar.day[later] - self.calendar.day[earlier])
        return (later - earlier) // self.window


def window_begin(facts: StreamFacts, slot: int) -> int:
    """The first slot of the disjoint window that `slot` is in."""
    if facts.unit.kind is UnitKind.USER_DAY:
        return int(np.searchsorted(facts.calendar.day, facts.calendar.day[slot]))
    return slot - slot % facts.window


def begins_window(facts: StreamFacts, slot: int) -> bool:
    return window_begin(facts, slot) == slot


def window_end(facts: StreamFacts, slot: int) -> int:
    """The first slot after the disjoint window that `slot` is in."""
    if facts.unit.kind is UnitKind.USER_DAY:
        return int(np.searchsorted(facts.calendar.day, facts.calendar.day[slot], side="right"))
    return min(window_begin(facts, slot) + facts.window, facts.slots)


def windows_to_show(facts: StreamFacts, slot: int, ahead: int) -> list[tuple[int, int]]:
    """First slots and ends of the windows that a finished scheme is shown before `slot` leaves.

    Nothing but where a window begins: there the one that lies `ahead` windows on, and at the
    beginning of the stream all up to that one. So each is shown once, in order, by public times.
    """
    if not begins_window(facts, slot):
        return []
    found = [(slot, window_end(facts, slot))]
    while len(found) <= ahead and found[-1][1] < facts.slots:
        found.append((found[-1][1], window_end(facts, found[-1][1])))
    if slot == 0:
        return found
    return found[ahead:]


def coprime_from(least: int, length: int) -> int:
    """The smallest number from `least` on that shares no factor with `length`."""
    number = max(least, 1)
    while math.gcd(number, length) > 1:
        number += 1
    return number


def due(facts: StreamFacts, slot: int, k: int) -> bool:
    """Whether this slot is measured: none before the feed begins, then at once."""
    length, since = facts.calendar.longest_day, slot - facts.begins
    if facts.unit.kind is UnitKind.USER_DAY:
        if facts.begins and facts.same_window(0, slot):
            return since in {j * (length - facts.begins) // k for j in range(k)}
        # 0.38 is near the golden section, which spreads successive days evenly over the clock.
        shift = int(facts.calendar.day[slot]) * coprime_from(math.ceil(0.38 * length), length)
        phases = {(shift + j * length // k) % length for j in range(k)}
        return int(facts.calendar.phase[slot]) in phases
    every = math.ceil(facts.window / k)
    if every > 1:
        every = coprime_from(every, length)
    return since >= 0 and since % every == 0


def unit_in_slots(unit: Unit, grid: TimeGrid) -> Unit:
    """The unit as a scheme needs it: a window in slots, a day of the grid's own clock.

    A slot of several days holds several units of `user-day`: without one of them the person may
    count in another place, which moves the slot by 2 and not by 1, so such slots are refused.
    """
    if unit.kind is UnitKind.USER_DAY and grid.step > timedelta(days=1):
        raise UsageError(
            "A slot that is longer than a day holds several days of one person, so the unit "
            "user-day does not bound what one of them changes.",
            remedy="Take a `slot` of at most 1d, or the `unit` user-period or w-event:1.",
        )
    if unit.clock is not None and unit.clock != grid.tz:
        raise UsageError(
            f"The days of this stream are those of {grid.tz}, not of {unit.clock}.",
            remedy="Write `unit='user-day'`, or give `tz` the same zone.",
        )
    if unit.clock is not None:
        return Unit(unit.kind)
    if unit.span_s is None:
        return unit
    slot = int(grid.step.total_seconds())
    if unit.span_s % slot or unit.slot_s not in (None, slot):
        raise UsageError(
            "The window is not a whole number of slots.",
            remedy="Choose a window that `slot` divides.",
        )
    return Unit(unit.kind, unit.span_s // slot)


def charged_unit(unit: Unit, grid: TimeGrid) -> Unit:
    """The unit as it is charged: a day with its clock, a window as a length of time.

    Where slots are not all of one length, w of them last at least as long as the shortest run
    of w: that is what the ledger may take a window to be. A run is not cut off by the ends of
    the stream, outside which there is nothing to count. Such a span is no whole number of slots, by
    which the ledger knows that slot edges do not lie a step apart; a second less if need be.
    """
    if unit.kind is UnitKind.USER_DAY:
        return Unit(unit.kind, clock=grid.tz)
    if unit.kind is not UnitKind.W_EVENT:
        return unit
    assert unit.window is not None
    slot, edges = int(grid.step.total_seconds()), grid.edges
    span = unit.window * slot
    if unit.window < grid.slots:
        runs = edges[unit.window :] - edges[: -unit.window]
        span = min(span, int(runs.min()) // MICROSECONDS)
    if (np.diff(edges) != slot * MICROSECONDS).any() and span % slot == 0:
        span -= 1
    return Unit(unit.kind, None, span, slot)
