"""The stream schemes by name, and how reservations spell their settings.

Everything here may be published; the printed forms are not here.

The spelling is frozen (see `privacy.ledger.chain`): the names and fields are those of the first
version. A class that is renamed keeps its row here; a new scheme gets a row with the name and the
fields it has when it is first released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sfumato.errors import UsageError
from sfumato.privacy.events import UnitKind
from sfumato.privacy.ledger.chain import Frozen, spelled
from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import NoiseKind, StreamScheme
from sfumato.streams.schemes.baselines import Direct, Mean, Sample, Zeros
from sfumato.streams.schemes.counters import Counter
from sfumato.streams.schemes.dsat import Dsat
from sfumato.streams.schemes.fan import FanSpatial, FanTemporal
from sfumato.streams.schemes.fast import Fast, Pid
from sfumato.streams.schemes.hybrid import Hybrid
from sfumato.streams.schemes.profile import Profile
from sfumato.streams.schemes.rescuedp import Rescue
from sfumato.streams.schemes.rhythm.scheme import Rhythm
from sfumato.streams.schemes.threshold import Threshold
from sfumato.streams.schemes.w_event import WEvent

DEFAULT = "rhythm"
FINISHED = "profile"
_FEW_WINDOWS = 5
"""From so many windows on `rhythm` has learned enough to be better than `profile`."""

_SCHEMES: dict[str, Callable[[], StreamScheme]] = {
    "rhythm": Rhythm,
    "profile": Profile,
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
    "tree": lambda: Counter(root=False),
    "toeplitz": Counter,
}

NAMES = tuple(_SCHEMES)


def stream_scheme(name: str) -> StreamScheme:
    """The scheme of that name with its default settings."""
    if name not in _SCHEMES:
        raise UsageError(f"There is no scheme {name!r}.", remedy=f"Choose from {', '.join(NAMES)}.")
    return _SCHEMES[name]()


def default_name(facts: StreamFacts, finished: bool) -> str:
    """The default: `rhythm`, or `profile` for a finished history of few windows.

    Under a window that slides `profile` cannot be: its parts belong to windows that do not.
    """
    fixed = facts.unit.kind is not UnitKind.W_EVENT
    return FINISHED if finished and fixed and facts.windows < _FEW_WINDOWS else DEFAULT


FROZEN: Frozen = {
    NoiseKind: ("NoiseKind", ()),
    Rhythm: ("Rhythm", ("snapshots", "whole", "noise", "name", "finished")),
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
