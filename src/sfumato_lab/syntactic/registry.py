"""The registry of `anonymise traces`: every method with its parameters, in one place.

To add one: a topic file with the algorithm, a function in `methods`, a line here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato_lab.syntactic.methods import (
    PLACES,
    VISITS,
    Outcome,
    Task,
    run_generalise,
    run_km,
    run_km_distance,
    run_km_local,
    run_never_walk_alone,
    run_p_confidentiality,
    run_probabilistic,
    run_suppress,
    run_wait_for_me,
)
from sfumato_lab.syntactic.probabilistic import Law

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter of a method: public, chosen without looking at the data."""

    default: Value
    meaning: str
    low: float = 0.0
    high: float = math.inf
    words: tuple[str, ...] = ()

    def read(self, name: str, value: object) -> Value:
        """The value, if it is one.

        Raises:
            UsageError: It is not.
        """
        if self.words:
            if value in self.words:
                return str(value)
            raise UsageError(f"The parameter {name} is one of {', '.join(self.words)}.")
        whole = isinstance(self.default, int)
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and self.low <= value <= self.high
            and not (whole and value != int(value))
        ):
            return int(value) if whole else float(value)
        kind = "a whole number" if whole else "a number"
        above = "" if math.isinf(self.high) else f" to {self.high:g}"
        raise UsageError(f"The parameter {name} is {kind} from {self.low:g}{above}.")


@dataclass(frozen=True, slots=True)
class Method:
    """A way to anonymise records."""

    about: str
    run: Callable[[Task], Outcome]
    settings: Mapping[str, Setting]
    needs_k: bool = True
    needs_map: bool = False


_TRASH = Setting(0.1, "largest share of people who are left out", 0.0, 0.99)
_ITEMS = Setting(VISITS, "what an item is: a place and slot, or a place", words=(VISITS, PLACES))
_DELTA = Setting(2000.0, "diameter of a cluster's tube in metres", 0.0, 1e6)
_M = Setting(2, "items that somebody may know", 1, 6)

METHODS: Mapping[str, Method] = {
    "generalise": Method(
        "k-anonymity: larger areas and longer times, the same for everybody",
        run_generalise,
        {"trash": _TRASH},
    ),
    "suppress": Method(
        "k-anonymity: what too few share is left out", run_suppress, {"items": _ITEMS}
    ),
    "never-walk-alone": Method(
        "(k, delta): trajectories on a clock, moved into tubes of at least k",
        run_never_walk_alone,
        {
            "delta": _DELTA,
            "trash": _TRASH,
            "block": Setting(4096, "people who are clustered together", 64, 32768),
        },
    ),
    "wait-for-me": Method(
        "(k, delta): trajectories edited into tubes of at least k",
        run_wait_for_me,
        {
            "delta": _DELTA,
            "trash": _TRASH,
            "near": Setting(2000.0, "points this close in metres may be the same", 0.0, 1e6),
            "near_slots": Setting(1, "and this close in slots", 0, 1000),
            "block": Setting(1024, "people who are clustered together", 64, 8192),
        },
    ),
    "km": Method(
        "k^m: areas and times of a hierarchy, the same for everybody",
        run_km,
        {"m": _M, "items": _ITEMS},
    ),
    "km-local": Method(
        "k^m: areas and times that differ between parts of the people",
        run_km_local,
        {"m": _M, "items": _ITEMS, "part": Setting(5000, "people of a part", 10, 10_000_000)},
    ),
    "km-distance": Method(
        "k^m of sequences: places merged with the nearest", run_km_distance, {"m": _M}
    ),
    "probabilistic-km": Method(
        "k^m for a share p of the itemsets that occur, by draws; m may be large",
        run_probabilistic,
        {
            "m": Setting(4, "items that somebody may know", 1, 60),
            "p": Setting(0.99, "least share of itemsets in k records", 0.5, 0.9999),
            "confidence": Setting(0.95, "of that share", 0.5, 0.9999),
            "law": Setting("sets", "how itemsets are drawn", words=tuple(Law)),
            "items": _ITEMS,
        },
    ),
    "p-confidentiality": Method(
        "places grouped around sensitive ones; dwell times withheld",
        run_p_confidentiality,
        {
            "p": Setting(0.2, "largest probability that a stop was sensitive", 0.001, 0.999),
            "paths": Setting("simple", "simple paths, or any walk", words=("simple", "any")),
        },
        needs_k=False,
        needs_map=True,
    ),
}


def settings_of(name: str, given: Mapping[str, Any] | None) -> dict[str, Value]:
    """The parameters of a method in force.

    Raises:
        UsageError: There is no such method or parameter, or a value is out of range.
    """
    if name not in METHODS:
        raise UsageError(
            f"There is no method {name[:40]!r}.", remedy=f"Choose from {', '.join(METHODS)}."
        )
    known = METHODS[name].settings
    for word in given or {}:
        if word not in known:
            raise UsageError(
                f"The method {name} has no parameter {str(word)[:40]!r}.",
                remedy=f"It has {', '.join(known)}.",
            )
    return {
        word: setting.read(word, (given or {}).get(word, setting.default))
        for word, setting in known.items()
    }
