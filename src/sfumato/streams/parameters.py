"""The parameters of the stream schemes: names, ranges and meanings, declared in this one place.

Every constant that shapes what a scheme measures or how it filters is a field of the scheme's
class, where its default stands; here it gets the name by which `--parameter name=value` sets it,
the range that is allowed, and what it means. `stream --schemes` prints this table, the manifest
lists the values in force, and the audit tries each at another value.

A parameter is public: it is chosen without looking at the data, and a reservation holds it (see
`registry.settings_text`). None of them can spend more than epsilon: shares say how one budget is
divided, numbers of measurements how thin it is spread, and the rest is post-processing.

The length w of a window is no parameter of a scheme but the unit itself (`unit="w-event:48"`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sfumato.errors import UsageError
from sfumato.streams.scheme import NoiseKind, StreamScheme

Value = bool | int | float | str
"""A parameter as it is typed and as a manifest shows it."""


class Kind(StrEnum):
    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    NOISE = "best, laplace or gaussian"


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter: which field of the scheme it sets, and what it may be."""

    field: str
    """Of the scheme's class; `pid.theta` is a field of a field."""
    kind: Kind
    meaning: str
    other: Value
    """Another value than the default, with which the audit tries it."""
    low: float = 0.0
    high: float = 0.0
    unset: str = ""
    """What is taken where the default is none."""

    @property
    def range(self) -> str:
        """What it may be, in words."""
        if self.kind in (Kind.FLAG, Kind.NOISE):
            return self.kind.value
        return f"{self.kind.value} from {self.low:,.12g} to {self.high:,.12g}"

    def read(self, name: str, value: object) -> bool | int | float | NoiseKind:
        """The value, if it is one.

        Raises:
            UsageError: It is not, or it lies outside the range.
        """
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        match self.kind:
            case Kind.FLAG if isinstance(value, bool):
                return value
            case Kind.NOISE if value in list(NoiseKind):
                return NoiseKind(str(value))
            case Kind.WHOLE if plain and isinstance(value, int) and self._within(value):
                return value
            case Kind.NUMBER if plain and self._within(float(value)):  # type: ignore[arg-type]
                return float(value)  # type: ignore[arg-type]
        raise UsageError(f"The parameter {name} is {self.range}.")

    def _within(self, value: float) -> bool:
        return math.isfinite(value) and self.low <= value <= self.high


def _share(field: str, meaning: str, other: float) -> Setting:
    """A share of a budget: neither nothing nor all of it."""
    return Setting(field, Kind.NUMBER, meaning, other, 0.001, 0.999)


_COUNTS = Setting(
    *("counts", Kind.FLAG, "counts that add up beside the medians, and intervals of sums", False)
)
_PLACED = Setting(
    *("placed", Kind.NUMBER, "share of people that thin maps may place beyond guessing", 1.0, 0, 1)
)
_PLACED_LIVE = replace(_PLACED, meaning=f"{_PLACED.meaning}; 0: levels follow surroundings")
_NOISE = {
    "noise": Setting(
        "noise", Kind.NOISE, "kind of noise; best is the one of smaller variance", "gaussian"
    )
}
_CUTOFF = {
    "cutoff": Setting(
        *("cutoff", Kind.WHOLE, "c: most histograms of a window (of a night)", 3, 1, 100_000),
        unset="a quarter of the window's slots",
    )
}
_PROCESS = {
    "process": Setting(
        *("process", Kind.NUMBER, "Q: variance that a count drifts by in a slot", 3.0),
        *(1e-6, 1e12),
        unset="the mean people of a cell",
    ),
    "start": Setting(
        "start", Kind.NUMBER, "P0: the filter's first variance, in Q", 40.0, 1e-3, 1e9
    ),
}
_PID = {
    "proportional": Setting("proportional", Kind.NUMBER, "Cp of the controller", 0.7, 0, 100),
    "integral": Setting("integral", Kind.NUMBER, "Ci of the controller", 0.2, 0, 100),
    "derivative": Setting("derivative", Kind.NUMBER, "Cd of the controller", 0.1, 0, 100),
    "theta": Setting("theta", Kind.NUMBER, "how far one step moves the interval", 3.0, 0, 1000),
}
_FAST = {
    "ratio": Setting("ratio", Kind.NUMBER, "M/T: share of slots that are sampled", 0.5, 0.001, 1),
    **_PROCESS,
    **{name: replace(one, field=f"pid.{one.field}") for name, one in _PID.items()},
    "setpoint": Setting("pid.setpoint", Kind.NUMBER, "xi: error that is left as is", 0.2, 1e-6, 10),
    "memory": Setting("pid.memory", Kind.WHOLE, "Ti: errors that are summed", 2, 1, 1000),
}
_TREE = {
    "tree": _share("tree", "share of the budget for growing the tree; none with roads", 0.3),
    "margin": Setting(
        "margin", Kind.NUMBER, "standard errors by which a split must pay", 0.0, 0, 100
    ),
}
_THRESHOLD = Setting(
    *("threshold", Kind.WHOLE, "T: people that must have moved (L1)", 4, 1, 10**9),
    unset="a twentieth of the expected users",
)
_HYBRID = {
    "cutoff": replace(_CUTOFF["cutoff"], unset="an eighth of a day's slots"),
    "threshold": replace(_THRESHOLD, unset="`quiet` times the mean of the noisy distances"),
    "quiet": Setting(
        "quiet", Kind.NUMBER, "T of the night, in mean noisy distances", 0.5, 0.001, 100
    ),
    "division": _share("division", "share of the budget for dividing the day", 0.2),
    "distance": _share("distance", "share for the night's comparisons", 0.1),
    "day": _share("day", "share for the day's histograms; the night has the rest", 0.3),
    **_NOISE,
}
_DSAT = {
    "threshold": Setting(
        "threshold", Kind.NUMBER, "T: share of the people that must have moved", 0.1, 0, 2
    ),
    "share": Setting("share", Kind.NUMBER, "C/N: share of slots published", 0.4, 0.001, 1),
    "compare": _share("compare", "share of epsilon for comparing", 0.5),
}

