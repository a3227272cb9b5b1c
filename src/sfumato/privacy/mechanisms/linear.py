"""Linear queries in fixed point: integer maps of bounded counts, with their sensitivity.

Nothing is measured here: a boxed array becomes another boxed array whose integers are exact,
so no rounding is left to pay. The *public* map is rounded down to a lattice once.

Claims about the new sensitivities (any unit; neighbours add or remove its contribution x):

* `apply_map`, M >= 0 with integer columns that sum to at most `units` (area shares,
  clusters). ||M x||_1 <= units ||x||_1. In L2 a map that gathers cells can raise the norm, so
  in general ||M||_2 <= sqrt(||M||_1 ||M||_inf) and ||.||_2 <= ||.||_1 are used. Where the bound
  is on the mass per slot m_t = ||x_t||_1 (sampled counts; weighted counts without event
  norms), the caller says so: then ||M x_t||_2 <= ||M x_t||_1 <= units m_t in every slot, and
  L2 grows by `units` and no more. The result is no longer bounded in that way.
* `round_aggregate`, where an aggregate of real numbers must be rounded after all: each of
  the d cells that a unit touches moves by less than one lattice unit more, so L2 grows by
  sqrt(d) and L1 by d. `units` is a power of two, so that scaling is exact and rounding happens
  once. Numbers beyond a public limit are cut to it, which moves no two neighbours apart; to
  refuse them would be an answer about the data. Cells that a unit does not touch must be
  computed to the same bits with and without it, and no cell may be computed as not a number.

*With a public weight per place and slot* (`apply_weighted_map`) the query is b o (A x): counts x
of old places, gathered by public shares A (new x old), and multiplied by public weights b (new
place x slot). On the lattice it is one integer map per slot, M_t = floor(units * A o b_t), so
that sums are exact and nothing is rounded afterwards.

Claim about the sensitivity (any unit; neighbours add or remove its contribution x): the
source weighted each unit so that the L2 norm over slots of (sum over places of q x) is at
most its bound C, q being the event norms; the counts carry a digest of the norms they were
weighted for, and any others are refused. Each column of M_t has norm at most units * q_t
(checked here in exact integers), so by the triangle inequality ||M_t x_t||_2 <= units * sum of
q x, and the whole output moves by at most units * C in L2.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.errors import InputError, UsageError
from sfumato.model.counts import Counting, Counts, norms_digest
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS
from sfumato.privacy.mechanisms.additive import LARGEST, bounded

_AT_ONCE = 1 << 21
"""Entries of a map by slots that are held at once: 16 MiB. A year of hours in 989 zones around
1,300 towers has 50 million of them."""
_FURTHEST = 2.0**52
"""The largest rounded aggregate, in lattice units: below 2^53 doubles are exact integers."""


def quantise_map(shares: csr_array, units: int) -> csr_array:
    """floor(units * shares): a public map (new places x old places) on the integer lattice."""
    sparse = csr_array(shares)
    if units < 1 or units > 1 << 30:
        raise UsageError("A map is put on a lattice of 1 to 2^30 units.")
    if sparse.nnz and not (np.isfinite(sparse.data).all() and sparse.data.min() >= 0):
        raise InputError("The shares of a map are finite and not negative.")
    whole = csr_array(
        (np.floor(sparse.data * units).astype(np.int64), sparse.indices, sparse.indptr),
        shape=sparse.shape,
    )
    if whole.nnz and whole.sum(axis=0).max() > units:
        raise InputError(
            "The shares of a place sum to more than one.",
            remedy="Give each place at most its whole self to share out.",
        )
    return whole


def apply_map(
    box: Private[Counts],
    whole: csr_array,
    units: int,
    what: str,
    *,
    mass_per_slot: bool = False,
) -> Private[Counts]:
    """The counts of the new places, on a lattice `units` times finer.

    `mass_per_slot` says that the counts' L2 bound is on a person's mass per slot.
    """
    if whole.nnz and (whole.data.min() < 0 or whole.sum(axis=0).max() > units):
        raise InputError("The columns of an integer map sum to at most its units.")
    widest = max(int(whole.sum(axis=1).max()), 1) if whole.nnz else 1
    rows = float(widest)

    def mapped(counts: Counts) -> Counts:
        same_places(counts, whole.shape[1])
        if counts.norms:
            raise UsageError("Counts weighted for event norms pass through the map of the norms.")
        # Cut where a sum could wrap: a public limit that moves no two neighbours apart.
        held = bounded(counts.values, LARGEST // widest)
        values = np.asarray(whole @ held, dtype=np.int64)
        l1 = counts.l1 * units
        if mass_per_slot and counts.values.ndim != 2:
            raise UsageError("Only place x slot counts have a mass per slot.")
        l2 = counts.l2 * (units if mass_per_slot else math.sqrt(units * rows))
        l2 = min(l2, l1)
        finer = counts.units_per_count * units
        return replace(counts, values=values, units_per_count=finer, l1=l1, l2=l2, what=what)

    return box.map(mapped, what)


def round_aggregate(
    box: Private[NDArray[np.float64]],
    *,
    units: int,
    l1: float,
    l2: float,
    touched: int,
    counting: Counting,
    what: str,
) -> Private[Counts]:
    """Counts from a real-valued aggregate, rounded down, the rounding paid in sensitivity.

    `l1` and `l2` are those of the aggregate itself, in counts.
    """
    if units < 1 or units & (units - 1) or touched < 1:
        raise UsageError("Rounding needs a power of two as lattice and a touched cell.")

    def rounded(values: NDArray[np.float64]) -> Counts:
        known = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0)
        scaled = np.floor(np.clip(known, -_FURTHEST / units, _FURTHEST / units) * units)
        return Counts(
            values=scaled.astype(np.int64),
            units_per_count=units,
            l1=l1 * units + touched,
            l2=l2 * units + math.sqrt(touched),
            counting=counting,
            what=what,
        )

    return box.map(rounded, what)


def same_places(counts: Counts, places: int) -> None:
    if counts.values.ndim not in (1, 2) or counts.values.shape[0] != places:
        raise UsageError("The map and the counts are not about the same places.")


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


def spans(area: csr_array, slots: int) -> list[slice]:
    """Slots in runs of which the entries of a map are at most `_AT_ONCE`. Slots have nothing to do
    with one another here, so the numbers are the same however they are cut."""
    step = max(_AT_ONCE // max(area.nnz, 1), 1)
    return [slice(low, min(low + step, slots)) for low in range(0, slots, step)]


def event_norms(area: csr_array, weights: NDArray[np.float64], units: int) -> NDArray[np.int64]:
    """The L2 norm of one visit (old place x slot) after the map, in 1/`NORM_UNITS`, rounded up.

    Public. It is what the source's weights are asked to bound.
    """
    norms = np.empty((area.shape[1], weights.shape[1]), dtype=np.int64)
    for some in spans(area, weights.shape[1]):
        squares = _column_squares(area, slot_map(area, weights[:, some], units))
        # The factor lies far above the error of a square root and far below one unit.
        root = np.sqrt(squares.astype(np.float64)) * (NORM_UNITS / units)
        norms[:, some] = np.ceil(root * (1 + 1e-12)).astype(np.int64)
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
    wrong, widest = norms.shape != (area.shape[1], weights.shape[1]), 1
    for some in () if wrong else spans(area, weights.shape[1]):
        entries = slot_map(area, weights[:, some], units)
        wrong |= _exceeds(_column_squares(area, entries), norms[:, some], units)
        widest = max(int(entries.max(initial=0)), widest)
    if wrong:
        raise InputError(
            "The event norms are not those of this map.",
            remedy="Compute them with event_norms from the same area, weights and units.",
        )
    rows = np.repeat(np.arange(area.shape[0]), np.diff(area.indptr))
    weighted_for = norms_digest(norms)
    crowd = int(np.diff(area.indptr).max(initial=1)) or 1

    def mapped(counts: Counts) -> Counts:
        same_places(counts, area.shape[1])
        if counts.norms != weighted_for:
            raise UsageError("The counts were not weighted for these event norms.")
        if counts.values.ndim != 2 or counts.values.shape[1] != weights.shape[1]:
            raise UsageError("A map by slots is for place x slot counts.")
        slots = weights.shape[1]
        values = np.zeros((area.shape[0], slots), dtype=np.int64)
        for some in spans(area, slots):
            held = bounded(counts.values[:, some], LARGEST // (widest * crowd))
            entries = slot_map(area, weights[:, some], units)
            np.add.at(values[:, some], rows, entries * held[area.indices])
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
    # Doubles tell what is clearly shorter; what they cannot tell is compared as whole numbers.
    ends = np.square(norms.astype(np.float64) * units) * (1 - 1e-9)
    near = squares.astype(np.float64) * NORM_UNITS**2 > ends
    left = squares[near].astype(object) * NORM_UNITS**2
    right = (norms[near].astype(object) * units) ** 2
    return bool((left > right).any())
