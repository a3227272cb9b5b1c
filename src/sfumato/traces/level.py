"""How strong location noise is: epsilon per metre, and the ways people state it.

Andrés et al. 2013: a level l within a radius r means that two points at most r apart change
every probability by at most a factor e^l, so epsilon = l / r. The radius of planar Laplace
noise has mean 2 / epsilon: an *expected noise* of 100 m is epsilon 0.02 per metre.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sfumato.model.errors import UsageError

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


def parse_metres(text: str) -> float:
    """`100m`, `1.5km` or a plain number of metres."""
    match = _LENGTH.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a distance.", remedy="Write 100m or 1.5km.")
    return float(match["number"]) * (1000.0 if match["unit"] == "km" else 1.0)


def parse_level(text: str) -> float:
    """`ln4` or a plain number."""
    bare = text.strip().lower()
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


def strength(expected_noise: str | None, radius: str | None, level: str | None) -> Strength:
    """What `--expected-noise`, or `--radius` with `--level`, ask for."""
    if (expected_noise is None) == (radius is None and level is None):
        raise UsageError(
            "How strong the noise is must be said once.",
            remedy="Give --expected-noise 100m, or --radius 200m --level ln4.",
        )
    if expected_noise is not None:
        return Strength.from_noise(parse_metres(expected_noise))
    if radius is None or level is None:
        raise UsageError("A radius needs a level, and a level a radius.")
    return Strength.from_level(parse_level(level), parse_metres(radius))
