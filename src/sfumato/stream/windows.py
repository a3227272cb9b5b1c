"""Windows of a stream: disjoint ones, and the window as the ledger knows it.

A scheme that samples, or needs a window as a whole, starts anew at a disjoint window.
"""

from __future__ import annotations

import numpy as np

from sfumato.model.errors import UsageError
from sfumato.model.time_grid import MICROSECONDS, TimeGrid
from sfumato.privacy.units import Unit, UnitKind
from sfumato.stream.facts import StreamFacts


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


def unit_in_slots(unit: Unit, grid: TimeGrid) -> Unit:
    """The unit as a scheme needs it: a window in slots, a day of the grid's own clock."""
    if unit.clock is not None and unit.clock != grid.tz:
        raise UsageError(
            f"The days of this stream are those of {grid.tz}, not of {unit.clock}.",
            remedy="Write --unit user-day, or give --tz the same zone.",
        )
    if unit.clock is not None:
        return Unit(unit.kind)
    if unit.span_s is None:
        return unit
    slot = int(grid.step.total_seconds())
    if unit.span_s % slot or unit.slot_s not in (None, slot):
        raise UsageError(
            "The window is no whole number of slots.", remedy="Choose a window that --slot divides."
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
