"""The overlay: which share of a tower's cell lies in which zone (Acs & Castelluccia 2014, 4.2).

a_TL = area(cell of T in L) / area(cell of T), towers in rows, zones in columns. A visit at T
becomes a_TL visits in L.

**Claim.** Every tower's shares are non-negative and sum to at most 1 in exact arithmetic, so
the map leaves the mass of a user in a slot at most what it was and keeps both sensitivities
of a `Bound` (the contribution theorem, docs/guarantees.md). They sum to exactly 1 where the
cell lies inside the zones.

**How.** Shares are whole multiples of 2^-52, so float64 adds them without rounding in any
order. Areas are floating point and zones have hairline gaps: a cell that is covered but for
one part in a million counts as covered (its shares are scaled to sum to 1), overlapping zones
are scaled down to 1, and shares below 1e-9 are rounding noise and dropped.

`Layout` says where places are and how large, public geometry that a scheme may lean on; distances
between them are geodesic for pairs, and on the equal-area plane for all (in metres).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyproj
import scipy.sparse as sp
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.geography.projection import Projection
from sfumato.geography.voronoi import Cells
from sfumato.model.places import PlaceKind, Places


def geodesic(
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
    other_lon: NDArray[np.float64],
    other_lat: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Metres along the WGS84 ellipsoid between pairs of points."""
    _, _, metres = pyproj.Geod(ellps="WGS84").inv(lon, lat, other_lon, other_lat)
    return np.asarray(metres, dtype=np.float64)


def centres(places: Places, projection: Projection | None = None) -> NDArray[np.float64]:
    """n x 2 metres: the centroid of each place on the plane."""
    plane = projection or Projection.around(places)
    return shapely.get_coordinates(shapely.centroid(plane.shapes(places.geometry)))


def between_centres(places: Places, projection: Projection | None = None) -> NDArray[np.float64]:
    """n x n metres between centroids. Quadratic: for some thousand places at most."""
    at = centres(places, projection)
    apart = at[:, None, :] - at[None, :, :]
    return np.asarray(np.hypot(apart[:, :, 0], apart[:, :, 1]), dtype=np.float64)


SHARE_UNITS = 1 << 52
"""Shares are whole numbers of 2^-52."""
HAIRLINE = 1e-6
"""Uncovered share of a cell that is taken for a gap between neighbouring outlines."""
SPECK = 1e-9
"""Shares below this are noise of the geometry."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """Sparse shares, `len(place_ids)` x `len(zone_ids)`, row sums at most 1 exactly."""

    place_ids: NDArray[np.str_]
    zone_ids: NDArray[np.str_]
    shares: sp.csr_array

    def __post_init__(self) -> None:
        if self.shares.shape != (self.place_ids.size, self.zone_ids.size):
            raise UsageError("The overlay's shape is not places x zones.")
        units = _as_units(self.shares)
        if units.data.size and units.data.min() < 0:
            raise UsageError("The overlay has a negative share.")
        if (_row_sums(units) > SHARE_UNITS).any():
            raise UsageError("A tower's shares sum to more than one.")
        for part in (self.shares.data, self.shares.indices, self.shares.indptr):
            part.setflags(write=False)

    @classmethod
    def identity(cls, zones: Places) -> Overlay:
        """For events that are located in zones already."""
        return cls(zones.ids, zones.ids, sp.csr_array(sp.eye_array(len(zones), format="csr")))

    def to_zones(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Place (x slot) to zone (x slot): each place's numbers spread by its shares."""
        if values.shape[:1] != (self.place_ids.size,):
            raise UsageError(f"The overlay spreads {self.place_ids.size} places, not these.")
        return np.asarray(self.shares.T @ np.asarray(values, dtype=np.float64))

    def quantised(self, units: int) -> sp.csr_array:
        """Whole numbers of 1/`units`, rounded down: row sums at most `units`."""
        return quantised(self.shares, units)

    @property
    def sums(self) -> NDArray[np.float64]:
        """Each place's total share, exact."""
        return _row_sums(_as_units(self.shares)) / SHARE_UNITS


def overlay(cells: Cells, zones: Places) -> Overlay:
    """Area shares of the towers' cells in the zones, averaged over the epochs of the cells."""
    if zones.kind is not PlaceKind.ZONES:
        raise UsageError("Cells are laid over zones.")
    zone_shapes = shapely.make_valid(cells.projection.shapes(zones.geometry))
    tree = shapely.STRtree(zone_shapes)
    shape = (len(cells.towers), len(zones))
    total, weight = sp.csr_array(shape, dtype=np.float64), np.zeros(shape[0])
    known: dict[bytes, int] = {}
    polygons: list[shapely.Geometry] = []
    member = np.full((len(cells.epochs), shape[0]), -1, dtype=np.int64)
    for e, epoch in enumerate(cells.epochs):  # most cells stay the same from epoch to epoch
        rows = np.flatnonzero(~shapely.is_missing(epoch.polygons))
        for row, key in zip(rows, shapely.to_wkb(epoch.polygons[rows]), strict=True):
            if key not in known:
                known[key] = len(polygons)
                polygons.append(epoch.polygons[row])
            member[e, row] = known[key]
    unique = area_shares(np.array(polygons, dtype=object), zone_shapes, tree)
    for e, epoch in enumerate(cells.epochs):
        rows = np.flatnonzero(member[e] >= 0)
        pick = sp.csr_array(
            (np.full(rows.size, epoch.length), (rows, member[e, rows])),
            shape=(shape[0], len(polygons)),
        )
        total = total + pick @ unique
        weight[rows] += epoch.length
    scale = sp.diags_array(1.0 / np.where(weight > 0, weight, 1.0))
    return Overlay(cells.towers.ids, zones.ids, exact_shares(sp.csr_array(scale @ total)))


