"""Generated zones: squares in metres, H3 hexagons and geohashes over a public region.

A cell's id comes from its absolute position in a named grid, never from the region or the
data: the same square has the same id tomorrow, in another city, at another holder.
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray
from pyproj.exceptions import CRSError

from sfumato.errors import InputError, UsageError
from sfumato.geography.projection import Projection
from sfumato.model.extras import optional
from sfumato.model.places import PlaceKind, Places

MAX_CELLS = 1 << 20
_EUROPE = "EPSG:3035"
_EDGE_M = 5000.0


def grid_crs(region: Places | shapely.Geometry) -> str:
    """EPSG:3035 (the European statistical grid) inside its area, else the region's UTM zone."""
    west, south, east, north = (float(v) for v in shapely.total_bounds(_outline(region)))
    area = pyproj.CRS.from_user_input(_EUROPE).area_of_use
    if (
        area is not None
        and area.west <= west
        and east <= area.east
        and area.south <= south
        and north <= area.north
    ):
        return _EUROPE
    lon, lat = (west + east) / 2, (south + north) / 2
    return f"EPSG:{(32600 if lat >= 0 else 32700) + min(int((lon + 180) // 6) + 1, 60)}"


def square_grid(region: Places | shapely.Geometry, size_m: int, crs: str | None = None) -> Places:
    """Squares of `size_m` metres that overlap the region, in a projected `crs` (`grid_crs`).

    Ids follow the European statistical grid, CRS3035RES500mN2889500E3757000: projection, size,
    northing and easting of the lower left corner.
    """
    if isinstance(size_m, bool) or not isinstance(size_m, int) or size_m < 1:
        raise UsageError("Squares need a side of whole metres, at least 1.", remedy="Write 500m.")
    outline = _outline(region)
    name = crs or grid_crs(outline)
    code = _metric_code(name)
    plane = pyproj.Transformer.from_crs("EPSG:4326", name, always_xy=True)
    shape = shapely.transform(
        shapely.segmentize(outline, 0.01),
        lambda xy: np.column_stack(plane.transform(xy[:, 0], xy[:, 1])),
    )
    bounds = np.asarray(shapely.bounds(shape))
    if not np.isfinite(bounds).all():
        raise InputError(f"The region lies outside {name}.", remedy="Choose another projection.")
    low, high = np.floor(bounds[:2] / size_m), np.ceil(bounds[2:] / size_m)
    if np.prod(high - low) > MAX_CELLS:
        raise UsageError(
            f"That makes more than {MAX_CELLS} squares.",
            remedy="Take larger squares or a smaller region.",
        )
    x, y = np.meshgrid(np.arange(low[0], high[0]) * size_m, np.arange(low[1], high[1]) * size_m)
    x, y = x.ravel(), y.ravel()
    squares = shapely.box(x, y, x + size_m, y + size_m)
    keep = _overlapping(squares, shape)
    ids = [
        f"CRS{code}RES{size_m}mN{int(north)}E{int(east)}"
        for east, north in zip(x[keep], y[keep], strict=True)
    ]
    fine = shapely.segmentize(squares[keep], _EDGE_M)
    degrees = shapely.transform(
        fine,
        lambda xy: np.column_stack(plane.transform(xy[:, 0], xy[:, 1], direction="INVERSE")),
    )
    _on_one_side(degrees)
    return Places.of(PlaceKind.ZONES, ids, degrees)


def h3_grid(region: Places | shapely.Geometry, resolution: int) -> Places:
    """H3 cells of a resolution (0 coarsest to 15) that overlap the region."""
    if isinstance(resolution, bool) or resolution not in range(16):
        raise UsageError("H3 has the resolutions 0 to 15.", remedy="Write h3:8.")
    h3 = optional("h3", "An H3 grid", instead="Squares (500m) and geohash:6 need nothing more.")
    outline = _outline(region)
    plane = Projection.around(outline)
    # A cell that overlaps the region has its centre within a cell's radius of it; cells are
    # up to 1.4 times the average size.
    reach = 2.0 * h3.average_hexagon_edge_length(resolution, unit="m")
    flat = plane.shape(outline)
    if shapely.area(flat) / h3.average_hexagon_area(resolution, unit="m^2") > MAX_CELLS:
        raise UsageError(
            f"That makes more than {MAX_CELLS} cells.",
            remedy="Take a coarser resolution or a smaller region.",
        )
    wide = shapely.buffer(shapely.simplify(flat, reach / 10), 1.2 * reach)
    wide = shapely.segmentize(wide, max(reach, 2000.0))  # short edges are straight on any map
    ids = np.array(sorted(h3.geo_to_cells(plane.back([wide])[0], resolution)), dtype=np.str_)
    if ids.size == 0:
        raise InputError("No H3 cell overlaps the region.", remedy="Check the region.")
    rings = [h3.cell_to_boundary(str(key)) for key in ids]
    cells = np.array(
        [shapely.Polygon([(lon, lat) for lat, lon in ring]) for ring in rings], dtype=object
    )
    _on_one_side(cells)
    keep = _overlapping(cells, outline)
    return Places.of(PlaceKind.ZONES, ids[keep], cells[keep])


