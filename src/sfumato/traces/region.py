"""Reports that land outside the public region: keep, clamp or drop, never draw again.

All three look at the noisy location alone and are free. Drawing again until a report is
inside is not: its normaliser depends on where the true location is. Near a corner that can add
0.86 to a loss of 1.41, and in general up to as much again as was stated.

One location, sanitised where it was measured: the local model, in which nobody is trusted.

    lon, lat = sanitise_location(2.3522, 48.8566, expected_noise_m=200)

The randomness is the operating system's. Each call about the same person adds its epsilon
to all earlier ones: a place reported a hundred times is known to a few metres. Keep a
`RollingBudget` (see `budget`) on the device and ask it first.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.traces import Box, Traces
from sfumato.privacy.noise import SystemStream
from sfumato.privacy.noise.planar import Lattice, Strength, planar_laplace

__all__ = ["Box", "Outside", "apply", "sanitise_location"]


class Outside(StrEnum):
    KEEP = "keep"
    """Publish it where it is."""
    CLAMP = "clamp"
    """Move it to the nearest point of the region, where such reports pile up."""
    DROP = "drop"
    """Leave it out; its time stamp goes with it."""


def apply(policy: Outside, box: Box | None, reports: Traces) -> Traces:
    """The reports after the policy."""
    if policy is Outside.KEEP:
        return reports
    if box is None:
        raise UsageError("Clamping and dropping need a public --region.")
    if policy is Outside.CLAMP:
        return reports.at(*box.clamp(reports.lon, reports.lat))
    return reports.pick(box.inside(reports.lon, reports.lat))


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
    from sfumato.errors import UsageError

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
