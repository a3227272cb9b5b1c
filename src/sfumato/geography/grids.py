"""Generated zones: squares in metres and H3 hexagons over a public region.

A cell's id comes from its absolute position in a named grid, never from the region or the
data: the same square has the same id tomorrow, in another city, at another holder.
"""

from __future__ import annotations

import h3
import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray
from pyproj.exceptions import CRSError

from sfumato.errors import InputError, UsageError
from sfumato.geography.projection import Projection
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
        raise UsageError(
            "Squares need a side of whole metres, at least 1.", remedy="Write --grid 500m."
        )
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
        raise UsageError("H3 has the resolutions 0 to 15.", remedy="Write --grid h3:8.")
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
            f"{name!r} is no registered projection in metres.",
            remedy="Squares in metres need one, for example EPSG:3035 or a UTM zone.",
        )
    return authority[1] if authority[0] == "EPSG" else "".join(authority)


def _overlapping(cells: NDArray[np.object_], region: shapely.Geometry) -> NDArray[np.bool_]:
    """Which cells share area with the region; touching is not enough."""
    shapely.prepare(region)
    found: NDArray[np.bool_] = shapely.intersects(region, cells)
    found &= ~shapely.touches(region, cells)
    return found
