"""Privacy units: whose contribution a guarantee hides. Values, never mixed.

An epsilon means nothing without its unit: epsilons of different units are not compared,
not added and not charged to the same account.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sfumato.model.errors import UsageError


class UnitKind(StrEnum):
    USER_PERIOD = "user-period"
    """One user's whole record in the period. The default, and the only one with no "but"."""
    USER_DAY = "user-day"
    """What one user did on one local day; several days of one user add up."""
    EVENT = "event"
    """One record."""
    W_EVENT = "w-event"
    """What one user did within any window of w slots."""
    POINT = "point"
    """One location, with a loss per metre of distance between two locations."""


_NEIGHBOURS = {
    UnitKind.USER_PERIOD: "adding or removing one user's whole record in the period",
    UnitKind.USER_DAY: "adding or removing what one user did on one day",
    UnitKind.EVENT: "adding or removing one record",
    UnitKind.W_EVENT: "adding or removing what one user did within any {window} successive slots",
    UnitKind.POINT: "moving one location; the loss grows with the distance moved",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind and, for w-event, the length of its window in slots."""

    kind: UnitKind = UnitKind.USER_PERIOD
    window: int | None = None

    def __post_init__(self) -> None:
        if (self.kind is UnitKind.W_EVENT) != (self.window is not None):
            raise UsageError("A w-event unit needs a window of slots, and no other unit has one.")
        if self.window is not None and self.window < 1:
            raise UsageError("The window of a w-event unit has at least one slot.")

    @classmethod
    def parse(cls, text: str) -> Unit:
        """`user-period`, `user-day`, `event`, `point` or `w-event:48`."""
        name, _, window = text.partition(":")
        try:
            return cls(UnitKind(name), int(window) if window else None)
        except ValueError:
            raise UsageError(
                f"{text!r} is not a privacy unit.",
                remedy=f"Choose from {', '.join(UnitKind)} (w-event as w-event:48).",
            ) from None

    def __str__(self) -> str:
        return self.kind.value if self.window is None else f"{self.kind.value}:{self.window}"

    @property
    def neighbours(self) -> str:
        """The neighbouring relation in words."""
        return _NEIGHBOURS[self.kind].format(window=self.window)


USER_PERIOD = Unit()
