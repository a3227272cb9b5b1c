"""How large things are: boxes, spacings and areas in kilometres, so that a wrong unit is seen.

A coordinate system that is not the stated one, degrees times 100,000, longitude and latitude
exchanged, or one tower at 0, 0: each looks like a list of numbers and like nonsense in
kilometres. All of it is for the holder's eyes (`sfumato.inspect`); nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.geography.overlay import geodesic
from sfumato.geography.projection import Projection
from sfumato.model.places import PlaceKind, Places

_MIDDLE = (0.01, 0.99)
"""Quantiles between which 98 % lie: a few junk positions do not hide how large the rest is."""


@dataclass(frozen=True, slots=True)
class Box:
    """Width and height in kilometres of all points and of their middle 98 %, and the middle."""

    all_km: tuple[float, float]
    most_km: tuple[float, float]
    middle: tuple[float, float]
    """Median longitude and latitude."""

    @classmethod
    def of(cls, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> Box:
        """The box of points in degrees, of which there is at least one."""
        edges = [np.quantile(side, (0.0, *_MIDDLE, 1.0)) for side in (lon, lat)]
        (west, low_lon, high_lon, east), (south, low_lat, high_lat, north) = edges
        return cls(
            _size(west, east, south, north),
            _size(low_lon, high_lon, low_lat, high_lat),
            (float(np.median(lon)), float(np.median(lat))),
        )

    def words(self) -> str:
        """Where and how large."""
        lon, lat = self.middle
        return (
            f"{kilometres(*self.all_km)}, 98 % of them in {kilometres(*self.most_km)}, around "
            f"longitude {lon:.2f}, latitude {lat:.2f}"
        )

    def numbers(self) -> dict[str, list[float]]:
        """The same for a program."""
        parts = {"km": self.all_km, "km_of_98_percent": self.most_km, "middle": self.middle}
        return {name: [round(value, 4) for value in pair] for name, pair in parts.items()}


def _size(west: float, east: float, south: float, north: float) -> tuple[float, float]:
    middle = np.array([(south + north) / 2])
    across = geodesic(np.array([west]), middle, np.array([(west + east) / 2]), middle)
    up = geodesic(np.array([west]), np.array([south]), np.array([west]), np.array([north]))
    return 2 * float(across[0]) / 1000, float(up[0]) / 1000


def kilometres(width: float, height: float) -> str:
    """`61 x 52 km`, small ones with a decimal."""
    return f"{_figure(width)} x {_figure(height)} km"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def extent(places: Places) -> tuple[str, dict[str, object]]:
    """How large a list of places is, in words and as numbers.

    Of towers the median distance to the nearest other place, of zones their areas.
    """
    shapes = shapely.centroid(places.geometry)
    edges = shapely.bounds(places.geometry if places.kind is PlaceKind.ZONES else shapes)
    box = Box.of(edges[:, ::2].ravel(), edges[:, 1::2].ravel())
    numbers: dict[str, object] = {"count": len(places), **box.numbers()}
    words = f"{len(places):,} {places.kind}: {box.words()}"
    plane = Projection.around(places)
    if places.kind is PlaceKind.ZONES:
        areas = shapely.area(plane.shapes(places.geometry)) / 1e6
        least, middle, most = np.quantile(areas, (0.0, 0.5, 1.0)).tolist()
        numbers |= {"km2": round(float(areas.sum()), 3), "median_km2": round(middle, 4)}
        each = f"{_figure(middle)} km² each"
        if _figure(least) != _figure(most):
            each = f"from {_figure(least)} to {_figure(most)} km² each, half of them below "
            each += _figure(middle)
        return f"{words}; {_figure(float(areas.sum()))} km² in all, {each}", numbers
    at = np.round(plane.points(shapely.get_x(shapes), shapely.get_y(shapes)))
    sites = np.unique(at[np.isfinite(at).all(axis=1)], axis=0)
    if len(sites) > 1:
        apart = np.asarray(cKDTree(sites).query(sites, k=2)[0])
        near = float(np.median(apart[:, 1])) / 1000
        numbers["median_spacing_km"] = round(near, 4)
        words += f"; half of them have another within {_figure(near)} km"
    return words, numbers
