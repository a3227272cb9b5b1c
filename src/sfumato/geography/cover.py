"""A smallest set of towers and zones that sees every overlap (Acs & Castelluccia 2014, 5.2).

Towers and zones are the two sides of a graph with an edge where a cell and a zone overlap. A
minimum vertex cover C (maximum matching and König's construction) is the smallest set of cells
from which all zones can be computed: fewer, fuller cells take less relative noise.

With c_T = 1 - sum of a_TL over the zones L in C, the counts are Y_L = sum over T of a_TL X_T
for zones in C and Y_T = c_T X_T for towers in C. **Claim.** One visit adds at most 1 to Y in
all, and exactly 1 if its tower is in C or its cell lies inside the zones: for T in C the shares
of the covered zones and c_T make 1; for T outside C every zone it meets is in C. (Subtracting
the *counts* of the overlapping zones, which hold other towers' visits too, moves up to 1.7 in
L1 on city-like maps and does not have this bound.) On the way back X_L = sum over T of
Y_T a_TL / c_T for zones outside C: all towers that meet L are in C, and c_T > 0, because a
tower whose zones are all in C could be dropped from the smallest cover.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import maximum_bipartite_matching

from sfumato.errors import UsageError
from sfumato.geography.overlay import Overlay, exact_shares


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Which zones and towers are in the cover, zones first in the order of its cells.

    `forward` (cover x place) takes place counts to cover counts; `back` (zone x cover) takes
    these to zones; `back @ forward` is the overlay.
    """

    zones: NDArray[np.bool_]
    towers: NDArray[np.bool_]
    uncovered_share: NDArray[np.float64]
    """c_T of each tower; 1 - (sum of its shares in the covered zones)."""
    forward: sp.csr_array
    back: sp.csr_array

    @property
    def size(self) -> int:
        return int(self.zones.sum() + self.towers.sum())

    @property
    def cell_ids(self) -> tuple[tuple[str, int], ...]:
        """("zone" or "tower", row) of each cell of the cover."""
        zones = [("zone", int(k)) for k in np.flatnonzero(self.zones)]
        return tuple(zones + [("tower", int(k)) for k in np.flatnonzero(self.towers)])


def minimum_cover(overlay: Overlay) -> Cover:
    """The minimum-cardinality cover of an overlay, checked."""
    shares = overlay.shares
    towers, zones = minimum_vertex_cover(shares)
    in_zones = sp.csr_array(shares @ sp.diags_array(zones.astype(np.float64)))
    in_zones.eliminate_zeros()
    rest = np.asarray(
        1.0 - in_zones.sum(axis=1), dtype=np.float64
    )  # exact: shares are whole multiples of 2^-52
    places = np.flatnonzero(towers)
    forward = sp.csr_array(
        sp.vstack(
            (
                shares.T.tocsr()[np.flatnonzero(zones)],
                sp.csr_array(
                    (rest[places], (np.arange(places.size), places)),
                    shape=(places.size, towers.size),
                ),
            )
        )
    )
    forward = sp.csr_array(exact_shares(sp.csr_array(forward.T)).T)
    outside = sp.csr_array(
        sp.diags_array((~zones).astype(np.float64))
        @ shares.T.tocsr()[:, places]
        @ sp.diags_array(1.0 / rest[places])
    )
    known = np.flatnonzero(zones)
    inside = sp.csr_array(
        (np.ones(known.size), (known, np.arange(known.size))), shape=(zones.size, known.size)
    )
    back = sp.csr_array(sp.hstack((inside, outside)))
    back.eliminate_zeros()
    return Cover(zones, towers, rest, forward, back)


def minimum_vertex_cover(graph: sp.csr_array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows and columns of a smallest set that touches every stored entry of `graph`.

    König: start from the unmatched rows, walk unmatched edges to columns and matched edges
    back; the cover is the rows not reached and the columns reached.
    """
    edges = sp.csr_array((np.ones(graph.nnz, np.int8), graph.indices, graph.indptr), graph.shape)
    column_of = maximum_bipartite_matching(sp.csr_matrix(edges), perm_type="column")
    row_of = np.full(graph.shape[1], -1, dtype=np.int64)
    matched = np.flatnonzero(column_of >= 0)
    row_of[column_of[matched]] = matched
    reached_rows = column_of < 0
    reached_columns = np.zeros(graph.shape[1], dtype=np.bool_)
    front = np.flatnonzero(reached_rows)
    while front.size:
        columns = np.unique(edges[front].indices)
        columns = columns[~reached_columns[columns]]
        reached_columns[columns] = True
        front = row_of[columns]  # all matched, or the matching could grow
        front = front[~reached_rows[front]]
        reached_rows[front] = True
    rows = ~reached_rows
    row, column = edges.nonzero()
    if not (rows[row] | reached_columns[column]).all():
        raise UsageError("The cover misses an overlap.")
    if int(rows.sum() + reached_columns.sum()) != matched.size:
        raise UsageError("The cover is larger than the matching.")
    return rows, reached_columns
