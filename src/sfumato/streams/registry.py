"""The stream schemes by name, and how reservations spell their settings.

Everything here may be published; the printed forms are not here.

The spelling is that of the scheme's dataclass: every field by its name. A stream is resumed with
the same settings or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.errors import UsageError
from sfumato.model.extensions import Registry, offers
from sfumato.privacy.events import UnitKind
from sfumato.privacy.ledger.claims import CODE
from sfumato.streams.facts import StreamFacts
from sfumato.streams.parameters import shown, value_of, with_parameters
from sfumato.streams.scheme import StreamScheme
from sfumato.streams.schemes.baselines import Direct, Mean, Sample, Zeros
from sfumato.streams.schemes.comb.scheme import DENSE, Comb
from sfumato.streams.schemes.counters import Counter
from sfumato.streams.schemes.profile import Profile
from sfumato.streams.schemes.rhythm.scheme import Rhythm
from sfumato.streams.schemes.smoother.scheme import Smoother

DEFAULT = "comb"
THIN = "rhythm"
FINISHED = "smoother"
THIN_FINISHED = "profile"
_THIN = DENSE
"""People a cell below which `comb` tells so well where somebody stays day after day that
trajectories are recovered from it: 3 to 20 points above who knows all others and nothing of the
person, where `rhythm` is at most 3 above (docs/attacks.md). From here on it is below that line."""
_FEW_WINDOWS = 5
"""From so many windows on `rhythm` has learned enough to be better than `profile`."""

SCHEMES: Registry[StreamScheme] = Registry(
    "stream scheme",
    {
        scheme.name: scheme
        for scheme in (
            Comb(),
            Rhythm(counts=True),
            Smoother(),
            Profile(counts=True),
            Zeros(),
            Sample(),
            Mean(),
            Direct(),
            Counter(root=False),
            Counter(),
        )
    },
)
"""The product's own with their default settings, and what others offer."""


def stream_scheme(name: str, parameters: Mapping[str, object] | None = None) -> StreamScheme:
    """The scheme of that name, with its default settings but for `parameters`.

    Raises:
        UsageError: There is no such scheme, or it has no such parameter.
    """
    if name not in SCHEMES:
        raise UsageError(
            f"There is no scheme {name!r}.", remedy=f"Choose from {', '.join(SCHEMES)}."
        )
    scheme = SCHEMES[name]
    if not hasattr(scheme, "__dataclass_fields__") or scheme.name != name:
        raise UsageError(f"What is offered as {name} is no frozen dataclass of this `name`.")
    return with_parameters(scheme, parameters)


def default_name(facts: StreamFacts, finished: bool) -> str:
    """The default: `comb`, or `smoother` for a finished history. Where cells hold so few people
    that many days of these would tell them apart, or nobody says how many there are: `rhythm`, or
    `profile` for a finished history of few windows.

    Under a window that slides `smoother` cannot be: its parts belong to windows that do not.
    """
    dense = (facts.expected_users or 0) >= _THIN * facts.cells
    kind = facts.unit.kind
    if finished and dense and kind in (UnitKind.USER_DAY, UnitKind.USER_PERIOD):
        return FINISHED
    if finished and kind is not UnitKind.W_EVENT and facts.windows < _FEW_WINDOWS:
        return THIN_FINISHED
    return DEFAULT if dense else THIN


def code_of(scheme: StreamScheme) -> dict[str, Any]:
    """What a reservation holds of the code of a scheme that is not the product's own."""
    provenance = SCHEMES.provenance(scheme.name)
    return {CODE: provenance} if provenance else {}


def settings_of(scheme: StreamScheme) -> dict[str, Any]:
    """What a reservation holds of the scheme's settings: every field of its dataclass."""
    spelled: dict[str, Any] = _spelled(scheme)
    return spelled


def _spelled(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _spelled(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_spelled(part) for part in value]
    return str(value) if isinstance(value, Fraction | Enum) else value


def schemes_text() -> str:
    """Every scheme with its purpose, its parameters, their defaults and ranges."""
    lines = []
    for name in SCHEMES:
        try:
            scheme = stream_scheme(name)
        except UsageError as error:
            lines += [name, f"  {error.problem}"]
            continue
        declared = scheme.declares
        lines += [name, f"  {purpose_of(name)}"]
        if declared.needs:
            lines.append(f"  It needs {' and '.join(declared.needs)}.")
        if declared.states:
            lines.append(f"  It can state {', '.join(declared.states)}.")
        if declared.little:
            lines.append(f"  Of little use: {declared.little}.")
        for parameter, setting in declared.parameters.items():
            value = value_of(scheme, setting)
            default = setting.unset if value is None else shown(value)
            default = str(default).lower() if isinstance(default, bool) else default
            lines.append(f"  {parameter}: {setting.meaning}")
            lines.append(f"      {setting.range}; default: {default}")
    return "\n".join(lines)


def purpose_of(name: str) -> str:
    """What a scheme is for: in its declaration, or in the table of whoever offers it."""
    offered = offers(SCHEMES.kind)
    return SCHEMES[name].declares.purpose if name in SCHEMES.own else offered[name].help
