"""The bare map of a generated city in metres, before anybody lives in it: land use, zones, towers.

*Land use* says how strongly each point of the city attracts homes, offices, schools, nights out
and travellers: smooth bumps over the plane, placed by the seed.

*Zones* are of about equal population, by recursive bisection of the region, parks cut out first.
Each cut is a straight line across the long side of the piece, placed where the residents
on both sides are in proportion to the zones still to be made there. Pieces therefore
cover the region, do not overlap, and hold the same number of people up to sampling.

`Ground` holds all of it; `generate_ground` makes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry

from sfumato.city.plan import CityPlan
from sfumato.geography.projection import Plane

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


Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_FAR = 1e6


def blob(
    centre: NDArray[np.float64], area: float, roughness: float, rng: np.random.Generator
) -> shapely.Polygon:
    """A round outline with a few random waves and exactly this area."""
    angle = np.linspace(0, 2 * math.pi, 180, endpoint=False)
    radius = np.ones_like(angle)
    for wave in range(2, 7):
        phase, height = rng.uniform(0, 2 * math.pi), roughness * rng.uniform(0.4, 1.0) / wave
        radius += height * np.cos(wave * angle + phase)
    ring = np.column_stack([1.12 * np.cos(angle), np.sin(angle)]) * radius[:, None]
    size = shapely.area(shapely.polygons(ring))
    return shapely.Polygon(centre + ring * math.sqrt(area / size))


def sample_inside(shape: BaseGeometry, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """n points uniform in the shape, by rejection from its box."""
    left, low, right, high = shape.bounds
    shapely.prepare(shape)
    found: list[NDArray[np.float64]] = []
    have = 0
    while have < n:
        batch = rng.uniform((left, low), (right, high), (max(64, 2 * (n - have)), 2))
        inside = batch[shapely.contains_xy(shape, batch)]
        found.append(inside)
        have += len(inside)
    return np.vstack(found)[:n]


def cut_parks(region: shapely.Polygon, zones: int, rng: np.random.Generator) -> list[BaseGeometry]:
    """Two woods at the edge (in larger cities) and small parks inside, apart from each other."""
    total = 0 if zones < 8 else max(1, round(0.012 * zones))
    woods = 2 if total >= 4 else 0
    angle = rng.uniform(0, 2 * math.pi)
    radius = math.sqrt(region.area / math.pi)
    parks: list[BaseGeometry] = []
    for k in range(woods):
        direction = np.array([math.cos(angle + k * 2.8), math.sin(angle + k * 2.8)])
        wood = blob(0.86 * radius * direction, 0.045 * region.area, 0.3, rng)
        parks.append(shapely.intersection(wood, region))
    tries = 0
    small = 0.6 * region.area / max(zones, 60)
    while len(parks) < total and tries < 200:
        tries += 1
        spot = sample_inside(region, 1, rng)[0]
        park = blob(spot, small * rng.uniform(1.0, 3.0), 0.3, rng)
        apart = all(park.distance(other) > 0.05 * radius for other in parks)
        if apart and region.buffer(-0.02 * radius).contains(park):
            parks.append(park)
    return parks


def bisect(
    region: BaseGeometry, zones: int, density: Density, rng: np.random.Generator
) -> tuple[list[BaseGeometry], NDArray[np.float64]]:
    """Pieces in an order that keeps neighbours together, and the share of residents in each."""
    points = sample_inside(region, max(20_000, 220 * zones), rng)
    weights = density(points)
    pieces: list[BaseGeometry] = []
    shares: list[float] = []
    # An explicit stack, last in first out, visits the tree from left to right.
    stack = [(region, np.arange(len(points)), zones)]
    while stack:
        shape, members, wanted = stack.pop()
        if wanted == 1:
            pieces.append(shape)
            shares.append(float(weights[members].sum()))
            continue
        along = _long_axis(shape) + rng.normal(0, 0.15)
        direction = np.array([math.cos(along), math.sin(along)])
        height = points[members] @ direction
        order = np.argsort(height, kind="stable")
        mass = np.cumsum(weights[members[order]])
        first = wanted // 2
        at = int(np.searchsorted(mass, mass[-1] * first / wanted))
        at = min(max(at, first), len(order) - (wanted - first))
        level = (height[order[at - 1]] + height[order[at]]) / 2
        near, far = (_surface(shape, half) for half in _halves(direction, level))
        stack.append((far, members[order[at:]], wanted - first))
        stack.append((near, members[order[:at]], first))
    return pieces, np.array(shares) / weights.sum()


def _surface(shape: BaseGeometry, half: BaseGeometry) -> BaseGeometry:
    """The part in the half-plane, without the points and lines where they merely touch."""
    common = shapely.intersection(shape, half)
    if common.geom_type in ("Polygon", "MultiPolygon"):
        return common
    parts = shapely.get_parts(common)
    return shapely.union_all(parts[shapely.get_dimensions(parts) == 2])


def _long_axis(shape: BaseGeometry) -> float:
    corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(shape))
    sides = np.diff(corners[:3], axis=0)
    dx, dy = sides[int(np.argmax((sides**2).sum(1)))]
    return math.atan2(dy, dx)


def _halves(direction: NDArray[np.float64], level: float) -> list[shapely.Polygon]:
    """The two half-planes on either side of {p : p . direction = level}, as huge boxes."""
    foot = direction * level
    side = np.array([-direction[1], direction[0]])
    a, b = foot - side * _FAR, foot + side * _FAR
    return [
        shapely.Polygon([a, b, b + sign * direction * _FAR, a + sign * direction * _FAR])
        for sign in (-1.0, 1.0)
    ]


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
