"""Zones of about equal population: recursive bisection of the region, parks cut out first.

Each cut is a straight line across the long side of the piece, placed where the residents
on both sides are in proportion to the zones still to be made there. Pieces therefore
cover the region, do not overlap, and hold the same number of people up to sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

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
