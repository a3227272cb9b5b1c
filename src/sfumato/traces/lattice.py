"""The public lattice of sanitised locations, and what finite precision costs.

Noise computed in floating point has low bits that depend on the true location. So every
report is moved to a fixed lattice: rows every 1/`per_degree` degree of latitude, and in each
row points every `step` such units of longitude, where `step` is the least divisor of the full
circle that keeps a cell at least half as wide as it is high. The row alone decides the step,
so the lattice is public and its cells have a side of about a metre (at the default 100,000
rows a degree) from the equator to the poles.

**The correction** (in the manner of Andrés et al. 2013, section 5). Couple each draw with the
one that exact arithmetic would have made from the same bits continued without end: the two
reports, before snapping, are at most `TAU_M` apart (bound below, measured against 50-digit
arithmetic in the tests). A cell C of least side u is therefore reported with a probability
between those of C shrunk and of C grown by TAU_M under the exact law. The frame between the
two has at most the share 4 q (1 + q) of the cell's area, q = TAU_M / u, and the exact density
varies within a cell and its frame by at most e^(epsilon D), D the diameter of the grown cell. So
every probability is within a factor 1 ± s of the exact one, s = 4 q (1 + q) e^(epsilon D), and

    loss <= epsilon' d + eta,   eta = ln((1 + s) / (1 - s)).

We draw with epsilon' = epsilon - eta / u: the stated loss epsilon * max(d, u) is then kept, u
being the lattice step. On the default lattice eta is below 1e-6.

TAU_M: azimuth and radius carry 53 bits, 1.6e-16 of a turn and of the radius (at most half the
circumference, 2.0e7 m), the exponentials 2^-48 of the scale (at most 500 km), and about
fifteen roundings of 1.1e-16 of the Earth's radius in the step: together below 5e-8 m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.traces.kernels import EARTH_RADIUS_M, snap

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
