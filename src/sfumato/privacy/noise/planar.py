"""Planar Laplace noise (Andrés et al. 2013) on the sphere: its strength, law and public lattice.

*Strength.* A level l within a radius r means that two points at most r apart change every
probability by at most a factor e^l, so epsilon = l / r per metre. The radius of the noise has mean
2 / epsilon: an *expected noise* of 100 m is epsilon 0.02 per metre.

*Law.* Unit: one location. For any two locations x, x' and any set of reports, the probabilities
differ at most by e^(epsilon max(d, u)), d the distance on the sphere and u the lattice step
(about a metre). In exact arithmetic: the radius has density epsilon^2 r e^(-epsilon r) and is
accepted with chance sin(r/R) / (r/R), so a report z has density c e^(-epsilon d(x, z)) per square
metre of the sphere, with one constant c for all x since the sphere looks the same from everywhere;
the triangle inequality gives epsilon d. On the WGS84 ellipsoid the same latitude and longitude are
read as a sphere of mean radius. Distances between two points then differ by the factor
`ELLIPSOID_FACTOR` at most (from the least and largest radii of curvature), so per metre of
*ellipsoid* the loss is at most 1.0057 epsilon, and the mean noise is within 0.6 % of the nominal at
every latitude.

*Lattice.* Noise computed in floating point has low bits that depend on the true location. So
every report is moved to a fixed lattice: rows every 1/`per_degree` degree of latitude, and in each
row points every `step` such units of longitude, where `step` is the least divisor of the full
circle that keeps a cell at least half as wide as it is high. The row alone decides the step, so the
lattice is public and its cells have a side of about a metre (at the default 100,000 rows a degree)
from the equator to the poles.

*Finite precision* (in the manner of Andrés et al. 2013, section 5). Couple each draw with the one
that exact arithmetic would have made from the same bits continued without end: the two reports,
before snapping, are at most `TAU_M` apart (bound below, measured against 50-digit arithmetic in
the tests). A cell C of least side u is therefore reported with a probability between those of C
shrunk and of C grown by TAU_M under the exact law. The frame between the two has at most the share
4 q (1 + q) of the cell's area, q = TAU_M / u, and the exact density varies within a cell and its
frame by at most e^(epsilon D), D the diameter of the grown cell. So every probability is within a
factor 1 ± s of the exact one, s = 4 q (1 + q) e^(epsilon D), and

    loss <= epsilon' d + eta,   eta = ln((1 + s) / (1 - s)).

We draw with epsilon' = epsilon - eta / u: the stated loss epsilon * max(d, u) is then kept, u
being the lattice step. On the default lattice eta is below 1e-5. TAU_M: azimuth and radius carry
53 bits, 1.6e-16 of a turn and of the radius (at most half the circumference, 2.0e7 m), the
exponentials 2^-48 of the scale (at most 500 km), and about fifteen roundings of 1.1e-16 of the
Earth's radius in the step: together below 5e-8 m.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.sphere import EARTH_RADIUS_M, fill_polar, snap, step_on_sphere
from sfumato.privacy.noise import BitStream

_LENGTH = re.compile(r"(?P<number>[0-9]+([.][0-9]+)?)\s*(?P<unit>m|km)?")
_TIME = re.compile(r"(?P<number>[0-9]+)\s*(?P<unit>s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
LEAST_NOISE_M = 5.0
"""Below a few metres the public lattice itself, about a metre wide, is the larger error."""
MOST_NOISE_M = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Strength:
    """Privacy loss per metre of distance between two locations."""

    per_metre: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.per_metre) and self.per_metre > 0):
            raise UsageError("A privacy level is finite and positive.")
        if not LEAST_NOISE_M <= self.expected_noise_m <= MOST_NOISE_M:
            raise UsageError(
                f"The expected noise must lie between {LEAST_NOISE_M:g} m and "
                f"{MOST_NOISE_M / 1000:g} km."
            )

    @property
    def expected_noise_m(self) -> float:
        """Mean distance between a location and its report, in metres."""
        return 2.0 / self.per_metre

    def level_within(self, radius_m: float) -> float:
        """The loss between two points so far apart."""
        return self.per_metre * radius_m

    @classmethod
    def from_noise(cls, expected_noise_m: float) -> Strength:
        if not (math.isfinite(expected_noise_m) and expected_noise_m > 0):
            raise UsageError("The expected noise is a positive number of metres.")
        return cls(2.0 / expected_noise_m)

    @classmethod
    def from_level(cls, level: float, radius_m: float) -> Strength:
        if not (math.isfinite(radius_m) and radius_m > 0):
            raise UsageError("The radius is a positive number of metres.")
        return cls(level / radius_m)


def parse_metres(text: str | float) -> float:
    """`100m`, `1.5km` or a plain number of metres."""
    match = _LENGTH.fullmatch(str(text).strip())
    if match is None:
        raise UsageError(f"{text!r} is not a distance.", remedy="Write 100m or 1.5km.")
    return float(match["number"]) * (1000.0 if match["unit"] == "km" else 1.0)


def parse_level(text: str | float) -> float:
    """`ln4` or a plain number."""
    bare = str(text).strip().lower()
    try:
        value = math.log(float(bare.removeprefix("ln"))) if bare.startswith("ln") else float(bare)
    except ValueError:
        raise UsageError(f"{text!r} is not a level.", remedy="Write ln4 or 1.39.") from None
    if not (math.isfinite(value) and value > 0):
        raise UsageError("A level is positive: ln4 is about 1.39.")
    return value


def parse_seconds(text: str) -> int:
    """`30s`, `5min`, `1h` or `1d`, in seconds."""
    match = _TIME.fullmatch(text.strip())
    if match is None or int(match["number"]) == 0:
        raise UsageError(f"{text!r} is not a length of time.", remedy="Write 5min or 1h.")
    return int(match["number"]) * _SECONDS[match["unit"]]


def strength(
    expected_noise: str | float | None, radius: str | float | None, level: str | float | None
) -> Strength:
    """What `expected_noise`, or `radius` with `level`, ask for."""
    if (expected_noise is None) == (radius is None and level is None):
        raise UsageError(
            "The strength of the noise must be given, once.",
            remedy="Give `expected_noise='100m'`, or `radius='200m', level='ln4'`.",
        )
    if expected_noise is not None:
        return Strength.from_noise(parse_metres(expected_noise))
    if radius is None or level is None:
        raise UsageError("A `radius` needs a `level`, and a level a radius.")
    return Strength.from_level(parse_level(level), parse_metres(radius))


TAU_M = 5e-8
"""Largest distance between a report before snapping and its exact counterpart, in metres."""
PER_DEGREE = (1_000, 10_000, 100_000)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lattice:
    """Whole numbers of 1/`per_degree` degree; see the module for the steps of longitude."""

    per_degree: int = 100_000

    def __post_init__(self) -> None:
        if self.per_degree not in PER_DEGREE:
            raise UsageError(
                "The lattice has 1000, 10000 or 100000 rows a degree.",
                remedy="The default, 100000, is about a metre.",
            )

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """Divisors of the full circle, ascending."""
        around = 360 * self.per_degree
        small = [d for d in range(1, math.isqrt(around) + 1) if around % d == 0]
        return np.array(sorted({*small, *(around // d for d in small)}), dtype=np.int64)

    @property
    def step_m(self) -> float:
        """Height of a cell in metres: one step of latitude."""
        return math.radians(1.0 / self.per_degree) * EARTH_RADIUS_M

    def snap(self, lon: Floats, lat: Floats) -> tuple[Floats, Floats]:
        """The nearest lattice point of each location, in degrees."""
        row, column = np.empty(lon.size, np.int64), np.empty(lon.size, np.int64)
        snap(lon, lat, self.per_degree, self.steps, row, column)
        return column / self.per_degree, row / self.per_degree

    def excess(self, per_metre: float) -> float:
        """eta: what finite precision adds to any loss, whatever the distance."""
        side = 0.25 * self.step_m  # half a step wide, half of that at the rows around a pole
        q = TAU_M / side
        diameter = math.hypot(self.step_m, 1.5 * self.step_m) + 4 * TAU_M
        s = 4 * q * (1 + q) * math.exp(min(per_metre * diameter, 30.0))
        if s >= 0.5:
            raise UsageError("The noise is too fine for this lattice.")
        return math.log1p(s) - math.log1p(-s)

    def drawn_per_metre(self, per_metre: float) -> float:
        """epsilon': what is drawn with, so that the stated epsilon includes the correction."""
        drawn = per_metre - self.excess(per_metre) / self.step_m
        if drawn <= 0:
            raise UsageError(
                "Noise so strong needs a coarser lattice.", remedy="Choose fewer rows a degree."
            )
        return drawn


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


def move(lon: Floats, lat: Floats, radius: Floats, azimuth: Floats) -> tuple[Floats, Floats]:
    """The points so far away in these directions, along great circles."""
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
) -> tuple[Floats, Floats]:
    """A noisy report of every location, on the public lattice, each at the stated strength."""
    lon, lat = np.asarray(lon, np.float64), np.asarray(lat, np.float64)
    check_degrees(lon, lat)
    on = lattice or Lattice()
    radius, azimuth = polar(lon.size, on.drawn_per_metre(strength.per_metre), stream)
    return on.snap(*move(lon, lat, radius, azimuth))
