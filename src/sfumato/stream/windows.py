"""Disjoint windows: where a scheme that samples, or needs a window as a whole, starts anew."""

from __future__ import annotations

import numpy as np

from sfumato.privacy.units import UnitKind
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
