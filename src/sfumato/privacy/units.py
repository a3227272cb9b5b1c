"""Privacy units: whose contribution a guarantee hides.

An epsilon means nothing without its unit. Units contain one another, and what a charge for one
of them costs another is decided in one place, `sfumato.privacy.ledger.nesting`.

A day belongs to a clock, a window is a length of time, and a distance is part of the unit
`point`; all three are written into the name, so that two units with one name are the same:

==================  =========================================================================
`user-period`       one user's whole record in the period
`user-day@UTC`      what one user did on one day of that clock
`w-event:48h/1h`    what one user did within 48 hours that begin on the edges of one-hour slots
`event`             one record
`point:200m`        one location, moved by at most 200 metres
==================  =========================================================================

Where a name leaves something open, somebody else fills it in. A stream is asked for with
`user-day` or `w-event:48` (slots), and its own time grid says the clock and the length of a
slot. A cap for `user-day` or `w-event:48h` holds for the days of every clock, and for the windows
on the slots of every stream, that was ever charged (see `sfumato.privacy.ledger.accounts`).
Ledgers of the first version hold the open names; they stay readable.
"""

from __future__ import annotations

import math
import re
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
    """What one user did within a window of time, wherever it lies."""
    POINT = "point"
    """One location, with a loss per metre of distance between two locations."""


_LENGTH = re.compile(r"(\d{1,9})(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_DISTANCE = re.compile(r"(\d{1,9}(?:[.]\d{1,6})?)(m|km)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind and what belongs to it; see the module for the names."""

    kind: UnitKind = UnitKind.USER_PERIOD
    window: int | None = None
    """w-event: the window in slots, where their length is said elsewhere."""
    span_s: int | None = None
    """w-event: the window in seconds."""
    slot_s: int | None = None
    """w-event: windows begin on the edges of slots of so many seconds."""
    clock: str | None = None
    """user-day: the time zone whose midnights part the days."""
    radius_m: float | None = None
    """point: how far the location moves."""

    def __post_init__(self) -> None:
        windowed = self.window is not None or self.span_s is not None
        if (self.kind is UnitKind.W_EVENT) != windowed:
            raise UsageError("A w-event unit needs a window of slots, and no other unit has one.")
        for length in (self.window, self.span_s, self.slot_s):
            if length is not None and length < 1:
                raise UsageError("The window of a w-event unit has at least one slot.")
        if self.slot_s is not None and self.span_s is None:
            raise UsageError("Slots have a length only where the window has one.")
        if self.clock is not None and self.kind is not UnitKind.USER_DAY:
            raise UsageError("Only a day has a clock.")
        if self.radius_m is not None and not (
            self.kind is UnitKind.POINT and math.isfinite(self.radius_m) and self.radius_m > 0
        ):
            raise UsageError("Only a point has a radius, and it is positive.")

    @classmethod
    def parse(cls, text: str) -> Unit:
        """What `str` writes, and the open names that a stream is asked for with."""
        name, _, clock = text.partition("@")
        name, _, size = name.partition(":")
        try:
            kind = UnitKind(name)
            if kind is UnitKind.USER_DAY and not size:
                return cls(kind, clock=clock or None)
            if clock:
                raise ValueError
            if kind is UnitKind.POINT:
                return cls(kind, radius_m=_metres(size) if size else None)
            if kind is UnitKind.W_EVENT and not size.isdecimal():
                span, _, slot = size.partition("/")
                return cls(kind, None, _seconds(span), _seconds(slot) if slot else None)
            return cls(kind, int(size) if size else None)
        except ValueError:
            raise UsageError(
                f"{text!r} is not a privacy unit.",
                remedy=f"Choose from {', '.join(UnitKind)}. A w-event is written w-event:48h (or, "
                "for a stream, w-event:48 slots), a point point:200m, a day of one clock "
                "user-day@Europe/Paris.",
            ) from None

    def __str__(self) -> str:
        match self.kind:
            case UnitKind.USER_DAY if self.clock is not None:
                return f"{self.kind.value}@{self.clock}"
            case UnitKind.W_EVENT if self.span_s is not None:
                slot = "" if self.slot_s is None else f"/{_length(self.slot_s)}"
                return f"{self.kind.value}:{_length(self.span_s)}{slot}"
            case UnitKind.W_EVENT:
                return f"{self.kind.value}:{self.window}"
            case UnitKind.POINT if self.radius_m is not None:
                return f"{self.kind.value}:{self.radius_m:.6f}".rstrip("0").rstrip(".") + "m"
            case _:
                return self.kind.value

    @property
    def neighbours(self) -> str:
        """The neighbouring relation in words."""
        match self.kind:
            case UnitKind.USER_PERIOD:
                return "adding or removing one user's whole record in the period"
            case UnitKind.USER_DAY:
                of = "" if self.clock is None else f" ({self.clock})"
                return f"adding or removing what one user did on one day{of}"
            case UnitKind.EVENT:
                return "adding or removing one record"
            case UnitKind.W_EVENT if self.span_s is not None:
                return f"adding or removing what one user did within any {_length(self.span_s)}"
            case UnitKind.W_EVENT:
                return (
                    "adding or removing what one user did within any "
                    f"{self.window} successive slots"
                )
            case UnitKind.POINT if self.radius_m is not None:
                return f"moving one location by at most {self.radius_m:g} m"
            case _:
                return "moving one location; the loss grows with the distance moved"

    def for_cap(self) -> Unit:
        """This unit, if a cap may have it: a window has a length, a point a radius."""
        if self.kind is UnitKind.W_EVENT and self.span_s is None:
            raise UsageError(
                "A cap for windows says how long they are.",
                remedy=f"Write the window as a length of time: --unit w-event:{self.window}h where "
                "slots last an hour.",
            )
        if self.kind is UnitKind.POINT and self.radius_m is None:
            raise UsageError(
                "A cap for locations says within which distance it holds.",
                remedy="Write --unit point:200m; every charge is converted to that radius.",
            )
        return self


def _seconds(text: str) -> int:
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _SECONDS[match[2]]


def _metres(text: str) -> float:
    match = _DISTANCE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * (1000.0 if match[2] == "km" else 1.0)


def _length(seconds: int) -> str:
    for name in ("h", "min"):
        if seconds % _SECONDS[name] == 0:
            return f"{seconds // _SECONDS[name]}{name}"
    return f"{seconds}s"


USER_PERIOD = Unit()
