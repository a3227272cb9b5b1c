"""One location, sanitised where it was measured: the local model, in which nobody is trusted.

    lon, lat = sanitise_location(2.3522, 48.8566, expected_noise_m=200)

The randomness is the operating system's. Each call about the same person adds its epsilon
to all earlier ones: a place reported a hundred times is known to a few metres. Keep a
`RollingBudget` (see `budget`) on the device and ask it first.
"""

from __future__ import annotations

import numpy as np

from sfumato.privacy.noise import SystemStream
from sfumato.traces.lattice import Lattice
from sfumato.traces.level import Strength
from sfumato.traces.planar_laplace import planar_laplace


def sanitise_location(
    lon: float,
    lat: float,
    *,
    expected_noise_m: float | None = None,
    radius_m: float | None = None,
    level: float | None = None,
    lattice: Lattice | None = None,
) -> tuple[float, float]:
    """A report of (lon, lat) in degrees that is epsilon-geo-indistinguishable.

    epsilon is 2 / `expected_noise_m`, or `level` / `radius_m`, per metre.
    """
    from sfumato.model.errors import UsageError

    if expected_noise_m is not None and radius_m is None and level is None:
        wanted = Strength.from_noise(expected_noise_m)
    elif expected_noise_m is None and radius_m is not None and level is not None:
        wanted = Strength.from_level(level, radius_m)
    else:
        raise UsageError("Give expected_noise_m, or radius_m together with level.")
    noisy = planar_laplace(
        np.array([lon]), np.array([lat]), wanted, SystemStream(), lattice=lattice
    )
    return float(noisy[0][0]), float(noisy[1][0])
