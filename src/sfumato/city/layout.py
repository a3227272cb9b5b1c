"""`City`: the map with everything people need to live in it, generated or of the real Paris.

`build_city` makes one. The real map of Paris has IRIS zones, census residents and the operator's
sites. Nothing of it is part of the package: `plan.data` names the folder that holds `paris/`.
Only the map is real. Offices, nightlife and transport are bumps as in a generated city,
multiplied by the density of real sites (an operator builds where people are). All people
are made up.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import ndtri
from shapely.geometry.base import BaseGeometry

from sfumato.city.map import (
    BUFFER_M,
    USES,
    Ground,
    draw_character,
    generate_ground,
    radius_of,
    sample_inside,
)
from sfumato.city.plan import CityPlan, Geometry
from sfumato.city.rhythm import Rhythm, rhythm_of
from sfumato.errors import InputError
from sfumato.geography.projection import Plane
from sfumato.model.places import PlaceKind, Places

ZONES_FILE = "paris/iris_paris_2013_992.geojson"
TOWERS_FILE = "paris/towers_arcep_2018-01_paris_3km.csv"
_OPERATOR = "Orange"
_PARK = "D"
"""The census type of woods, parks, rivers and the like."""


def read_paris(plan: CityPlan) -> Ground:
    """Zones, residents and the Orange sites inside Paris and up to 3 km around."""
    root = plan.data if plan.data is not None else Path()
    for name in (ZONES_FILE, TOWERS_FILE):
        if not (root / name).is_file():
            raise InputError(
                "there is no such file.",
                file=str(root / name),
                remedy="Point `data` or SFUMATO_DATA at the folder that holds paris/.",
            )
    zones = gpd.read_file(root / ZONES_FILE).sort_values("code_iris", kind="stable")
    sites = pd.read_csv(root / TOWERS_FILE)
    sites = sites[sites["operator"] == _OPERATOR]
    degrees = np.array(zones.geometry.array, dtype=object)
    middle = shapely.box(*shapely.total_bounds(degrees)).centroid
    plane = Plane(round(middle.x, 4), round(middle.y, 4))
    shapes = plane.shapes_to_metres(degrees)
    region = shapely.union_all(shapes)
    points = plane.to_metres(sites[["lon", "lat"]].to_numpy(np.float64))
    near = shapely.distance(region, shapely.points(points)) <= BUFFER_M
    residents = zones["pop15p_2011"].fillna(0).to_numpy(np.int64)
    rng = np.random.default_rng([plan.seed, 1])
    return Ground(
        plane=plane,
        region=region,
        zone_shapes=shapes,
        zone_ids=zones["code_iris"].to_numpy(np.str_),
        zone_names=zones["nom_iris"].to_numpy(np.str_),
        districts=zones["code_commune"].to_numpy(np.str_),
        residents=residents,
        parks=(zones["typ_iris"] == _PARK).to_numpy(np.bool_),
        tower_ids=np.array([f"ORA{k + 1:05d}" for k in range(int(near.sum()))]),
        tower_points=points[near],
        character=draw_character(radius_of(region), rng),
    )


_SITES = 32
"""Addresses per zone."""
_RANKS = 8
"""Towers an address can be served by."""
_RASTER_M = 100.0
_SECTORS = 12
_OUTSIDE_HOMES = 0.07
"""Share of users who live in the ring around the region and come in."""
_GRAIN = {"offices": 1.3, "schools": 1.4, "nightlife": 1.5, "transport": 0.4}
"""Log-scale spread of a zone's own character on top of its quarter's: one block of offices,
one school or one street of bars makes a zone of 2,000 residents unlike the next. Set so that
the Paris release as printed finds this city about as hard as its authors found Paris."""


@dataclass(frozen=True, slots=True, eq=False)
class City:
    """Towers and zones as `Places` (WGS84), land use, and the tables people move by.

    `land_use` holds each zone's share of the city's homes, offices, schools, nightlife and
    transport (each column sums to 1). `tower_attraction` is each tower's share of all five.
    Arrays over zones and towers follow the order of `zones.ids` and `towers.ids`.
    """

    plan: CityPlan
    ground: Ground
    towers: Places
    zones: Places
    land_use: NDArray[np.float64]
    labels: NDArray[np.str_]
    """What a zone is known for: one of `map.USES`, or `park`."""
    tower_attraction: NDArray[np.float64]
    tower_inside: NDArray[np.bool_]
    stadium_zone: int
    rhythm: Rhythm
    areas: Areas
    raster: Raster


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """Zones, then sectors of the ring outside: addresses and flows between them."""

    site_start: NDArray[np.int64]
    sites: NDArray[np.float64]
    home_share: NDArray[np.float64]
    work_flow: NDArray[np.float32]
    school_flow: NDArray[np.float32]
    leisure_flow: NDArray[np.float32]
    hub_of: NDArray[np.int64]
    liveliness: NDArray[np.float64]
    """Normal score of how much people who live here use their phones."""


@dataclass(frozen=True, slots=True, eq=False)
class Raster:
    """The nearest towers of every 100 m square, nearest first."""

    origin: NDArray[np.float64]
    step: float
    nearest: NDArray[np.int32]


def build_city(plan: CityPlan) -> City:
    """The same plan gives the same city."""
    ground = read_paris(plan) if plan.geometry is Geometry.PARIS else generate_ground(plan)
    rng = np.random.default_rng([plan.seed, 2])
    zones = len(ground.zone_shapes)
    ring = _sectors(ground)
    shapes = [*ground.zone_shapes, *ring]
    sites = np.vstack([sample_inside(shape, _SITES, rng) for shape in shapes])
    inner = np.arange(zones * _SITES) // _SITES
    real = plan.geometry is Geometry.PARIS
    own = np.random.default_rng([plan.seed, 3])
    use = _land_use(ground, sites[: zones * _SITES], inner, follow_towers=real, rng=own)
    raster = _raster(ground)
    to_degrees = ground.plane.to_degrees
    tower_degrees = to_degrees(ground.tower_points)
    serving = cKDTree(ground.tower_points).query(sites[: zones * _SITES])[1]
    attraction = np.zeros(len(ground.tower_ids))
    np.add.at(attraction, serving, use.mean(axis=1)[inner] / _SITES)
    return City(
        plan=plan,
        ground=ground,
        towers=Places.of(
            PlaceKind.TOWERS, ground.tower_ids, [shapely.Point(point) for point in tower_degrees]
        ),
        zones=Places.of(
            PlaceKind.ZONES,
            ground.zone_ids,
            ground.plane.shapes_to_degrees(ground.zone_shapes),
            ground.zone_names,
        ),
        land_use=use,
        labels=_labels(ground, use),
        tower_attraction=attraction,
        tower_inside=shapely.contains_xy(ground.region, ground.tower_points),
        stadium_zone=int(
            shapely.STRtree(ground.zone_shapes).nearest(shapely.Point(ground.character.stadium))
        ),
        rhythm=rhythm_of(plan.grid),
        areas=_areas(ground, use, sites),
        raster=raster,
    )


def _sectors(ground: Ground) -> list[BaseGeometry]:
    """The ring around the region, cut like a cake."""
    ring = shapely.difference(ground.region.buffer(0.8 * BUFFER_M), ground.region)
    middle = np.array(ground.region.centroid.coords[0])
    far = 4 * radius_of(ground.region) + 4 * BUFFER_M
    edge = np.linspace(0, 2 * np.pi, _SECTORS + 1)
    rim = middle + far * np.column_stack([np.cos(edge), np.sin(edge)])
    wedges = [shapely.Polygon([middle, rim[k], rim[k + 1]]) for k in range(_SECTORS)]
    cut = [shapely.intersection(ring, wedge) for wedge in wedges]
    return [piece for piece in cut if piece.area > 0]


def _land_use(
    ground: Ground,
    sites: NDArray[np.float64],
    zone_of: NDArray[np.int64],
    follow_towers: bool,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Zone x use: its area times the mean density over its addresses, times its own grain."""
    crowding = np.ones(len(sites))
    if follow_towers:
        reach = np.asarray(cKDTree(ground.tower_points).query(sites, [9])[0]).ravel()
        crowding = 1.0 / np.maximum(reach, 50.0) ** 2
    area = shapely.area(ground.zone_shapes)
    quiet = np.where(ground.parks, 0.05, 1.0)
    columns = [ground.residents.astype(np.float64)]
    for name in USES[1:]:
        density = getattr(ground.character, name)(sites)
        if name != "schools":
            density = density * crowding
        grain = np.exp(_GRAIN[name] * rng.standard_normal(len(area)))
        columns.append(area * quiet * grain * np.bincount(zone_of, density) / _SITES)
    # Some leisure is spent in parks.
    columns[3] = columns[3] + np.where(ground.parks, 0.6 * columns[3].sum() / len(area), 0.0)
    table = np.column_stack(columns)
    return np.asarray(table / table.sum(axis=0), dtype=np.float64)


