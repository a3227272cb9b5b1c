"""`Layout`: where places are and how large. Public geometry that a scheme may lean on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError

if TYPE_CHECKING:
    from sfumato.geography.voronoi import Cells
    from sfumato.model.places import Places


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

    A tower without a cell has the smallest area there is: it weighs nothing in a cluster.
    """
    import shapely

    at = cells.projection.points(*shapely.get_coordinates(cells.towers.geometry).T)
    total, length = np.zeros(len(cells.towers)), 0.0
    for epoch in cells.epochs:
        total += shapely.area(epoch.polygons) * epoch.length
        length += epoch.length
    # A tower far off the plane has no finite position there.
    known = np.where(np.isfinite(at), at, 1e9)
    return Layout(known, np.maximum(total / length, 1.0))


def layout_of_zones(zones: Places) -> Layout:
    """Zones: centroids and areas on the plane around them. Towers: positions, areas 1."""
    import shapely

    from sfumato.geography.distances import centres
    from sfumato.geography.projection import Projection

    plane = Projection.around(zones)
    areas = shapely.area(plane.shapes(zones.geometry))
    return Layout(centres(zones, plane), np.maximum(areas, 1.0))
