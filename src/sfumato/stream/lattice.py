"""Whether places are the cells of a full grid in row order: public geometry, and nothing else.

Schemes that look at a cell's surroundings need to know who its neighbours are. Where the
middles of the zones, in the order of their ids, step evenly along rows of one length, the
length of a row is found here; towers and statistical areas are no grid.
"""

from __future__ import annotations

import numpy as np
import shapely

from sfumato.model.places import PlaceKind, Places

_UNEVEN = 0.2
"""Share of a step by which steps may differ: squares of a plane are not quite even in degrees."""


def grid_columns(places: Places) -> int | None:
    """Cells in a row, or None where the places are no full rectangle in row order."""
    if places.kind is not PlaceKind.ZONES or len(places) < 4:
        return None
    middles = shapely.get_coordinates(shapely.centroid(places.geometry))
    steps = np.diff(middles, axis=0)
    turns = np.flatnonzero(~_even(steps, steps[0]))
    if not turns.size or len(middles) % (turns[0] + 1):
        return None
    columns = int(turns[0]) + 1
    if columns < 2:
        return None
    grid = middles.reshape(-1, columns, 2)
    along, down = np.diff(grid, axis=1), np.diff(grid, axis=0)
    (ax, ay), (bx, by) = along[0, 0], down[0, 0]
    upright = abs(ax * by - ay * bx) > 0.5 * np.hypot(ax, ay) * np.hypot(bx, by)
    if not (upright and _even(along, along[0, 0]).all() and _even(down, down[0, 0]).all()):
        return None
    return columns


def _even(steps: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.asarray(np.hypot(*np.moveaxis(steps - first, -1, 0)) <= _UNEVEN * np.hypot(*first))
