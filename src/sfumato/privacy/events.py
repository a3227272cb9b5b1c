"""Privacy events: what happened, written down so that the record outlives any accountant.

An event says which mechanism ran with which sensitivity and scale. It says nothing about
epsilon: that is a view which `accounting` computes. Exact rationals are stored as
fractions, sensitivities as decimal numbers rounded up by whoever made the event.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.model.errors import UsageError


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
            fields[name] = Fraction(fields[name])
    return _KINDS[kind](**fields)
