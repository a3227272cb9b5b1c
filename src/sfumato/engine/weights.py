"""Weights min(1, C / norm) in fixed point, the same integer on every engine.

With n the user's squared norm, an exact integer in units of 1/`units`^2, the weight in units
of 2^-16 is

    0                                    n >= 2^53 (a double could not hold n; always valid)
    2^16                                 n <= floor((C units)^2), compared as integers
    floor(fl(c / fl(sqrt(n))))           otherwise, c = fl(2^16 C units (1 - 2^-46))

where fl is IEEE double rounding: square root and division are correctly rounded everywhere,
so every engine gets the same value.

*Claim: w sqrt(n) <= 2^16 C units, always.* First two lines: at once. Third: write
e = 2^-53. c comes from at most three roundings of exact factors, so c <= 2^16 C units
(1 - 128 e)(1 + e)^3; fl(sqrt(n)) >= sqrt(n) (1 - e), n below 2^53 being exact; the quotient
is rounded once more. So the quotient times sqrt(n) is at most 2^16 C units times
(1 - 128 e)(1 + e)^4 / (1 - e) < 1, and rounding down only helps. (Where c is subnormal it is
below 1 and the weight is 0, as n >= 1.) The price is a relative 2^-46 of weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.model.bound import WEIGHT_UNITS

NORM_CEILING = 1 << 53
MASS_CEILING = 1 << 27
"""A mass in one slot at or above this has a square above `NORM_CEILING`: larger is the same."""
TOTAL_UNITS = 1 << 12
"""Lattice of a `people` mass inside a norm over places: 2^53 is then 23,170 whole slots."""


@dataclass(frozen=True, slots=True)
class WeightRule:
    """Limit as the two constants every engine works with."""

    whole_up_to: int
    """Squared norms up to this keep weight one."""
    scale: float
    """c of the module's text: divided by the norm it gives the weight."""

    @classmethod
    def of(cls, limit: float, units: int = 1) -> WeightRule:
        """The rule for a norm held in units of 1/`units`."""
        exact = (Fraction(limit) * units) ** 2
        largest = Fraction(2) ** 1000
        scale = WEIGHT_UNITS * limit * units * (1 - 2.0**-46) if exact < largest else 2.0**500
        return cls(min(math.floor(exact), NORM_CEILING - 1), scale)

    def weight(self, norm_squared: int) -> int:
        """The weight of one user: the definition in plain numbers."""
        if norm_squared >= NORM_CEILING:
            return 0
        if norm_squared <= self.whole_up_to:
            return WEIGHT_UNITS
        return math.floor(self.scale / math.sqrt(float(norm_squared)))

    def sql(self, norm_squared: str) -> str:
        """The same as SQL; the norm's column is an exact integer or decimal."""
        return (
            f"CASE WHEN {norm_squared} >= {NORM_CEILING} THEN 0 "
            f"WHEN {norm_squared} <= {self.whole_up_to} THEN {WEIGHT_UNITS} ELSE CAST(floor("
            f"CAST('{self.scale!r}' AS DOUBLE) / sqrt(CAST({norm_squared} AS DOUBLE))"
            f") AS BIGINT) END"
        )
