"""Independent noise: every fix is reported with fresh planar Laplace noise.

Claim. Unit: one trace, given the instants of its fixes, which are published as they are. Two
traces with the same n instants and fixes at distances d_1 … d_n are told apart by at most
epsilon (d_1 + … + d_n) <= n epsilon max d: noise does not add up to protection, it averages
out. A user who does not move is found to 2.7 m from 1,000 reports at 100 m of noise.
"""

from __future__ import annotations

import numpy as np

from sfumato.privacy.noise import BitStream
from sfumato.traces.lattice import Lattice
from sfumato.traces.level import Strength
from sfumato.traces.model import Traces
from sfumato.traces.planar_laplace import Earth, planar_laplace


def first_of_each(traces: Traces, most: int | None) -> Traces:
    """At most the first `most` fixes of every user in time: a public bound, given beforehand."""
    if most is None or len(traces) == 0:
        return traces
    order = np.lexsort((traces.time, traces.user))
    user = traces.user[order]
    begins = np.flatnonzero(np.diff(user, prepend=user[0] - 1))
    lengths = np.diff(np.append(begins, user.size))
    rank = np.arange(user.size) - np.repeat(begins, lengths)
    kept = np.zeros(user.size, np.bool_)
    kept[order] = rank < most
    return traces.pick(kept)


def independent(
    traces: Traces,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
    earth: Earth = "sphere",
) -> Traces:
    """The same fixes with noise of their own each."""
    lon, lat = planar_laplace(
        traces.lon, traces.lat, strength, stream, lattice=lattice, earth=earth
    )
    return traces.at(lon, lat)