PARAMETERS: Mapping[str, Mapping[str, Setting]] = MappingProxyType(
    {
        "comb": {
            "vectors": Setting(
                *("vectors", Kind.WHOLE, "vectors that are measured in a window", 2, 1, 100_000),
                unset="from what was published of busy cells; first from public facts",
            ),
            "memory": Setting("memory", Kind.WHOLE, "vectors that are kept", 16, 8, 96),
            **_NOISE,
        },
        "rhythm": {
            "snapshots": Setting(
                *("snapshots", Kind.WHOLE, "slots of a window that are measured", 2, 1, 100_000),
                unset="from epsilon and the expected people a cell",
            ),
            "memory": Setting("memory", Kind.WHOLE, "snapshots that are kept", 16, 8, 1024),
            "whole": Setting("whole", Kind.FLAG, "medians in whole people, not means", False),
            "counts": _COUNTS,
            "placed": _PLACED_LIVE,
            **_NOISE,
        },
        "smoother": {
            "parts": Setting(
                *("parts", Kind.WHOLE, "parts of a window whose means are measured", 2, 1, 10_000),
                unset="from epsilon, the expected people a cell, and the survey",
            ),
            "reach": Setting(
                *("reach", Kind.WHOLE, "windows before and after that a slot is read from"),
                *(1, 0, 30),
            ),
            "survey": _share(
                "survey", "share of the first window that tells how crowded cells are", 0.3
            ),
            **_NOISE,
        },
        "profile": {
            "parts": Setting(
                *("parts", Kind.WHOLE, "parts of the day whose means are measured", 2, 1, 10_000),
                unset="from epsilon and the expected people a cell",
            ),
            "whole": Setting("whole", Kind.FLAG, "medians in whole people, not means", False),
            "counts": _COUNTS,
            "placed": _PLACED,
            **_NOISE,
        },
        "zeros": {},
        "sample": _NOISE,
        "mean": _NOISE,
        "uniform": _NOISE,
        "direct": _NOISE,
        "threshold": {
            "threshold": _THRESHOLD,
            **_CUTOFF,
            "compare": _share("compare", "alpha: share of the budget for comparing", 0.4),
            **_NOISE,
        },
        "static-hybrid": {
            **_HYBRID,
            "by_score": Setting(
                *("by_score", Kind.FLAG, "divide by the exponential mechanism, T being public"),
                *(True,),
            ),
        },
        "dynamic-hybrid": {
            **_HYBRID,
            "division": replace(
                _HYBRID["division"],
                low=0,
                meaning="share for dividing the days; 0 with `earlier` days alone, as printed",
            ),
            "past": Setting(
                "past", Kind.WHOLE, "H: past days that the division is predicted from", 2, 1, 3660
            ),
        },
        "bd": {"test": _share("test", "share of epsilon for the tests", 0.8)},
        "ba": {"test": _share("test", "share of epsilon for the tests", 0.8)},
        "fast": {**_FAST, **_NOISE},
        "fast-particles": {
            **_FAST,
            "particles": Setting("particles", Kind.WHOLE, "particles of a cell", 16, 2, 10_000),
        },
        "dsft": _DSAT,
        "dsat": {
            **_DSAT,
            "tolerance": Setting(
                "tolerance", Kind.NUMBER, "delta: tolerated distance of C/N", 0.2, 1e-6, 1
            ),
            "theta": Setting("theta", Kind.NUMBER, "how far one step moves T", 0.1, 0, 100),
            "skip": Setting("skip", Kind.WHOLE, "M: slots left out at the start", 1, 0, 100_000),
        },
        "rescuedp": {
            **_PID,
            "growth": Setting(
                "growth",
                Kind.NUMBER,
                "phi: what is taken grows so with the interval",
                0.5,
                1e-3,
                10,
            ),
            "most_share": Setting(
                *("most_share", Kind.NUMBER, "p_max: most of what is left that a sample takes"),
                *(0.9, 0.001, 1),
            ),
            "most_of_all": Setting(
                *("most_of_all", Kind.NUMBER, "eps_max: most of the whole that a sample takes"),
                *(0.5, 0.001, 1),
            ),
            "alone_above": Setting(
                *("alone_above", Kind.NUMBER, "tau1: a region with more people stays alone"),
                *(10.0, 0, 1e12),
            ),
            "alike": Setting(
                "alike", Kind.NUMBER, "tau2: correlation from which regions are alike", 0.0, -1, 1
            ),
            "near": Setting(
                "near", Kind.NUMBER, "tau3: people by which a group's regions differ", 5.0, 0, 1e12
            ),
            "past": Setting("past", Kind.WHOLE, "kappa: releases that are remembered", 4, 2, 100),
            **_PROCESS,
        },
        "fan-temporal": {
            **_PROCESS,
            "dense": Setting("dense", Kind.NUMBER, "Q of dense cells, in Q", 1.5, 1e-6, 1e6),
            "sparse": Setting("sparse", Kind.NUMBER, "Q of sparse cells, in Q", 0.5, 1e-6, 1e6),
            **_NOISE,
        },
        "fan-spatial": {**_TREE, **_NOISE},
        "fan-combined": {**_TREE, **_PROCESS, **_NOISE},
        "tree": {},
        "toeplitz": {},
    }
)


