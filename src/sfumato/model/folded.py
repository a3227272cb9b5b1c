"""`FoldedGrid`: a period folded to a typical week or day, for sparse data.

Weeks of few records have more in them together than each alone. Every instant of the period is
mapped to the slot of a typical week (or day) that the *local wall clock* shows then; rows are
mapped before anything is counted, so that the engine meets ordinary slots.

**What is counted.** A person counts once in a place and slot of the typical week, however many of
the weeks they were seen there: with `visits` a number is how many different people were there at
that time of the week in *any* of the weeks; with `people` a person's unit of a slot is split over
all places where they were at that time of the week. It is neither the sum over weeks nor their
mean, and it grows with the number of weeks.

**Privacy.** Unit: one person's whole record in the *whole* period, add/remove. A record becomes a
set of (place, slot) pairs as without folding, only in fewer slots, so every bound and sensitivity
holds as it stands, and the ledger is charged for the whole period, not for one week.

**Clocks.** Where a clock is set back, both passes of an hour are the hour that it shows; where it
is set forward, nothing falls in the hour that it skips. The typical week has no change: its slots
carry the dates of the first week of the period (counted from its first day) in which no clock
changes, which are labels for the weekday and hour and stand for all weeks.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.time_grid import MICROSECONDS, TimeGrid, parse_step

FOLDS = {"day": 1, "week": 7}
"""What a period can be folded to, and its days."""
_DAY = 86_400
QUARTER_S = 900
"""Seconds that every change of a clock is a multiple of: no piece has two offsets in it."""


@dataclass(frozen=True, slots=True, eq=False)
class FoldedGrid(TimeGrid):
    """Slots of a typical week or day (`edges`), and the period that is folded to it."""

    whole: TimeGrid
    """The whole period in pieces, each within one slot of the wall clock."""
    slot_at: NDArray[np.int64]
    """The slot that each piece belongs to."""
    name: str
    """`week` or `day`."""

    @property
    def fold(self) -> str:
        return self.name

    @property
    def repeats(self) -> int:
        """How many weeks or days are folded."""
        days = (self.whole.end(-1) - timedelta(seconds=1)).date() - self.whole.start(0).date()
        return (days.days + 1) // FOLDS[self.name]

    @property
    def period(self) -> tuple[int, int]:
        """First instant of the whole period and first instant after it."""
        return self.whole.period

    @property
    def cuts(self) -> NDArray[np.int64]:
        return self.whole.edges

    @property
    def slot_of_cut(self) -> NDArray[np.int64]:
        return self.slot_at

    def slot_of(self, instants: NDArray[np.int64]) -> NDArray[np.int32]:
        """Slot of the typical week of each instant, -1 outside the period."""
        piece = self.whole.slot_of(instants)
        return np.where(piece >= 0, self.slot_at[piece], -1).astype(np.int32)

    def fingerprint(self) -> str:
        """SHA-256 of the slots, the whole period and how it is folded."""
        slots = TimeGrid(self.edges, self.step, self.tz).fingerprint()
        text = f"folded-grid/1|{self.name}|{slots}|{self.whole.fingerprint()}"
        return hashlib.sha256(text.encode()).hexdigest()


def folded_period(start: date, end: date, slot: str | timedelta, tz: str, fold: str) -> FoldedGrid:
    """The days from `start` to `end` (excluded), folded to a typical week or day.

    Args:
        start: First day; the typical week begins with its weekday.
        end: First day after the period, two or more whole weeks (days) later.
        slot: Length of a slot, which must divide the day, or be days that divide the week.
        tz: The zone whose wall clock counts.
        fold: `week` or `day`.

    Raises:
        UsageError: The period is no whole number of weeks, or the slots do not fill the day.
    """
    if fold not in FOLDS:
        raise UsageError(f"A period is not folded to {fold!r}.", remedy="`fold` is week or day.")
    days, length = FOLDS[fold], parse_step(slot) if isinstance(slot, str) else slot
    repeats, left = divmod((end - start).days, days)
    if left or repeats < 2:
        raise UsageError(
            f"The period is not two or more whole {fold}s, so some slots would have more of them "
            "than others.",
            remedy=f"Move `end` so that the period is {2 * days}, {3 * days} or another multiple "
            f"of {days} days, or leave `fold` out.",
        )
    seconds = int(length.total_seconds())
    if seconds < 1 or (_DAY % seconds and (seconds % _DAY or days * _DAY % seconds)):
        raise UsageError(
            f"Slots of this length do not fill a typical {fold}.",
            remedy="Take a `slot` that divides the day, such as 15min, 1h or 1d.",
        )
    pieces = timedelta(seconds=math.gcd(seconds, QUARTER_S))
    whole = TimeGrid.between(start, end, pieces, tz)
    typical = _typical(start, repeats, days, length, tz)
    starts = whole.starts()
    day = np.array([(moment.date() - start).days for moment in starts], np.int64)
    clock = np.array([60 * (60 * m.hour + m.minute) + m.second for m in starts], np.int64)
    slot_at = (day % days * _DAY + clock) // seconds
    slot_at.setflags(write=False)
    return FoldedGrid(typical.edges, length, tz, whole, slot_at, fold)


def _typical(start: date, repeats: int, days: int, length: timedelta, tz: str) -> TimeGrid:
    """The slots of the first week in which no clock changes."""
    for k in range(repeats):
        first = start + timedelta(days=k * days)
        grid = TimeGrid.between(first, first + timedelta(days=days), length, tz)
        step = int(length.total_seconds()) * MICROSECONDS
        even = bool((np.diff(grid.edges) == step).all())
        if even and grid.slots * length == timedelta(days=days):
            return grid
    raise UsageError(
        "There is no week in the period without a change of the clock.",
        remedy="Take a longer period, or leave `fold` out.",
    )
