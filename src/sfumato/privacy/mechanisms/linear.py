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
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.model.bound import Counting
from sfumato.model.counts import Counts
from sfumato.model.errors import InputError, UsageError
from sfumato.model.private import Private
from sfumato.privacy.mechanisms.addition import LARGEST, bounded

_FURTHEST = 2.0**52
"""The largest rounded aggregate, in lattice units."""


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
