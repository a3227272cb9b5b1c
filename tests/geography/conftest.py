"""Small made-up maps, and the way to the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import shapely
from shapely.geometry import Point, box

from sfumato.model.places import PlaceKind, Places

CORNER = (2.30, 48.80)
STEP = 0.01


class Maps:
    """Rectangles and towers around (2.30, 48.80), in steps of a hundredth of a degree."""

    @staticmethod
    def zones(columns: int = 4, rows: int = 4) -> Places:
        ids, shapes = [], []
        for row in range(rows):
            for column in range(columns):
                x, y = CORNER[0] + column * STEP, CORNER[1] + row * STEP
                ids.append(f"z{row:02d}{column:02d}")
                shapes.append(box(x, y, x + STEP, y + STEP))
        return Places.of(PlaceKind.ZONES, ids, shapes)

    @staticmethod
    def towers(
        steps: list[tuple[float, float]] | np.ndarray,
        valid: list[tuple[int, int]] | None = None,
        ids: list[str] | None = None,
    ) -> Places:
        """Towers at (column, row) positions in steps from the corner."""
        at = np.asarray(CORNER) + np.asarray(steps, dtype=float) * STEP
        keys = ids or [f"t{k:04d}" for k in range(len(at))]
        shapes = [Point(x, y) for x, y in at]
        if valid is None:
            return Places.of(PlaceKind.TOWERS, keys, shapes)
        start, end = np.array(valid, dtype=np.int64).T
        return Places.of(PlaceKind.TOWERS, keys, shapes, valid_from=start, valid_to=end)


@pytest.fixture
def maps() -> Maps:
    return Maps()


@pytest.fixture(scope="session")
def real_data() -> Path:
    where = os.environ.get("SFUMATO_DATA", "")
    if not where or not Path(where).is_dir():
        pytest.skip("SFUMATO_DATA does not point to the public data sets")
    return Path(where).resolve()


@pytest.fixture(scope="session")
def paris(real_data: Path) -> tuple[Places, Places]:
    """(Orange's sites in and around Paris, the 992 IRIS zones)."""
    import geopandas as gpd
    import pandas as pd

    iris = gpd.read_file(real_data / "paris" / "iris_paris_2013_992.geojson")
    zones = Places.of(PlaceKind.ZONES, list(iris["code_iris"]), list(iris.geometry))
    sites = pd.read_csv(real_data / "paris" / "towers_arcep_2018-01_paris_3km.csv")
    sites = sites[sites["operator"] == "Orange"]
    points = list(shapely.points(sites["lon"].to_numpy(), sites["lat"].to_numpy()))
    return Places.of(PlaceKind.TOWERS, [f"s{k:04d}" for k in sites.index], points), zones