def _labels(ground: Ground, use: NDArray[np.float64]) -> NDArray[np.str_]:
    """The use in which the zone stands out most, if by more than half; homes otherwise."""
    relative = use * len(use)
    relative[:, 0] = np.maximum(relative[:, 0], 1.0) * 1.5
    names = np.array(USES)[np.argmax(relative, axis=1)]
    return np.where(ground.parks, "park", names)


def _areas(
    ground: Ground,
    use: NDArray[np.float64],
    sites: NDArray[np.float64],
) -> Areas:
    zones, areas = len(use), len(sites) // _SITES
    outside = areas - zones
    centre = sites.reshape(areas, _SITES, 2).mean(axis=1)
    scale = radius_of(ground.region) / 5_800.0
    apart = np.sqrt(((centre[:, None, :] - centre[None, :, :]) ** 2).sum(axis=2)) / scale

    def flow(pull: NDArray[np.float64], reach_m: float) -> NDArray[np.float32]:
        """Cumulative choice of a destination: its pull, falling off with distance."""
        ring = np.full(outside, 0.04 / max(outside, 1))
        choice = np.concatenate([pull, ring]) * np.exp(-apart / reach_m)
        total = np.cumsum(choice, axis=1)
        return np.asarray(total / total[:, -1:], dtype=np.float32)

    homes = np.concatenate(
        [use[:, 0] * (1 - _OUTSIDE_HOMES), np.full(outside, _OUTSIDE_HOMES / outside)]
    )
    field = ground.character.activity(centre)
    # Normal scores of the field over residents, so that activity keeps its law (see `settle`).
    order = np.argsort(field, kind="stable")
    rank = np.empty(areas)
    rank[order] = np.cumsum(homes[order]) - homes[order] / 2
    rush = 0.8 * use[:, 1] + 0.1 * use[:, 3] + 0.1 * use[:, 4]
    fun = 0.7 * use[:, 3] + 0.12 * use[:, 0] + 0.08 * use[:, 1] + 0.1 * use[:, 4]
    return Areas(
        site_start=np.arange(areas + 1, dtype=np.int64) * _SITES,
        sites=sites,
        home_share=np.cumsum(homes),
        work_flow=flow(rush, 7_000.0),
        school_flow=flow(0.5 * use[:, 2] + 0.5 * use[:, 0], 1_800.0),
        leisure_flow=flow(fun, 3_200.0),
        hub_of=np.asarray(cKDTree(ground.character.hubs).query(centre)[1], dtype=np.int64),
        liveliness=np.asarray(ndtri(np.clip(rank, 1e-6, 1 - 1e-6)), dtype=np.float64),
    )


def _raster(ground: Ground) -> Raster:
    low = np.minimum(sites_low(ground), ground.tower_points.min(axis=0)) - 200.0
    high = -np.minimum(-sites_high(ground), -ground.tower_points.max(axis=0)) + 200.0
    # Large regions get coarser squares: never more than about a million of them.
    step = max(_RASTER_M, float(np.sqrt(np.prod(high - low) / 1e6)))
    columns, rows = np.ceil((high - low) / step).astype(int)
    x, y = np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
    points = low + step * np.column_stack([x.ravel(), y.ravel()])
    ranks = min(_RANKS, len(ground.tower_points))
    nearest = cKDTree(ground.tower_points).query(points, ranks)[1]
    return Raster(low, step, nearest.reshape(rows, columns, ranks).astype(np.int32))


def sites_low(ground: Ground) -> NDArray[np.float64]:
    """South-west corner of everywhere people can be."""
    return np.array(ground.region.bounds[:2]) - BUFFER_M


def sites_high(ground: Ground) -> NDArray[np.float64]:
    """North-east corner of everywhere people can be."""
    return np.array(ground.region.bounds[2:]) + BUFFER_M
