"""How numbers are written for people: losses with the figures that are known, shares as 4 %.

An accountant's answer has sixteen digits of which the last are rounding error (0.9999999999999313
where 1 was asked for). Cut to the nearest, half of all losses would be claimed smaller than they
are; so epsilons, rhos and deltas that were lost are rounded up. JSON keeps every digit.
"""

from __future__ import annotations

import math

_ROUNDING_ERROR = 1e-12
"""Relative: what lies so little above a short number is that number."""
_ONE = {"people": "person", "fixes": "fix"}


def rounded_up(value: float, figures: int = 3) -> str:
    """So many figures, never less than the value but for a rounding error."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    # The exponent apart: ten to the power of 310 is no number, and a delta may be 1e-308.
    digits, _, power = f"{value * (1 - _ROUNDING_ERROR):.17e}".partition("e")
    up = math.ceil(float(digits) * 10 ** (figures - 1)) / 10 ** (figures - 1)
    return f"{float(f'{up}e{power}'):.{figures}g}"


def percent(share: float, places: int = 0) -> str:
    """A share as every message writes it: 4 %, 2.1 %."""
    return f"{100 * share:.{places}f} %"


def number_of(n: int, many: str) -> str:
    """A number with its noun, given in the plural: 1 slot, 1,303 towers, 1 person.

    Example:
        >>> number_of(1, "time slots"), number_of(1_303, "towers"), number_of(1, "people")
        ('1 time slot', '1,303 towers', '1 person')
    """
    one = _ONE.get(many, many.removesuffix("s"))
    return f"{n:,} {one if n == 1 else many}"
