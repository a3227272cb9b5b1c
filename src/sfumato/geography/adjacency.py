"""Which zones are neighbours: they share a border or a corner, or lie as near as is said."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import shapely

from sfumato.geography.projection import Projection
from sfumato.model.errors import UsageError
from sfumato.model.places import Places

TOUCHING_M = 1.0
"""Outlines drawn by hand leave hairline gaps; nearer than this is touching."""


def neighbours(zones: Places, within_m: float = TOUCHING_M) -> sp.csr_array:
    """Symmetric boolean n x n, without the diagonal. An island has an empty row."""
    if not (np.isfinite(within_m) and within_m >= 0):
        raise UsageError("Neighbours are found within a distance in metres, zero or more.")
    shapes = Projection.around(zones).shapes(zones.geometry)
    one, other = shapely.STRtree(shapes).query(shapes, predicate="dwithin", distance=within_m)
    apart = one != other
    both = (np.ones(int(apart.sum()), np.bool_), (one[apart], other[apart]))
    found = sp.csr_array(both, shape=(len(zones), len(zones)))
    found.sort_indices()
    return found
