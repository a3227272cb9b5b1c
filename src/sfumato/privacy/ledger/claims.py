"""What a release asks the ledger for, and what it may have: claims and caps.

A `Cap` is the most that may ever be released about the people of a data set, for one unit. It is
stated as rho (zero-concentrated DP), as (epsilon, delta), or as both, which then both hold.
The cap bounds the composition of everything ever charged, over a person's whole life. An
*allowance* is a cap on what one analyst alone may have released, inside the cap over everybody.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from sfumato.errors import UsageError
from sfumato.privacy.events import PrivacyEvent, Unit, UnitKind, event_from_json, event_to_json
from sfumato.privacy.ledger.accounts import Item
from sfumato.privacy.ledger.chain import canonical


@dataclass(frozen=True, slots=True)
class Cap:
    """At least one of the two statements; an epsilon never without its delta."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.delta is None):
            raise UsageError(
                "A cap on epsilon needs its delta, and a delta its epsilon.",
                remedy="Give both, for example `cap_epsilon=2, cap_delta=1e-7`.",
            )
        if self.epsilon is None and self.rho is None:
            raise UsageError(
                "No cap is given: how much may ever be released about these people.",
                remedy="Give `cap_epsilon` and `cap_delta`, or `cap_rho`.",
            )
        for value, what in ((self.epsilon, "epsilon"), (self.rho, "rho")):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"A cap on {what} must be finite and positive.")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise UsageError("The delta of a cap lies between 0 (pure) and 1.")

    def to_json(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cap:
        return cls(data["epsilon"], data["delta"], data["rho"])

    def __str__(self) -> str:
        parts = []
        if self.epsilon is not None:
            parts.append(f"epsilon {self.epsilon:g} at delta {self.delta:g}")
        if self.rho is not None:
            parts.append(f"rho {self.rho:g}")
        return " and ".join(parts)


CODE = "code"
"""Of what another distribution adds: its name, its version and a digest of its modules."""
RECORDED = frozenset({"sfumato"})
"""Settings that are on record and do not keep a rerun from going on: the package's version."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a release binds when it reserves. The whole of it stands in the ledger's row.

    `period` is the first instant and the first instant after, in epoch microseconds.
    `config` is everything that shapes the output; `fingerprint` is keyed, so that the row
    tells nothing about the input to someone without the ledger's key.
    """

    dataset: str
    name: str
    unit: Unit
    delta: float
    period: tuple[int, int]
    events: tuple[tuple[str, PrivacyEvent], ...]
    config: dict[str, Any]
    fingerprint: str
    out: str
    sums: tuple[str, ...] = ()
    """Labels of Gaussian noise on sums of clipped, non-negative contributions: see `nesting`."""
    radius_m: float | None = None
    """Locations: the radius for which Gaussian noise is charged."""
    least_m: float = 0.0
    """Locations: the lattice step, below which a distance costs no less."""
    analyst: str | None = None
    """Whose allowance pays; None for what the holder releases."""

    def __post_init__(self) -> None:
        if self.unit.kind is UnitKind.W_EVENT and self.unit.span_s is None:
            raise UsageError("A charge for windows says how long they are.")

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "name": self.name,
            "unit": str(self.unit),
            "delta": self.delta,
            "period": list(self.period),
            "events": [[label, event_to_json(event)] for label, event in self.events],
            "config": json.loads(canonical(self.config)),  # whoever gets it may change it
            "fingerprint": self.fingerprint,
            "out": self.out,
            "sums": list(self.sums),
            "distance": [self.radius_m, self.least_m],
            "analyst": self.analyst,
        }

    def item(self) -> Item:
        """The claim as accounts see it."""
        return Item(
            self.unit,
            self.period,
            tuple(event for _, event in self.events),
            tuple(label in self.sums for label, _ in self.events),
            self.radius_m,
            self.least_m,
        )

    def differences(self, other: Claim) -> list[str]:
        """What keeps a claim on record and another from being one release: settings, and the input.

        The analyst is no part of it: who asks what another asked before finds that one's release,
        and the one on record pays.
        """
        keys = (self.config.keys() | other.config.keys()) - RECORDED
        found = sorted(k for k in keys if self.config.get(k) != other.config.get(k))
        if self.fingerprint != other.fingerprint:
            found.append("the events")
        if not found and (self.events, self.unit, self.delta, self.period) != (
            other.events,
            other.unit,
            other.delta,
            other.period,
        ):
            found.append("the planned measurements")
        return found

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Claim:
        start, end = data["period"]
        radius, least = data["distance"]
        return cls(
            data["dataset"],
            data["name"],
            Unit.parse(data["unit"]),
            data["delta"],
            (start, end),
            tuple((label, event_from_json(event)) for label, event in data["events"]),
            data["config"],
            data["fingerprint"],
            data["out"],
            tuple(data["sums"]),
            radius,
            least,
            analyst=data["analyst"],
        )


class ReadOnly(dict[str, Any]):
    """Settings as they stand in a row. The process remembers them, so nobody may change them."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("What stands in the ledger cannot be changed.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse
