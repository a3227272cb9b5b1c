"""Longitude and latitude: reading, reprojecting and judging them.

Everything in memory is WGS84 degrees. A coordinate system that is not stated is taken for
WGS84 only where the numbers can be degrees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from pyproj import CRS, Transformer

from sfumato.model.errors import InputError

Floats = NDArray[np.float64]
Tell = Callable[[str], None]


def no_one(note: str) -> None:
    """The listener where nobody listens."""


def numbers(column: pa.ChunkedArray, name: str, label: str) -> Floats:
    """A column of coordinates as doubles, missing ones as NaN."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    try:
        cast = column if pa.types.is_floating(column.type) else column.cast(pa.float64())
    except pa.ArrowException:
        row = _first_non_number(column)
        raise InputError(
            "the coordinate is not a number.", file=label, column=name, row=row
        ) from None
    filled = pc.fill_null(cast.cast(pa.float64()), float("nan"))
    return np.asarray(filled.to_numpy(), dtype=np.float64)


def _first_non_number(column: pa.ChunkedArray) -> int | None:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    for row, value in enumerate(column.to_pylist(), start=1):
        try:
            float(value if value is not None else 0)
        except ValueError:
            return row
    return None


def point_degrees(points: NDArray[np.object_]) -> tuple[Floats, Floats]:
    """x and y of points, NaN where a point is missing or empty (GEOS refuses to look there)."""
    x, y = np.full(points.size, np.nan), np.full(points.size, np.nan)
    there = np.asarray(~(shapely.is_missing(points) | shapely.is_empty(points)))
    x[there], y[there] = shapely.get_x(points[there]), shapely.get_y(points[there])
    return x, y


def in_range(lon: Floats, lat: Floats) -> NDArray[np.bool_]:
    """Which pairs can be degrees at all. NaN cannot."""
    with np.errstate(invalid="ignore"):
        return (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)


def to_wgs84(shapes: NDArray[np.object_], crs: Any, label: str, tell: Tell) -> NDArray[np.object_]:
    """Shapes in two dimensions and WGS84."""
    flat = shapely.force_2d(shapes)
    if crs is None:
        points = shapely.get_coordinates(flat)
        finite = points[np.isfinite(points).all(axis=1)]
        if finite.size and not in_range(finite[:, 0], finite[:, 1]).all():
            if in_range(finite[:, 1], finite[:, 0]).all():
                raise swapped(label)
            raise InputError(
                "it does not state its coordinate system and its numbers are not degrees.",
                file=label,
                remedy="Store it with its coordinate system (EPSG code).",
            )
        tell(f"{label} states no coordinate system; its numbers are read as WGS84 degrees")
        return np.asarray(flat, dtype=object)
    system = CRS.from_user_input(crs)
    if system.equals(CRS.from_epsg(4326), ignore_axis_order=True):
        return np.asarray(flat, dtype=object)
    change = Transformer.from_crs(system, CRS.from_epsg(4326), always_xy=True)

    def project(points: Floats) -> Floats:
        return np.column_stack(change.transform(points[:, 0], points[:, 1]))

    tell(f"{label} is reprojected from {system.name} to WGS84")
    return np.asarray(shapely.transform(flat, project), dtype=object)


def swapped(label: str) -> InputError:
    """The error for coordinates that only make sense the other way round."""
    return InputError(
        "longitude and latitude look swapped.",
        file=label,
        remedy="Longitude is x (east), latitude is y (north): exchange the two.",
    )
