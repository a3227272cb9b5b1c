"""How reservations spell the settings of a stream's scheme: frozen, see `ledger.canonical`.

The names and fields are those of the first version. A class that is renamed keeps its row here;
a new scheme gets a row with the name and the fields it has when it is first released.
"""

from __future__ import annotations

from sfumato.privacy.ledger.canonical import Frozen, spelled
from sfumato.stream.contract import StreamScheme
from sfumato.stream.noise import NoiseKind
from sfumato.stream.schemes.baselines import Mean, Sample, Zeros
from sfumato.stream.schemes.counters import Counter
from sfumato.stream.schemes.direct import Direct
from sfumato.stream.schemes.dsat import Dsat
from sfumato.stream.schemes.fan import FanSpatial, FanTemporal
from sfumato.stream.schemes.fast import Fast, Pid
from sfumato.stream.schemes.hybrid import Hybrid
from sfumato.stream.schemes.profile import Profile
from sfumato.stream.schemes.rescue.scheme import Rescue
from sfumato.stream.schemes.rhythm.scheme import Rhythm
from sfumato.stream.schemes.threshold import Threshold
from sfumato.stream.schemes.w_event import WEvent

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
