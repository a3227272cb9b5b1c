"""Voronoi cells: the ground that each tower is taken to serve (Acs & Castelluccia 2014, 4.2).

Rules, all of them about public geometry:

* Cells are clipped to the region widened by a buffer (3 km unless told). A tower inside that
  shape has a cell, also when it stands outside the region; the overlay then counts it with
  the share of its cell that lies in a zone. A tower beyond the buffer has no cell, takes no
  part in the tessellation, and its events are outside the region. With a buffer of 0 every
  cell lies inside the region and every visit at a tower with a cell counts whole. Which buffer
  a release takes is `sfumato.geography.border`.
* With `own_reach` a cell goes beyond the region only as far as half the mean distance of its
  tower to the six nearest: there the next tower would take over if the network went on (in a
  hexagonal lattice, where all six are equally far, that is the inner radius of a cell).
* Positions are good to a metre: one that is that near to the outline is inside (or as near as
  `tolerance_m` says), and cells are drawn around positions rounded to whole metres. Towers on
  the same metre share one cell, each of them with the whole of it.
* Towers come and go. Each row of the towers (an id between two dates) is a place of its own,
  so a tower that moved has a row per position. The period is cut where any tower that has a
  cell appears or disappears, and the tessellation is made anew in each piece (`Epoch`) from
  the towers valid throughout it. The overlay averages a row's area shares over the epochs in
  which the row is valid, weighted by their length: an average of maps whose shares sum to at
  most one is such a map, so no sensitivity changes. A row that is never valid in the period
  has no cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.errors import InputError, UsageError
from sfumato.geography.projection import Projection
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

BUFFER_M = 3000.0
_METRE = 1.0
_NEIGHBOURS = 6
"""Neighbours of a cell in a hexagonal lattice, and on average in any Voronoi diagram."""


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """A piece of the period without change: one polygon per tower row, `None` for no cell."""

    start: int
    end: int
    polygons: NDArray[np.object_]

    @property
    def length(self) -> float:
        """Public weight of the epoch: its microseconds, 1 where there is no period."""
        return 1.0 if self.start == ALWAYS_FROM else float(self.end - self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of `towers` on the plane of `projection`, row for row, epoch by epoch."""

    towers: Places
    projection: Projection
    clip: shapely.Geometry
    epochs: tuple[Epoch, ...]

    @property
    def served(self) -> NDArray[np.bool_]:
        """Which rows have a cell in any epoch. Events at the others are outside the region."""
        has = np.array([~shapely.is_missing(epoch.polygons) for epoch in self.epochs])
        return np.asarray(has.any(axis=0), dtype=np.bool_)

    def take(self, rows: NDArray[np.bool_]) -> Cells:
        """The cells of some of the towers, as they are."""
        epochs = (Epoch(one.start, one.end, one.polygons[rows]) for one in self.epochs)
        return replace(self, towers=self.towers.take(rows), epochs=tuple(epochs))


