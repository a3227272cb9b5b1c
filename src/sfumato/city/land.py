"""Land use: how strongly each point of the city attracts homes, offices, schools, nights
out and travellers. Smooth bumps over the plane, placed by the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

USES = ("homes", "offices", "schools", "nightlife", "transport")


@dataclass(frozen=True, slots=True, eq=False)
class Bumps:
    """A sum of Gaussian bumps on a constant floor, over points in metres."""

    centres: NDArray[np.float64]
    widths: NDArray[np.float64]
    heights: NDArray[np.float64]
    floor: float

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.full(len(points), self.floor)
        for centre, width, height in zip(self.centres, self.widths, self.heights, strict=True):
            total += height * np.exp(-((points - centre) ** 2).sum(1) / (2 * width**2))
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Character:
    """Density of each use per unit of area, the hubs of transport and the stadium."""

    homes: Bumps
    offices: Bumps
    schools: Bumps
    nightlife: Bumps
    transport: Bumps
    hubs: NDArray[np.float64]
    stadium: NDArray[np.float64]
    activity: Bumps
    """A field of mean about zero: where people use their phones more."""


def draw_character(radius: float, rng: np.random.Generator) -> Character:
    """The character of a city of this radius (metres), centred on the origin.

    Homes everywhere with dense quarters around a business centre that lies off the middle,
    a second business pole, a university quarter, three places for the night, and stations
    in the centre and on the way out.
    """

    def around(n: int, low: float, high: float) -> NDArray[np.float64]:
        angle = rng.uniform(0, 2 * math.pi) + 2 * math.pi * (np.arange(n) + rng.random(n) * 0.6) / n
        distance = radius * rng.uniform(low, high, n)
        return np.column_stack([np.cos(angle), np.sin(angle)]) * distance[:, None]

    def bumps(centres: NDArray[np.float64], width: float, height: float, floor: float) -> Bumps:
        n = len(centres)
        return Bumps(
            centres,
            radius * width * rng.uniform(0.7, 1.3, n),
            height * rng.uniform(0.6, 1.4, n),
            floor,
        )

    core = around(1, 0.08, 0.18)
    pole = around(1, 0.45, 0.6)
    hubs = np.vstack([core + around(1, 0.0, 0.08), around(6, 0.25, 0.75)])
    offices = bumps(np.vstack([core, core + around(2, 0.1, 0.2), pole]), 0.15, 9.0, 0.10)
    university = around(1, 0.2, 0.35)
    nights = np.vstack([around(2, 0.1, 0.35), around(1, 0.35, 0.5)])
    signs = np.resize([1.0, -1.0], 6)
    activity_centres = around(6, 0.2, 0.8)
    return Character(
        homes=bumps(around(9, 0.25, 0.75), 0.22, 1.0, 0.45),
        offices=offices,
        schools=bumps(np.vstack([university, around(6, 0.3, 0.8)]), 0.08, 6.0, 0.5),
        nightlife=bumps(np.vstack([nights, core]), 0.07, 12.0, 0.12),
        transport=bumps(hubs, 0.035, 30.0, 0.15),
        hubs=hubs,
        stadium=around(1, 0.62, 0.72)[0],
        activity=Bumps(activity_centres, np.full(6, 0.3 * radius), signs, 0.0),
    )
