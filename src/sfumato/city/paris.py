"""The real map of Paris: IRIS zones, census residents and the operator's sites.

Nothing of it is part of the package: `plan.data` names the folder that holds `paris/`.
Only the map is real. Offices, nightlife and transport are bumps as in a generated city,
multiplied by the density of real sites (an operator builds where people are). All people
are made up.
"""

from __future__ import annotations

from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from sfumato.city.ground import BUFFER_M, Ground, radius_of
from sfumato.city.land import draw_character
from sfumato.city.plan import CityPlan
from sfumato.city.plane import Plane
from sfumato.model.errors import InputError

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
                remedy="Point --data or SFUMATO_DATA at the folder that holds paris/.",
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
