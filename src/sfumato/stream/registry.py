"""The schemes by name. Everything here may be published; the printed forms are not here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sfumato.model.errors import UsageError
from sfumato.privacy.units import UnitKind
from sfumato.stream.contract import StreamScheme
from sfumato.stream.facts import StreamFacts
from sfumato.stream.schemes.baselines import Mean, Sample, Zeros
from sfumato.stream.schemes.counters import Counter
from sfumato.stream.schemes.direct import Direct
from sfumato.stream.schemes.dsat import Dsat
from sfumato.stream.schemes.fan import FanSpatial, FanTemporal
from sfumato.stream.schemes.fast import Fast
from sfumato.stream.schemes.hybrid import Hybrid
from sfumato.stream.schemes.profile import Profile
from sfumato.stream.schemes.rescue.scheme import Rescue
from sfumato.stream.schemes.rhythm.scheme import Rhythm
from sfumato.stream.schemes.threshold import Threshold
from sfumato.stream.schemes.w_event import WEvent

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
