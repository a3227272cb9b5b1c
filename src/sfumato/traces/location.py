"""One location, sanitised where it was measured: the local model, in which nobody is trusted.

    budget = RollingBudget.on_device("location-budget.sqlite", cap_per_metre=0.0115)
    lon, lat = sanitise_location(2.3522, 48.8566, expected_noise_m=200, budget=budget)

The randomness is the operating system's, and the true location never leaves the call. Each call
about the same person adds its epsilon to all earlier ones: a place reported a hundred times is
known to a few metres. So the report is charged before it is drawn, as everywhere, here to the
person's own `RollingBudget`, which refuses what would pass its cap.
"""

from __future__ import annotations

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.private import Private
from sfumato.model.traces import Traces
from sfumato.privacy.events import Charger
from sfumato.privacy.mechanisms.planar import Shown
from sfumato.privacy.noise.planar import Lattice, Strength, check_degrees
from sfumato.privacy.wall import Wall

_LABEL = "location"


def sanitise_location(
    lon: float,
    lat: float,
    *,
    budget: Charger,
    expected_noise_m: float | None = None,
    radius_m: float | None = None,
    level: float | None = None,
    lattice: Lattice | None = None,
) -> tuple[float, float]:
    """A report of (lon, lat) in degrees that is epsilon-geo-indistinguishable.

    epsilon is 2 / `expected_noise_m`, or `level` / `radius_m`, per metre.

    Args:
        lon: Longitude in degrees.
        lat: Latitude in degrees.
        budget: Who pays before the noise is drawn: a `RollingBudget` of the device, as a rule.
        expected_noise_m: Mean distance between the location and its report, in metres.
        radius_m: Radius within which `level` holds, in metres.
        level: Privacy loss between two locations `radius_m` apart.
        lattice: Public lattice of reports; by default about a metre wide.

    Returns:
        Longitude and latitude of the report, a point of the lattice.

    Raises:
        UsageError: The strength is not said, or said twice, or the location is not in degrees.
        BudgetRefused: The report would pass the budget. Nothing was drawn.
    """
    if expected_noise_m is not None and radius_m is None and level is None:
        wanted = Strength.from_noise(expected_noise_m)
    elif expected_noise_m is None and radius_m is not None and level is not None:
        wanted = Strength.from_level(level, radius_m)
    else:
        raise UsageError("Give `expected_noise_m`, or `radius_m` together with `level`.")
    at = np.array([float(lon)]), np.array([float(lat)])
    check_degrees(*at)  # the caller's own slip: refused before it costs anything
    one = np.zeros(1, np.int64)
    here = Traces(np.array([""], dtype=object), one, one, one, *at, one)
    found = Wall.on_device(budget).planar(
        Private(Shown.each(here), "a location"),
        strength=wanted,
        most_reports=1,
        label=_LABEL,
        lattice=lattice,
    )
    return float(found.traces.lon[0]), float(found.traces.lat[0])
