"""Gaussian noise for traces with many reports: metric privacy within a stated radius.

Planar Laplace pays n epsilon for n reports. Gaussian noise of standard deviation sigma on both
coordinates pays mu = r0 sqrt(n) / sigma for two traces whose fixes are never farther than r0
apart, which is the better bargain from a few reports on: for n = 36, r0 = 200 m and
(epsilon, delta) = (2, 1e-6) the mean noise is 3.4 km instead of 7.2 km.

Claim. Unit: one user's trace given its instants, within r0. The domain is a *public* box:
locations outside it are moved to its edge first, and distances are meant after that. They
are then mapped to an equal-area plane around the box and rounded to centimetres; the plane
stretches distances by at most a factor that is computed from the box and rounding adds at
most sqrt(2) cm, so one user's 2n integers move by at most
l2 = sqrt(n) (100 stretch r0 + sqrt(2)). So fine a lattice lets the exact Gaussian curve be claimed.
Exact discrete Gaussian noise is added to the integers, and everything after that (back to
degrees, the public lattice) is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyproj
import shapely

from sfumato.geography.projection import Projection
from sfumato.model.errors import UsageError
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.noise import BitStream, discrete_gaussian
from sfumato.traces.lattice import Lattice
from sfumato.traces.model import Traces
from sfumato.traces.outside import Box

_SLACK = 1 + 1e-6
_PER_METRE = 100


@dataclass(frozen=True)
class GaussianTraces:
    """Public settings: how many reports a user may have, how far apart, at what price."""

    box: Box
    radius_m: float
    most_reports: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius_m) and self.radius_m > 0) or self.most_reports < 1:
            raise UsageError("Gaussian noise needs a radius and a number of reports.")

    @cached_property
    def plane(self) -> Projection:
        return Projection.around(shapely.box(*self.box.bounds))

    @cached_property
    def stretch(self) -> float:
        """The most by which the plane lengthens a distance inside the box."""
        west, south, east, north = self.box.bounds
        lon, lat = np.meshgrid(np.linspace(west, east, 17), np.linspace(south, north, 17))
        factors = pyproj.Proj(self.plane.proj).get_factors(lon.ravel(), lat.ravel())
        return float(np.max(factors.tissot_semimajor)) * _SLACK

    @cached_property
    def event(self) -> GaussianEvent:
        """What is charged: sensitivity and variance in centimetres."""
        reach = self.stretch * self.radius_m * _PER_METRE + math.sqrt(2.0)
        l2 = rounded_up(math.sqrt(self.most_reports) * reach)
        touched = 2 * self.most_reports
        found = gaussian_sigma2_for(self.epsilon, self.delta, l2, touched)
        return GaussianEvent(l2, found.sigma2[0], touched)

    @property
    def sigma_m(self) -> float:
        """Standard deviation of the noise on each coordinate, in metres."""
        return math.sqrt(self.event.sigma2) / _PER_METRE

    @property
    def expected_noise_m(self) -> float:
        """Mean distance between a location and its report."""
        return self.sigma_m * math.sqrt(math.pi / 2)


def gaussian(
    traces: Traces, setting: GaussianTraces, stream: BitStream, *, lattice: Lattice | None = None
) -> Traces:
    """The same fixes with Gaussian noise; no user may have more than the stated reports."""
    if np.bincount(traces.user, minlength=1).max() > setting.most_reports:
        raise UsageError("A user has more fixes than the stated number of reports.")
    lon, lat = setting.box.clamp(traces.lon, traces.lat)
    whole = np.rint(setting.plane.points(lon, lat) * _PER_METRE).astype(np.int64)
    noise = discrete_gaussian(whole.size, Fraction(setting.event.sigma2), stream)
    noisy = (whole + noise.reshape(whole.shape)) / _PER_METRE
    edge = 1.9 * 6_371_007.0  # the plane shows the whole globe within two radii
    norm = np.maximum(np.hypot(noisy[:, 0], noisy[:, 1]) / edge, 1.0)
    back = setting.plane.back(np.asarray(shapely.points(noisy / norm[:, None]), dtype=object))
    degrees = shapely.get_coordinates(back)
    on = lattice or Lattice()
    return traces.at(*on.snap(degrees[:, 0].copy(), degrees[:, 1].copy()))
