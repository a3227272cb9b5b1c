"""Linear queries with a public weight per place and slot, in fixed point.

The query is b o (A x): counts x of old places, gathered by public shares A (new x old), and
multiplied by public weights b (new place x slot). On the lattice it is one integer map per
slot, M_t = floor(units * A o b_t), so that sums are exact and nothing is rounded afterwards.

Claim about the sensitivity (any unit; neighbours add or remove its contribution x): the
source weighted each unit so that the L2 norm over slots of (sum over places of q x) is at
most its bound C, q being the event norms; the counts carry a digest of the norms they were
weighted for, and any others are refused. Each column of M_t has norm at most units * q_t
(checked here in exact integers), so by the triangle inequality ||M_t x_t||_2 <= units * sum of
q x, and the whole output moves by at most units * C in L2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.model.counts import Counts, norms_digest
from sfumato.model.errors import InputError, UsageError
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS
from sfumato.privacy.mechanisms.addition import LARGEST, bounded
from sfumato.privacy.mechanisms.linear import same_places


def slot_map(area: csr_array, weights: NDArray[np.float64], units: int) -> NDArray[np.int64]:
    """floor(units * A_LT * b_Lt) for every entry of A (in its own order) and every slot."""
    if not area.has_canonical_format:
        # Two entries for one pair would each pass where their sum does not.
        raise UsageError("The shares hold a pair twice.", remedy="Call sum_duplicates() first.")
    rows = np.repeat(np.arange(area.shape[0]), np.diff(area.indptr))
    scaled = area.data[:, None] * weights[rows] * units
    if scaled.size and not (
        np.isfinite(scaled).all() and 0 <= scaled.min() <= scaled.max() < 2**30
    ):
        raise InputError("The weights of a map are finite, not negative and below 2^30 units.")
    return np.floor(scaled).astype(np.int64)


def event_norms(area: csr_array, weights: NDArray[np.float64], units: int) -> NDArray[np.int64]:
    """The L2 norm of one visit (old place x slot) after the map, in 1/`NORM_UNITS`, rounded up.

    Public. It is what the source's weights are asked to bound.
    """
    squares = _column_squares(area, slot_map(area, weights, units))
    # The factor lies far above the error of a square root and far below one unit.
    root = np.sqrt(squares.astype(np.float64)) * (NORM_UNITS / units)
    norms: NDArray[np.int64] = np.ceil(root * (1 + 1e-12)).astype(np.int64)
    return norms


def apply_weighted_map(
    box: Private[Counts],
    area: csr_array,
    weights: NDArray[np.float64],
    norms: NDArray[np.int64],
    units: int,
    what: str,
) -> Private[Counts]:
    """New place x slot: b o (A x), for counts whose weights bound `norms`; L2 stays C."""
    entries = slot_map(area, weights, units)
    squares = _column_squares(area, entries)
    if squares.shape != norms.shape or _exceeds(squares, norms, units):
        raise InputError(
            "The event norms are not those of this map.",
            remedy="Compute them with event_norms from the same area, weights and units.",
        )
    rows = np.repeat(np.arange(area.shape[0]), np.diff(area.indptr))
    weighted_for = norms_digest(norms)
    widest = max(int(entries.max(initial=0)), 1)
    crowd = int(np.diff(area.indptr).max(initial=1)) or 1

    def mapped(counts: Counts) -> Counts:
        same_places(counts, area.shape[1])
        if counts.norms != weighted_for:
            raise UsageError("The counts were not weighted for these event norms.")
        if counts.values.ndim != 2 or counts.values.shape[1] != weights.shape[1]:
            raise UsageError("A map by slots is for place x slot counts.")
        held = bounded(counts.values, LARGEST // (widest * crowd))
        values = np.zeros((area.shape[0], weights.shape[1]), dtype=np.int64)
        np.add.at(values, rows, entries * held[area.indices])
        slots = weights.shape[1]
        return Counts(
            values=values,
            units_per_count=counts.units_per_count * units,
            l1=counts.l2 * units * math.sqrt(slots * area.shape[0]),
            l2=counts.l2 * units,
            counting=counts.counting,
            what=what,
        )

    return box.map(mapped, what)


def _column_squares(area: csr_array, entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum over new places of the squared entries: old place x slot."""
    squares = np.zeros((area.shape[1], entries.shape[1]), dtype=np.int64)
    if entries.size and float(entries.max()) ** 2 * area.shape[0] >= 2.0**62:
        raise InputError("The weights of a map are too large for its lattice.")
    np.add.at(squares, area.indices, entries * entries)
    return squares


def _exceeds(squares: NDArray[np.int64], norms: NDArray[np.int64], units: int) -> bool:
    """Whether a column is longer than its event norm says, decided in exact integers."""
    left = squares.astype(object) * NORM_UNITS**2
    right = (norms.astype(object) * units) ** 2
    return bool((left > right).any())