def voronoi_cells(
    towers: Places,
    region: Places | shapely.Geometry,
    *,
    buffer_m: float = BUFFER_M,
    own_reach: bool = False,
    tolerance_m: float = _METRE,
    period: TimeGrid | None = None,
    projection: Projection | None = None,
) -> Cells:
    """The cell of each row of `towers` over `region` (zones or one polygon, WGS84).

    Args:
        towers: Points, with validity dates or without.
        region: What the cells are clipped to, once it is widened.
        buffer_m: By how much it is widened.
        own_reach: Beyond the region a cell ends at its tower's own reach, too.
        tolerance_m: How far off the clipping shape a tower may stand and still have a cell.
        period: The slots; needed where towers have validity dates.
        projection: The plane; default: one around the region.

    Raises:
        UsageError: The places are not towers, or the period is missing.
        InputError: No tower is near the region, or it has no area.
    """
    if towers.kind is not PlaceKind.TOWERS:
        raise UsageError("Voronoi cells are made of towers; zones are areas already.")
    if not (np.isfinite(buffer_m) and buffer_m >= 0):
        raise UsageError("The buffer is a distance in metres, zero or more.")
    plane = projection or Projection.around(region)
    whole = outline(region, plane)
    clip = shapely.buffer(whole, buffer_m, quad_segs=16) if buffer_m else whole
    if not shapely.area(clip) > 0:
        raise InputError("The region has no area.", remedy="Give polygons, not points or lines.")
    shapely.prepare(clip)
    exact = plane.points(*shapely.get_coordinates(towers.geometry).T)
    inside = np.zeros(len(towers), dtype=np.bool_)
    on_plane = np.flatnonzero(np.isfinite(exact).all(axis=1))
    inside[on_plane] = shapely.dwithin(clip, shapely.points(exact[on_plane]), tolerance_m)
    at = np.round(exact)
    start, end = _period(towers, period)
    inside &= (towers.valid_from < end) & (towers.valid_to > start)
    if not inside.any():
        raise InputError(
            f"No tower lies in the region or within {buffer_m:g} m of it during the period.",
            remedy="Check that longitude and latitude are not swapped and that the validity "
            "dates meet the period.",
        )
    changes = np.concatenate((towers.valid_from[inside], towers.valid_to[inside]))
    edges = np.unique(np.concatenate(([start, end], np.clip(changes, start, end))))
    epochs = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = np.flatnonzero(inside & (towers.valid_from <= first) & (towers.valid_to >= last))
        polygons = np.full(len(towers), None, dtype=object)
        if rows.size:
            sites, which = np.unique(at[rows], axis=0, return_inverse=True)
            drawn = _tessellation(sites, clip)
            if own_reach:
                drawn = _within_reach(drawn, sites, whole)
            polygons[rows] = drawn[which.reshape(-1)]
        polygons.setflags(write=False)
        epochs.append(Epoch(first, last, polygons))
    return Cells(towers, plane, clip, tuple(epochs))


@lru_cache(maxsize=1)
def outline(region: Places | shapely.Geometry, plane: Projection) -> shapely.Geometry:
    """The region on the plane, in one piece. The last is kept: cells and border ask in turn."""
    shapes = plane.shapes(region.geometry if isinstance(region, Places) else [region])
    return shapely.union_all(shapely.make_valid(shapes))


def _period(towers: Places, period: TimeGrid | None) -> tuple[int, int]:
    if period is not None:
        return period.period
    if (towers.valid_from != ALWAYS_FROM).any() or (towers.valid_to != ALWAYS_TO).any():
        raise UsageError(
            "The towers have validity dates, so their cells depend on the period.",
            remedy="Give the period.",
        )
    return int(ALWAYS_FROM), int(ALWAYS_TO)


def _tessellation(sites: NDArray[np.float64], clip: shapely.Geometry) -> NDArray[np.object_]:
    """One polygon per site (distinct whole metres), in their order; `None` if it has no area."""
    if len(sites) == 1:
        cells = np.array([clip], dtype=object)
    else:
        diagram = shapely.voronoi_polygons(shapely.multipoints(sites), extend_to=clip)
        parts = shapely.get_parts(diagram)
        site, part = shapely.STRtree(parts).query(shapely.points(sites), predicate="within")
        if not np.array_equal(np.sort(site), np.arange(len(sites))):
            raise InputError(
                "The towers' positions do not give a Voronoi diagram.",
                remedy="Check their coordinates.",
            )
        cells = np.empty(len(sites), dtype=object)
        cells[site] = parts[part]
        crossing = ~shapely.contains_properly(clip, cells)
        cells[crossing] = shapely.intersection(cells[crossing], clip)
    cells[shapely.area(cells) <= 0] = None
    return cells


def _within_reach(
    cells: NDArray[np.object_], sites: NDArray[np.float64], whole: shapely.Geometry
) -> NDArray[np.object_]:
    """Each cell with at most its tower's reach of what lies beyond the region."""
    near = min(_NEIGHBOURS, len(sites) - 1)
    if near < 1:  # a lone tower has no spacing to go by
        return cells
    apart = np.asarray(cKDTree(sites).query(sites, near + 1)[0])[:, 1:].mean(axis=1)
    shapely.prepare(whole)
    rows = np.flatnonzero(~shapely.is_missing(cells) & ~shapely.contains_properly(whole, cells))
    found, discs = cells.copy(), shapely.buffer(shapely.points(sites[rows]), apart[rows] / 2)
    beyond = shapely.intersection(shapely.difference(cells[rows], whole), discs)
    found[rows] = shapely.union(shapely.intersection(cells[rows], whole), beyond)
    found[shapely.area(found) <= 0] = None
    return found
