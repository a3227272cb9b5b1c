"""Planar Laplace noise (Andrés et al. 2013) on the sphere, with the density right everywhere.

Claim. Unit: one location. For any two locations x, x' and any set of reports, the
probabilities differ at most by e^(epsilon max(d, u)), d the distance on the sphere and u the
lattice step (about a metre). In exact arithmetic: the radius has density
epsilon^2 r e^(-epsilon r) and is accepted with chance sin(r/R) / (r/R), so a report z has
density c e^(-epsilon d(x, z)) per square metre of the sphere, with one constant c for all x
since the sphere looks the same from everywhere; the triangle inequality gives epsilon d. What
finite precision adds is in `lattice`, and the stated epsilon includes it.

On the WGS84 ellipsoid the same latitude and longitude are read as a sphere of mean radius.
Distances between two points then differ by the factor `ELLIPSOID_FACTOR` at most (from the
least and largest radii of curvature), so per metre of *ellipsoid* the loss is at most
1.0057 epsilon, and the mean noise is within 0.6 % of the nominal at every latitude.
`earth="ellipsoid"` steps along ellipsoidal geodesics instead, for comparison with published
figures; there the density is uneven by K r^2 / 6 (K the curvature), 4e-9 at 1 km.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.privacy.noise import BitStream
from sfumato.traces.kernels import EARTH_RADIUS_M, fill_polar, step_on_sphere
from sfumato.traces.lattice import Lattice
from sfumato.traces.level import Strength

Floats = NDArray[np.float64]
Earth = Literal["sphere", "ellipsoid"]

_A, _E2 = 6_378_137.0, 0.006_694_379_990_141_316
LEAST_CURVATURE_M = _A * (1 - _E2)
ELLIPSOID_FACTOR = EARTH_RADIUS_M / LEAST_CURVATURE_M
"""No two points are farther apart on the sphere than so many times the ellipsoid's distance."""


def polar(size: int, per_metre: float, stream: BitStream) -> tuple[Floats, Floats]:
    """Radii in metres and azimuths in radians; ten and ten more are the same as twenty."""
    radius, azimuth = np.empty(size), np.empty(size)

    def step(digits: NDArray[np.uint16], at: NDArray[np.int64], done: int) -> int:
        return int(fill_polar(radius, azimuth, done, 1.0 / per_metre, digits, at))

    stream.consume(size, step)
    return radius, azimuth


def move(
    lon: Floats, lat: Floats, radius: Floats, azimuth: Floats, earth: Earth = "sphere"
) -> tuple[Floats, Floats]:
    """The points so far away in these directions."""
    if earth == "ellipsoid":
        import pyproj

        geod = pyproj.Geod(ellps="WGS84")
        found = geod.fwd(lon, lat, np.degrees(azimuth), radius, return_back_azimuth=False)
        return np.asarray(found[0], np.float64), np.asarray(found[1], np.float64)
    to_lon, to_lat = np.array(lon, np.float64), np.array(lat, np.float64)
    step_on_sphere(to_lon, to_lat, radius, azimuth)
    return to_lon, to_lat


def check_degrees(lon: Floats, lat: Floats) -> None:
    """Refuse what is not on the globe; never says what it was."""
    if lon.shape != lat.shape or lon.ndim != 1:
        raise UsageError("Longitudes and latitudes come in two lists of one length.")
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise UsageError("A coordinate is missing or not finite.")
    if np.abs(lon).max(initial=0.0) > 360.0 or np.abs(lat).max(initial=0.0) > 90.0:
        raise UsageError(
            "A coordinate is not in degrees.",
            remedy="Longitude lies between -180 and 180, latitude between -90 and 90.",
        )


def planar_laplace(
    lon: Floats,
    lat: Floats,
    strength: Strength,
    stream: BitStream,
    *,
    lattice: Lattice | None = None,
    earth: Earth = "sphere",
) -> tuple[Floats, Floats]:
    """A noisy report of every location, on the public lattice, each at the stated strength."""
    lon, lat = np.asarray(lon, np.float64), np.asarray(lat, np.float64)
    check_degrees(lon, lat)
    on = lattice or Lattice()
    radius, azimuth = polar(lon.size, on.drawn_per_metre(strength.per_metre), stream)
    return on.snap(*move(lon, lat, radius, azimuth, earth))
