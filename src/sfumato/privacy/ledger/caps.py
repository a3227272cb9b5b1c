"""`Cap`: the most that may ever be released about the people of a data set, for one unit.

Stated as rho (zero-concentrated DP), as (epsilon, delta), or as both, which then both hold.
The cap bounds the composition of everything ever charged, over a person's whole life.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.model.errors import UsageError


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
                remedy="Give both, for example --cap-epsilon 2 --cap-delta 1e-7.",
            )
        if self.epsilon is None and self.rho is None:
            raise UsageError(
                "A data set needs a cap: how much may ever be released about its people.",
                remedy="Give --cap-epsilon and --cap-delta, or --cap-rho.",
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