def area_shares(
    polygons: NDArray[np.object_], zones: NDArray[np.object_], tree: shapely.STRtree
) -> sp.csr_array:
    """Polygons x zones on one plane: the share of each polygon's area that lies in each zone."""
    cell, zone = tree.query(polygons, predicate="intersects")
    areas = shapely.area(polygons)
    common = shapely.area(shapely.intersection(polygons[cell], zones[zone]))
    keep = common > SPECK * areas[cell]
    cell, zone, common = cell[keep], zone[keep], common[keep]
    covered = np.bincount(cell, weights=common, minlength=polygons.size)
    base = np.where(covered >= (1 - HAIRLINE) * areas, covered, areas)
    return sp.csr_array((common / base[cell], (cell, zone)), shape=(polygons.size, zones.size))


def exact_shares(matrix: sp.csr_array) -> sp.csr_array:
    """Shares on the lattice of 2^-52: rows that sum to 1 but for rounding sum to 1 exactly.

    What rounding down leaves over, or pushes over 1, goes to the row's largest share.
    """
    found = matrix.astype(np.float64).tocsr()
    found.sum_duplicates()
    units = sp.csr_array(
        (np.floor(found.data * SHARE_UNITS).astype(np.int64), found.indices, found.indptr),
        shape=found.shape,
    )
    spare = SHARE_UNITS - _row_sums(units)
    if (spare < -SHARE_UNITS * 1e-9).any():
        raise UsageError("A tower's shares sum to more than one.")
    close = np.flatnonzero((np.abs(spare) <= SHARE_UNITS * 1e-12) & (np.diff(units.indptr) > 0))
    for row in np.union1d(close, np.flatnonzero(spare < 0)).tolist():
        first, last = units.indptr[row], units.indptr[row + 1]
        units.data[first + int(np.argmax(units.data[first:last]))] += spare[row]
    shares = sp.csr_array(
        (units.data / SHARE_UNITS, units.indices, units.indptr), shape=units.shape
    )
    shares.eliminate_zeros()
    shares.sort_indices()
    return shares


def quantised(matrix: sp.csr_array, units: int) -> sp.csr_array:
    """The matrix in whole numbers of 1/`units`, rounded down, as 64-bit integers.

    `units` is a power of two, so that the product is exact and rounding can only lower an
    entry: where a row sums to at most s, its integers sum to at most s * `units`.
    """
    if units < 1 or units & (units - 1) or units > SHARE_UNITS:
        raise UsageError("Shares are quantised in a power of two of units, at most 2^52.")
    if matrix.data.size and not (np.isfinite(matrix.data).all() and matrix.data.min() >= 0):
        raise UsageError("Only finite shares of zero or more can be quantised.")
    whole = np.floor(matrix.data * float(units)).astype(np.int64)
    found = sp.csr_array((whole, matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
    found.eliminate_zeros()
    return found


def _as_units(shares: sp.csr_array) -> sp.csr_array:
    data = shares.data * SHARE_UNITS
    whole = data.astype(np.int64)
    if not np.array_equal(whole, data):
        raise UsageError("Shares are whole multiples of 2^-52; see exact_shares.")
    return sp.csr_array((whole, shares.indices, shares.indptr), shape=shares.shape)


def _row_sums(units: sp.csr_array) -> NDArray[np.int64]:
    """Integer sums, without a detour over floating point."""
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(units.data, dtype=np.int64)))
    return running[units.indptr[1:]] - running[units.indptr[:-1]]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Centres (n x 2, metres on one plane) and areas (square metres) of n places."""

    centres: NDArray[np.float64]
    areas: NDArray[np.float64]

    def __post_init__(self) -> None:
        n = self.areas.size
        if self.areas.shape != (n,) or self.centres.shape != (n, 2):
            raise UsageError("A layout has one centre and one area for each place.")
        if not (np.isfinite(self.centres).all() and (self.areas > 0).all()):
            raise UsageError("Centres are finite and areas are positive.")

    @classmethod
    def in_order(cls, places: int) -> Layout:
        """Places on a line, one after the other: for places whose position is not known."""
        centres = np.column_stack((np.arange(places, dtype=np.float64), np.zeros(places)))
        return cls(centres, np.ones(places))

    def take(self, rows: NDArray[np.bool_]) -> Layout:
        return Layout(self.centres[rows], self.areas[rows])

    def then(self, other: Layout) -> Layout:
        """These places followed by the others."""
        return Layout(
            np.concatenate((self.centres, other.centres)),
            np.concatenate((self.areas, other.areas)),
        )


def layout_of_cells(cells: Cells) -> Layout:
    """Towers: their own positions, and the area of their cells averaged over the period.

    A tower without a cell, or in an epoch without one, has no area then; one that never has a
    cell gets the smallest area there is, and weighs nothing in a cluster.
    """
    at = cells.projection.points(*shapely.get_coordinates(cells.towers.geometry).T)
    total, length = np.zeros(len(cells.towers)), 0.0
    for epoch in cells.epochs:
        total += np.nan_to_num(shapely.area(epoch.polygons)) * epoch.length
        length += epoch.length
    # A tower far off the plane has no finite position there.
    known = np.where(np.isfinite(at), at, 1e9)
    return Layout(known, np.maximum(total / length, 1.0))


def layout_of_zones(zones: Places) -> Layout:
    """Zones: centroids and areas on the plane around them. Towers: positions, areas 1."""
    plane = Projection.around(zones)
    shapes = plane.shapes(zones.geometry)
    at = shapely.get_coordinates(shapely.centroid(shapes))
    return Layout(at, np.maximum(shapely.area(shapes), 1.0))
