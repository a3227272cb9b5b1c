"""Checks of a scheme's own settings, with errors that say what it has."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from sfumato.density.scheme import PublicFacts
from sfumato.model.errors import UsageError
from sfumato.privacy.units import USER_PERIOD


def user_period(scheme: str, facts: PublicFacts) -> None:
    """Refuse every unit but a user's whole record."""
    if facts.unit != USER_PERIOD:
        raise UsageError(
            f"The scheme {scheme} protects a user's whole record, not the unit {facts.unit}.",
            remedy="Ask for the unit user-period, or choose another scheme.",
        )


def no_others(scheme: str, facts: PublicFacts, known: Mapping[str, str]) -> None:
    """Refuse parameters that the scheme does not have; `known` says what each may be."""
    unknown = sorted(set(facts.parameters) - set(known))
    if unknown:
        has = "; ".join(f"{name} ({what})" for name, what in known.items())
        raise UsageError(
            f"The scheme {scheme} has no parameter {', '.join(unknown)}.", remedy=f"It has {has}."
        )


def number(facts: PublicFacts, name: str, default: float, low: float, high: float) -> float:
    """A parameter between `low` and `high`."""
    value = facts.parameters.get(name, default)
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not (right and math.isfinite(float(value)) and low <= float(value) <= high):
        raise UsageError(f"The parameter {name} is a number from {low:g} to {high:g}.")
    return float(value)


def whole(facts: PublicFacts, name: str, default: int, low: int, high: int) -> int:
    """A whole number between `low` and `high`."""
    value = facts.parameters.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"The parameter {name} is a whole number from {low} to {high}.")
    return value


def word(facts: PublicFacts, name: str, default: str, choices: Collection[str]) -> str:
    """One of some words."""
    value = facts.parameters.get(name, default)
    if value not in choices:
        raise UsageError(f"The parameter {name} is one of {', '.join(sorted(choices))}.")
    return str(value)


def flag(facts: PublicFacts, name: str, default: bool) -> bool:
    """True or false."""
    value = facts.parameters.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"The parameter {name} is true or false.")
    return value
