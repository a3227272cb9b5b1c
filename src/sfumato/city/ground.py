"""`Ground`: the bare map of a city in metres, before anybody lives in it. Generated here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry

from sfumato.city.land import Character, draw_character
from sfumato.city.plan import CityPlan
from sfumato.city.plane import Plane
from sfumato.city.zoning import Density, bisect, blob, cut_parks, sample_inside

BUFFER_M = 3_000.0
"""Towers up to this far outside the region still serve it."""
_OUTSIDE_SHARE = 0.12
_PARK_SHARE = 0.02
"""Residents of a park, as a share of an ordinary zone's."""


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Region, zones (shape, id, name, district, residents, park or not), towers, character."""

    plane: Plane
    region: BaseGeometry
    zone_shapes: NDArray[np.object_]
    zone_ids: NDArray[np.str_]
    zone_names: NDArray[np.str_]
    districts: NDArray[np.str_]
    residents: NDArray[np.int64]
    parks: NDArray[np.bool_]
    tower_ids: NDArray[np.str_]
    tower_points: NDArray[np.float64]
    character: Character


def radius_of(region: BaseGeometry) -> float:
    """Radius of the disc of the same area."""
    return math.sqrt(region.area / math.pi)


def generate_ground(plan: CityPlan) -> Ground:
    """A round city of the asked area with woods, parks, districts, zones and towers."""
    rng = np.random.default_rng([plan.seed, 1])
    region = blob(np.zeros(2), plan.area_km2 * 1e6, 0.12, rng)
    character = draw_character(radius_of(region), rng)
    parks = cut_parks(region, plan.zones, rng)
    built = shapely.difference(region, shapely.union_all(parks)) if parks else region
    pieces, shares = bisect(built, plan.zones - len(parks), character.homes, rng)
    even = shares * rng.uniform(0.88, 1.12, len(shares))
    levels = np.concatenate([even, np.full(len(parks), even.mean() * _PARK_SHARE)])
    n = len(pieces)
    groups = max(1, min(20, plan.zones // 12))
    district = np.arange(n) * groups // n
    homes = shapely.STRtree(pieces).nearest([park.representative_point() for park in parks])
    district = np.concatenate([district, district[homes]]).astype(np.int64)
    numbers = [
        *(f"quarter {k + 1}" for k in range(n)),
        *(f"park {k + 1}" for k in range(len(parks))),
    ]
    shapes = np.empty(plan.zones, dtype=object)
    shapes[:] = [*pieces, *parks]
    return Ground(
        plane=Plane(plan.lon, plan.lat),
        region=region,
        zone_shapes=shapes,
        zone_ids=np.array([f"Z{k + 1:05d}" for k in range(plan.zones)]),
        zone_names=np.array(
            [f"District {d + 1}, {name}" for d, name in zip(district, numbers, strict=True)]
        ),
        districts=np.array([f"D{d + 1:02d}" for d in district]),
        residents=np.maximum(1, np.rint(plan.population * levels / levels.sum())).astype(np.int64),
        parks=np.arange(plan.zones) >= n,
        tower_ids=np.array([f"T{k + 1:05d}" for k in range(plan.towers)]),
        tower_points=_place_towers(plan.towers, region, parks, character, rng),
        character=character,
    )


def _place_towers(
    towers: int,
    region: BaseGeometry,
    parks: list[BaseGeometry],
    character: Character,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Dense where people live and work, sparse in parks, some in the ring around."""
    outside = max(1, round(_OUTSIDE_SHARE * towers))
    green = shapely.union_all(parks)
    shapely.prepare(green)

    def inner(points: NDArray[np.float64]) -> NDArray[np.float64]:
        level = (
            character.homes(points)
            + 0.8 * character.offices(points)
            + 0.1 * (character.nightlife(points) + character.transport(points))
        )
        return np.where(shapely.contains_xy(green, points), 0.15, 1.0) * level

    def outer(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(-shapely.distance(region, shapely.points(points)) / 2_000.0)

    ring = shapely.difference(region.buffer(BUFFER_M), region)
    points = np.vstack(
        [_spread(region, towers - outside, inner, rng), _spread(ring, outside, outer, rng)]
    )
    return points[rng.permutation(towers)]


def _spread(
    shape: BaseGeometry, n: int, density: Density, rng: np.random.Generator
) -> NDArray[np.float64]:
    """n points that follow the density and keep half the local mean spacing between them."""
    candidates = sample_inside(shape, 40 * n + 400, rng)
    weight = density(candidates)
    local = n * weight / weight.mean() / shape.area
    order = np.argsort(rng.exponential(size=len(weight)) / weight, kind="stable")[: 6 * n + 60]
    chosen, spacing = candidates[order], 0.5 / np.sqrt(local[order])
    near = cKDTree(chosen).query_ball_point(chosen, spacing)
    taken = np.zeros(len(chosen), dtype=bool)
    for k, others in enumerate(near):
        taken[k] = taken.sum() < n and not taken[others].any()
    spare = np.flatnonzero(~taken)[: n - int(taken.sum())]
    taken[spare] = True
    return chosen[taken]