def value_of(scheme: StreamScheme, setting: Setting) -> Any:
    """The value in force; `None` where public facts decide."""
    found: Any = scheme
    for name in setting.field.split("."):
        found = getattr(found, name)
    return found


def with_parameters(
    scheme: StreamScheme, name: str, given: Mapping[str, object] | None
) -> StreamScheme:
    """The scheme with some of its parameters at other values.

    Args:
        scheme: With its default settings.
        name: Its name in the registry.
        given: Parameter to value.

    Raises:
        UsageError: The scheme has no such parameter, or it cannot have that value.
    """
    known = PARAMETERS.get(name, {})
    unknown = sorted(set(given or {}) - set(known))
    if unknown:
        has = "; ".join(f"{one} ({setting.range})" for one, setting in known.items())
        raise UsageError(
            f"The scheme {name} has no parameter {', '.join(unknown)}.",
            remedy=f"It has {has}." if has else "It has none.",
        )
    for parameter, value in (given or {}).items():
        setting = known[parameter]
        scheme = _replaced(scheme, setting.field, setting.read(parameter, value))
    return scheme


def _replaced(thing: Any, path: str, value: object) -> Any:
    field, _, rest = path.partition(".")
    now = getattr(thing, field)
    if rest:
        return replace(thing, **{field: _replaced(now, rest, value)})
    if isinstance(now, Fraction):
        value = Fraction(repr(value))  # the decimal that was typed, exactly
    return replace(thing, **{field: value})


def shown(value: Any) -> Value:
    """A value as a manifest and a table show it."""
    if isinstance(value, Fraction):
        return float(value)
    return value.value if isinstance(value, NoiseKind) else value


def in_force(scheme: StreamScheme) -> dict[str, Value]:
    """Every parameter of a scheme with its value, for the manifest."""
    settings = PARAMETERS.get(scheme.name, {})
    return {
        name: f"by public facts: {setting.unset}"
        if (value := value_of(scheme, setting)) is None
        else shown(value)
        for name, setting in settings.items()
    }
