"""Do towers and zones lie in the same part of the world? A swapped pair of columns does not."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.io.coordinates import swapped
from sfumato.model.errors import InputError
from sfumato.model.places import Places

NEAR = 0.5
"""Degrees around the zones' box that still count as near, some 50 km."""


def check_same_region(towers: Places, zones: Places) -> None:
    """Raise where no tower is near the zones, and say so if swapping would bring them there."""
    west, south, east, north = shapely.total_bounds(zones.geometry)
    lon, lat = shapely.get_x(towers.geometry), shapely.get_y(towers.geometry)

    def near(x: NDArray[np.float64], y: NDArray[np.float64]) -> int:
        inside = (x >= west - NEAR) & (x <= east + NEAR) & (y >= south - NEAR) & (y <= north + NEAR)
        return int(np.count_nonzero(inside))

    here, there = near(lon, lat), near(lat, lon)
    if here == 0 and there == 0:
        raise InputError(
            "no tower lies within 50 km of the zones.",
            remedy="Check that towers and zones are of the same place.",
        )
    if there > 2 * here:
        raise swapped("the towers or the zones")
