"""What stream schemes declare: parameters with names, ranges and meanings, needs, statements.

Every constant that shapes what a scheme measures or how it filters is a field of the scheme's
class, where its default stands; its declaration beside it gives the name by which
`--parameter name=value` sets it, the range that is allowed, and what it means. `stream --schemes`
prints declarations, the manifest lists the values in force, and the audit tries each at another
value.

A parameter is public: it is chosen without looking at the data, and a reservation holds it (see
`registry.settings_of`). None of them can spend more than epsilon: shares say how one budget is
divided, numbers of measurements how thin it is spread, and the rest is post-processing.

The length w of a window is no parameter of a scheme but the unit itself (`unit="w-event:48"`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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


def share(field: str, meaning: str, other: float) -> Setting:
    """A share of a budget: neither nothing nor all of it."""
    return Setting(field, Kind.NUMBER, meaning, other, 0.001, 0.999)


NOISE: Mapping[str, Setting] = MappingProxyType(
    {
        "noise": Setting(
            "noise", Kind.NOISE, "kind of noise; best is the one of smaller variance", "gaussian"
        )
    }
)
"""Of most schemes."""


class Need(StrEnum):
    """What a scheme cannot be planned without."""

    DELTA = "a delta"
    USERS = "the expected users"
    NEIGHBOURS = "a grid or `adjacency`"
    APART = "windows that do not slide"


class States(StrEnum):
    """What a scheme can state beside its counts; its plan says what it states of given facts."""

    MEDIAN = "medians"
    INTERVALS = "intervals"
    SUMS = "intervals of a slot's sum"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a scheme says of itself, so that no list elsewhere has to name it."""

    purpose: str = ""
    """What it is for, in a line; that of another distribution stands in its table of offers."""
    parameters: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    reads: tuple[str, ...] = ()
    """Public inputs that it has a use for: roads, adjacency, earlier, holidays, begins."""
    needs: tuple[Need, ...] = ()
    states: tuple[States, ...] = ()
    judged: bool = False
    """Whether its signal tells if a stream is of use (`streams.fitness`)."""
    together: bool = False
    """All its rows are charged as one event, and none has a sensitivity of its own."""
    little: str = ""
    """Why what it publishes is of little use, as far as that is known of it."""


def value_of(scheme: StreamScheme, setting: Setting) -> Any:
    """The value in force; `None` where public facts decide."""
    found: Any = scheme
    for name in setting.field.split("."):
        found = getattr(found, name)
    return found


def with_parameters(scheme: StreamScheme, given: Mapping[str, object] | None) -> StreamScheme:
    """The scheme with some of its parameters at other values.

    Args:
        scheme: With its default settings.
        given: Parameter to value.

    Raises:
        UsageError: The scheme has no such parameter, or it cannot have that value.
    """
    name, known = scheme.name, scheme.declares.parameters
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
    return {
        name: f"by public facts: {setting.unset}"
        if (value := value_of(scheme, setting)) is None
        else shown(value)
        for name, setting in scheme.declares.parameters.items()
    }
