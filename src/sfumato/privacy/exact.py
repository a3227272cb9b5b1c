"""Exact numbers: how a written decimal becomes a fraction, and a fraction a safe decimal.

Budgets, sensitivities and losses are compared with caps, so their sums must not drift. A
float stands for the shortest decimal that names it (0.1 is one tenth): that is what its
owner typed and what the JSON record says. Going back, `decimal_up` gives a float whose
decimal is not below the fraction, so a rounded loss is never an understated one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from sfumato.errors import UsageError

Number = int | float | Fraction


def exact(value: Number) -> Fraction:
    """The fraction that a number's shortest decimal names."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int):
        return Fraction(value)
    if not math.isfinite(value):
        raise UsageError("Only finite numbers can be counted exactly.")
    return Fraction(repr(float(value)))


def decimal_up(value: Fraction) -> float:
    """The nearest float whose shortest decimal is at least `value`."""
    number = float(value)
    while exact(number) < value:
        number = math.nextafter(number, math.inf)
    return number


def decimal_down(value: Fraction) -> float:
    """The nearest float whose shortest decimal is at most `value`."""
    number = float(value)
    while exact(number) > value:
        number = math.nextafter(number, -math.inf)
    return number


def total(values: Iterable[Fraction]) -> Fraction:
    """Exact sum, pairwise so that denominators grow only as much as they must."""
    terms = list(values)
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [a + b for a, b in pairs] + ([terms[-1]] if len(terms) % 2 else [])
    return terms[0] if terms else Fraction(0)


def rounded_up(sensitivity: float) -> float:
    """A computed sensitivity such as sqrt(30), moved past its rounding error."""
    if not math.isfinite(sensitivity):
        raise UsageError(
            "This array has no bound on what one person changes, so it cannot be measured.",
            remedy="Ask the source for bounded counts.",
        )
    if float(sensitivity).is_integer():
        return float(sensitivity)
    return math.nextafter(math.nextafter(sensitivity, math.inf), math.inf)
