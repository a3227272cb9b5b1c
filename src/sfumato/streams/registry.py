"""The stream schemes by name, and how reservations spell their settings.

Everything here may be published; the printed forms are not here.

The spelling is frozen (see `privacy.ledger.chain`): the names and fields are those of the first
version. A class that is renamed keeps its row here; a new scheme gets a row with the name and the
fields it has when it is first released. A field that came later is in no row: where it is not at
its default, `later_settings` names it in the reservation, so that what was paid before there was
such a field goes on, and nothing is resumed with another value of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.events import UnitKind
from sfumato.privacy.ledger.chain import Frozen, spelled
from sfumato.streams.facts import StreamFacts
from sfumato.streams.parameters import PARAMETERS, shown, value_of, with_parameters
from sfumato.streams.scheme import NoiseKind, StreamScheme
from sfumato.streams.schemes.baselines import Direct, Mean, Sample, Zeros
from sfumato.streams.schemes.comb.scheme import DENSE, Comb
from sfumato.streams.schemes.counters import Counter
from sfumato.streams.schemes.dsat import Dsat
from sfumato.streams.schemes.fan import FanSpatial, FanTemporal
from sfumato.streams.schemes.fast import Fast, Pid
from sfumato.streams.schemes.hybrid import Hybrid
from sfumato.streams.schemes.profile import Profile
from sfumato.streams.schemes.rescuedp import Rescue
from sfumato.streams.schemes.rhythm.scheme import Rhythm
from sfumato.streams.schemes.smoother.scheme import Smoother
from sfumato.streams.schemes.threshold import Threshold
from sfumato.streams.schemes.w_event import WEvent

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

_SCHEMES: dict[str, Callable[[], StreamScheme]] = {
    "comb": Comb,
    "rhythm": lambda: Rhythm(counts=True),
    "smoother": Smoother,
    "profile": lambda: Profile(counts=True),
    "zeros": Zeros,
    "sample": Sample,
    "mean": Mean,
    "uniform": lambda: replace(Direct(), name="uniform"),
    "direct": Direct,
    "threshold": Threshold,
    "static-hybrid": lambda: Hybrid(finished=True),
    "dynamic-hybrid": lambda: Hybrid(finished=False),
    "bd": lambda: WEvent(absorb=False),
    "ba": lambda: WEvent(absorb=True),
    "fast": Fast,
    "fast-particles": lambda: Fast(particles=64),
    "dsft": lambda: Dsat(adaptive=False),
    "dsat": Dsat,
    "rescuedp": Rescue,
    "fan-temporal": FanTemporal,
    "fan-spatial": FanSpatial,
    "fan-combined": lambda: FanSpatial(name="fan-combined", filtered=True),
    "tree": lambda: Counter(root=False),
    "toeplitz": Counter,
}

NAMES = tuple(_SCHEMES)
LATER: dict[str, tuple[str, object]] = {"rhythm": ("counts", False), "profile": ("counts", False)}
"""Parameters whose default is another one now: what a stream has that was begun without them."""


def stream_scheme(name: str, parameters: Mapping[str, object] | None = None) -> StreamScheme:
    """The scheme of that name, with its default settings but for `parameters`.

    Raises:
        UsageError: There is no such scheme, or it has no such parameter.
    """
    if name not in _SCHEMES:
        raise UsageError(f"There is no scheme {name!r}.", remedy=f"Choose from {', '.join(NAMES)}.")
    return with_parameters(_SCHEMES[name](), name, parameters)


def as_begun(
    name: str, given: Mapping[str, object] | None, begun: Mapping[str, str] | None
) -> Mapping[str, object] | None:
    """The parameters given, and those of a stream that was begun before their default changed.

    Args:
        name: The scheme's.
        given: Parameter to value, as asked for now.
        begun: What the reservation holds of settings that came later; none for a new stream.
    """
    later, old = LATER.get(name, ("", None))
    if begun is None or not later or later in begun:
        return given
    return {later: old, **(given or {})}


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


FROZEN: Frozen = {
    NoiseKind: ("NoiseKind", ()),
    Comb: ("Comb", ("vectors", "memory", "noise", "name", "finished")),
    Rhythm: ("Rhythm", ("snapshots", "whole", "noise", "name", "finished")),
    Smoother: ("Smoother", ("parts", "reach", "survey", "noise", "name", "finished")),
    Profile: ("Profile", ("parts", "whole", "noise", "name", "finished")),
    Zeros: ("Zeros", ("name", "finished")),
    Sample: ("Sample", ("noise", "name", "finished")),
    Mean: ("Mean", ("noise", "name", "finished")),
    Direct: ("Direct", ("noise", "name", "finished")),
    Threshold: ("Threshold", ("threshold", "cutoff", "noise", "name", "finished")),
    Hybrid: ("Hybrid", ("finished", "cutoff", "noise", "by_score")),
    WEvent: ("WEvent", ("absorb", "finished")),
    Fast: ("Fast", ("ratio", "process", "particles", "pid", "noise", "finished")),
    Pid: ("Pid", ("proportional", "integral", "derivative", "theta", "setpoint", "memory")),
    Dsat: (
        "Dsat",
        ("adaptive", "threshold", "tolerance", "theta", "share", "skip", "compare", "finished"),
    ),
    Rescue: (
        "Rescue",
        (
            *("proportional", "integral", "theta", "growth", "most_share", "most_of_all"),
            *("alone_above", "alike", "near", "process", "name", "finished"),
        ),
    ),
    FanTemporal: ("FanTemporal", ("process", "noise", "name", "finished")),
    FanSpatial: ("FanSpatial", ("noise", "name", "finished")),
    Counter: ("Counter", ("root", "finished")),
}


def settings_text(scheme: StreamScheme) -> str:
    """What a reservation holds of the scheme's settings."""
    return spelled(scheme, FROZEN)


def later_settings(scheme: StreamScheme) -> dict[str, str]:
    """Fields that came after the frozen spelling, where they are not at their defaults."""
    frozen: Any = scheme
    _, known = FROZEN[type(scheme)]
    return {
        field.name: spelled(value, FROZEN)
        for field in fields(frozen)
        if field.name not in known and (value := getattr(scheme, field.name)) != field.default
    }


def schemes_text() -> str:
    """Every scheme with its parameters, their defaults and ranges, as `stream --schemes` prints."""
    lines = []
    for name in NAMES:
        scheme = stream_scheme(name)
        lines.append(name)
        for parameter, setting in PARAMETERS.get(name, {}).items():
            value = value_of(scheme, setting)
            default = setting.unset if value is None else shown(value)
            default = str(default).lower() if isinstance(default, bool) else default
            lines.append(f"  {parameter}: {setting.meaning}")
            lines.append(f"      {setting.range}; default: {default}")
    return "\n".join(lines)
