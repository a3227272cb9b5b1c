"""`StreamFacts`: everything public about a stream. None of it is read from the data.

`window` is the heart of it: the most slots that one unit of privacy can touch.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.model.errors import UsageError
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.units import USER_PERIOD, Unit, UnitKind
from sfumato.stream.calendar import Calendar


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

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise UsageError("A stream has at least one cell.")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise UsageError("Epsilon must be finite and positive.", remedy="Try --epsilon 1.")
        if not 0 <= self.delta < 1:
            raise UsageError("Delta lies between 0 and 1.", remedy="Try --delta 1e-6.")
        if self.expected_users is not None and self.delta > 1 / self.expected_users:
            raise UsageError(
                "Delta is above one over the expected users.",
                remedy=f"Take --delta {0.1 / self.expected_users:.0e} or less.",
            )
        if self.unit.kind is UnitKind.POINT:
            raise UsageError("A stream of counts has no unit of points.")
        if self.unit.kind is UnitKind.W_EVENT and self.unit.window is None:
            raise UsageError("A stream's window is a number of slots.", remedy="Write w-event:48.")
        if self.grid_columns is not None and self.cells % self.grid_columns:
            raise UsageError("The cells are no full rectangle of that width.")

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
