"""What is written down about a measurement: its privacy event, its unit, and who was charged.

*Events* outlive any accountant. An event says which mechanism ran with which sensitivity and
scale. It says nothing about epsilon: that is a view which `accounting` computes. Exact rationals
are stored as fractions, sensitivities as decimal numbers rounded up by whoever made the event.

*Units* say whose contribution a guarantee hides: an epsilon means nothing without its unit. Units
contain one another, and what a charge for one of them costs another is decided in one place,
`sfumato.privacy.ledger.nesting`.

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

*Charging.* Every mechanism tells a `Charger` what it is about to do, before it does it. A ledger
reservation is a `Charger`; so is the `Tab`, which remembers charges in memory for plans, audits
and tests and publishes nothing. `Measurement`, `Selection` and `Selections` are what has passed
the wall, and what it cost.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError


def _positive(value: float, what: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{what} must be finite and positive.")


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Discrete Gaussian noise on an integer vector that one unit moves by at most `l2`.

    Loss: rho = l2^2 / (2 sigma2) in zero-concentrated DP (Canonne, Kamath & Steinke 2020).
    `touched` is the most cells one unit can move; it decides whether the exact Gaussian
    curve may be claimed for the discrete noise (see `accounting`).
    """

    kind: ClassVar[str] = "discrete-gaussian"
    l2: float
    sigma2: Fraction
    touched: int

    def __post_init__(self) -> None:
        _positive(self.l2, "An L2 sensitivity")
        _positive(float(self.sigma2), "A variance")
        if self.touched < 1:
            raise UsageError("A unit touches at least one cell.")


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Discrete Laplace noise of scale `scale` on integers that one unit moves by `l1` in L1.

    Loss: l1 / scale in pure DP.
    """

    kind: ClassVar[str] = "discrete-laplace"
    l1: float
    scale: Fraction

    def __post_init__(self) -> None:
        _positive(self.l1, "An L1 sensitivity")
        _positive(float(self.scale), "A scale")


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent:
    """A selection whose log-probability ratios lie in an interval of length `range`.

    Loss: `range` in pure DP, range^2 / 8 in zero-concentrated DP. The exponential
    mechanism with weights exp(eta * u / range(u)) is of this kind.
    """

    kind: ClassVar[str] = "bounded-range"
    range: float

    def __post_init__(self) -> None:
        _positive(self.range, "A range")


@dataclass(frozen=True, slots=True)
class PureEvent:
    """Anything with a proof of pure epsilon-DP, named in `mechanism` (sparse vector, say)."""

    kind: ClassVar[str] = "pure"
    epsilon: float
    mechanism: str

    def __post_init__(self) -> None:
        _positive(self.epsilon, "An epsilon")


@dataclass(frozen=True, slots=True)
class ConcentratedEvent:
    """Anything with a proof of rho-zCDP and no useful pure epsilon, named in `mechanism`."""

    kind: ClassVar[str] = "concentrated"
    rho: float
    mechanism: str

    def __post_init__(self) -> None:
        _positive(self.rho, "A rho")


@dataclass(frozen=True, slots=True)
class MetricEvent:
    """Location noise: loss `epsilon_per_metre` times the distance between two locations."""

    kind: ClassVar[str] = "metric"
    epsilon_per_metre: float
    mechanism: str

    def __post_init__(self) -> None:
        _positive(self.epsilon_per_metre, "An epsilon per metre")


PrivacyEvent = (
    GaussianEvent | LaplaceEvent | BoundedRangeEvent | PureEvent | ConcentratedEvent | MetricEvent
)
_KINDS: dict[str, type[PrivacyEvent]] = {
    cls.kind: cls
    for cls in (
        GaussianEvent,
        LaplaceEvent,
        BoundedRangeEvent,
        PureEvent,
        ConcentratedEvent,
        MetricEvent,
    )
}


def event_to_json(event: PrivacyEvent) -> dict[str, Any]:
    """Plain JSON values; fractions become `p/q` text, so nothing is lost."""
    fields = {
        name: str(value) if isinstance(value, Fraction) else value
        for name, value in asdict(event).items()
    }
    return {"kind": event.kind, **fields}


_FRACTION = re.compile(r"\d{1,1000}(/\d{1,1000})?", re.ASCII)


def event_from_json(data: dict[str, Any]) -> PrivacyEvent:
    """The event that `event_to_json` wrote."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise UsageError(
            f"This version does not know privacy events of kind {kind!r}.",
            remedy="Use the version of sfumato that wrote them, or a newer one.",
        )
    for name in ("sigma2", "scale"):
        if name in fields:
            if isinstance(fields[name], str) and not _FRACTION.fullmatch(fields[name]):
                raise ValueError("no fraction")  # `1e999999999` is one that no memory holds
            fields[name] = Fraction(fields[name])
    return _KINDS[kind](**fields)


class UnitKind(StrEnum):
    USER_PERIOD = "user-period"
    """One user's whole record in the period. The default, and the only one with no "but"."""
    USER_DAY = "user-day"
    """What one user did on one local day; several days of one user add up."""
    EVENT = "event"
    """One record."""
    W_EVENT = "w-event"
    """What one user did within a window of time, wherever it lies."""
    TRAJECTORY = "trajectory"
    """One trip of one user: the fixes between two pauses of more than 20 minutes."""
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
            case UnitKind.TRAJECTORY:
                return (
                    "adding or removing one trip of one user: records between two pauses of more "
                    "than 20 minutes"
                )
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
                remedy="Write the window as a length of time: "
                f"`unit='w-event:{self.window}h'` where slots last an hour.",
            )
        if self.kind is UnitKind.POINT and self.radius_m is None:
            raise UsageError(
                "A cap for locations says within which distance it holds.",
                remedy="Write `unit='point:200m'`; every charge is converted to that radius.",
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


class Charger(Protocol):
    """Accepts a charge or raises; a mechanism draws only after this has returned."""

    def charge(self, label: str, event: PrivacyEvent) -> None: ...


@dataclass
class Tab:
    """Charges kept in memory, in order. A label is charged once."""

    charged: dict[str, PrivacyEvent] = field(default_factory=dict)

    def charge(self, label: str, event: PrivacyEvent) -> None:
        if label in self.charged:
            raise UsageError(f"The measurement {label!r} was already taken.")
        self.charged[label] = event


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Public from here on: everything computed from it is post-processing and free.

    `variance` is that of the noise on each entry, in lattice units squared. `tainted` is
    true where the noise came from a seeded stream, which is for tests only.
    """

    label: str
    values: NDArray[np.int64]
    variance: float
    units_per_count: int
    event: PrivacyEvent
    tainted: bool = False

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def estimate(self) -> NDArray[np.float64]:
        """The noisy counts, in people or visits instead of lattice units."""
        return self.values / np.float64(self.units_per_count)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise, in counts."""
        return float(np.sqrt(self.variance)) / self.units_per_count


@dataclass(frozen=True, slots=True)
class Selection:
    """The index that a private choice came to, among `candidates` public ones."""

    label: str
    index: int
    candidates: int
    event: PrivacyEvent
    tainted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Selections:
    """The indices that private choices in the rows of a table came to."""

    label: str
    indices: NDArray[np.int64]
    candidates: int
    event: PrivacyEvent
    tainted: bool = False

    def __post_init__(self) -> None:
        self.indices.setflags(write=False)