def _on_one_side(cells: NDArray[np.object_]) -> None:
    west, _, east, _ = shapely.bounds(cells).T
    if (east - west > 180).any():
        raise InputError(
            "The grid reaches over the antimeridian, where longitudes jump.",
            remedy="Make a grid for each side.",
        )


def _outline(region: Places | shapely.Geometry) -> shapely.Geometry:
    shapes = region.geometry if isinstance(region, Places) else np.array([region], dtype=object)
    whole = shapely.union_all(shapely.make_valid(shapes))
    if not shapely.area(whole) > 0:
        raise InputError("The region has no area.", remedy="Give polygons, not points or lines.")
    return whole


def _metric_code(name: str) -> str:
    try:
        found = pyproj.CRS.from_user_input(name)
    except CRSError:
        raise UsageError(
            f"{name!r} is not a known projection.", remedy="Write it as EPSG:3035 or EPSG:32631."
        ) from None
    authority = found.to_authority()
    if not found.is_projected or authority is None or found.axis_info[0].unit_name != "metre":
        raise UsageError(
            f"{name!r} is not a registered projection in metres.",
            remedy="Squares in metres need one, for example EPSG:3035 or a UTM zone.",
        )
    return authority[1] if authority[0] == "EPSG" else "".join(authority)


def _overlapping(cells: NDArray[np.object_], region: shapely.Geometry) -> NDArray[np.bool_]:
    """Which cells share area with the region; touching is not enough."""
    shapely.prepare(region)
    found: NDArray[np.bool_] = shapely.intersects(region, cells)
    found &= ~shapely.touches(region, cells)
    return found


_GEOHASH = "0123456789bcdefghjkmnpqrstuvwxyz"
_GEOHASH_LONGEST = 9
"""Cells of some 5 m; one letter more would pass what 45 bits of a position hold."""


def geohash_grid(region: Places | shapely.Geometry, length: int) -> Places:
    """Geohash cells (Niemeyer 2008) of `length` letters that overlap the region.

    A geohash halves the world's degrees in turn, longitude first; five halvings are a letter.
    """
    if isinstance(length, bool) or length not in range(1, _GEOHASH_LONGEST + 1):
        raise UsageError(
            f"A geohash has 1 to {_GEOHASH_LONGEST} letters here.", remedy="Write geohash:6."
        )
    outline = _outline(region)
    across, up = -(-5 * length // 2), 5 * length // 2
    width, height = 360 / (1 << across), 180 / (1 << up)
    west, south, east, north = (float(v) for v in shapely.bounds(outline))
    first = (int((west + 180) // width), int((south + 90) // height))
    last = (
        min(int((east + 180) // width), (1 << across) - 1),
        min(int((north + 90) // height), (1 << up) - 1),
    )
    if (last[0] - first[0] + 1) * (last[1] - first[1] + 1) > MAX_CELLS:
        raise UsageError(
            f"That makes more than {MAX_CELLS} cells.",
            remedy="Take fewer letters or a smaller region.",
        )
    columns, rows = np.arange(first[0], last[0] + 1), np.arange(first[1], last[1] + 1)
    x, y = np.tile(columns, rows.size), np.repeat(rows, columns.size)
    left, low = x * width - 180, y * height - 90
    cells = shapely.box(left, low, left + width, low + height)
    keep = _overlapping(cells, outline)
    return Places.of(PlaceKind.ZONES, _geohashes(x[keep], y[keep], length, across, up), cells[keep])


def _geohashes(
    x: NDArray[np.int64], y: NDArray[np.int64], length: int, across: int, up: int
) -> list[str]:
    """Column and row as letters: their bits in turn, that of the longitude first."""
    code = np.zeros(x.size, dtype=np.int64)
    for bit in range(5 * length):
        side, left = (x, across - 1 - bit // 2) if bit % 2 == 0 else (y, up - 1 - bit // 2)
        code = (code << 1) | ((side >> left) & 1)
    letters = np.array(list(_GEOHASH))
    parts = [letters[(code >> (5 * at)) & 31] for at in reversed(range(length))]
    return ["".join(word) for word in zip(*parts, strict=True)]


_SQUARES = re.compile(r"(\d+(?:\.\d{1,3})?)(m|km)(?:@(.+))?")
_NAMED = re.compile(r"(h3|geohash):(\d+)")


def grid_places(said: str, region: Places | shapely.Geometry) -> Places:
    """The cells of a grid over a public region, as it is said in options.

    Args:
        said: `500m`, `1.5km`, `1km@EPSG:3035` (squares, where wanted in a projection), `h3:8` or
            `geohash:6`.
        region: What the cells must overlap. A public choice, never read from the data.

    Returns:
        The cells as zones; ids come from the grid and do not depend on the region.

    Raises:
        UsageError: `said` is no grid, or has more than a million cells over the region.
    """
    squares, named = _SQUARES.fullmatch(said.strip()), _NAMED.fullmatch(said.strip())
    if squares is not None:
        number, unit, crs = squares.groups()
        side = Fraction(number) * (1000 if unit == "km" else 1)
        return square_grid(region, int(side) if side.denominator == 1 else 0, crs)
    if named is None:
        raise UsageError(
            f"{said!r} is not a grid.", remedy="Write 500m, 1km@EPSG:3035, h3:8 or geohash:6."
        )
    kind, size = named.groups()
    return h3_grid(region, int(size)) if kind == "h3" else geohash_grid(region, int(size))
