"""Arrays with their sensitivity: what every engine's answers say about one user.

Add or remove one user's whole record. M is any non-negative map of places whose columns sum to
at most one (identity, area shares, clusters); per slot it does not raise the L1 norm.

===============  ===========================  =========================  ====================
answer           L1 (lattice units)           L2 (lattice units)         after M
===============  ===========================  =========================  ====================
sampled          l                            sqrt(l)                    both hold
weighted         2^16 C sqrt(slots)           2^16 C                     both hold
with norms q     2^16 C sqrt(slots)           2^16 C                     of counts times q
place totals     2^16 C sqrt(places)          2^16 C                     L1 only: noise first
slot totals      2^16 C sqrt(slots)           2^16 C                     (no places)
capped total     cap                          cap                        (no places)
exact            infinite                     infinite                   never measured
===============  ===========================  =========================  ====================

Sampled: at most l slots with one unit each. Weighted: the user adds mass at most w m_t in slot
t, so in L2 over slots at most w norm <= 2^16 C (`sfumato.engine.weights`), and per slot the L2
norm over places is at most the L1 norm, before and after M; L1 by Cauchy-Schwarz over slots.
With norms q the same argument bounds sum over places of q times the count: the statement is
about any map that sends a visit at (place, slot) to a vector of L2 norm at most q.
Place totals: entries are rounded down from a vector scaled to C, but M may add up the entries
of many places in one zone, which raises L2: measure first, map the noisy totals afterwards.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.weights import MASS_CEILING
from sfumato.model.bound import WEIGHT_UNITS, Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts, norms_digest
from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.model.time_grid import TimeGrid


def _boxed(
    values: NDArray[np.int64], units: int, l1: float, l2: float, counting: Counting, what: str
) -> Private[Counts]:
    return Private(Counts(values, units, l1, l2, counting, what), what)


def sampled_counts(
    values: NDArray[np.int64], bound: SampleBound, grid: TimeGrid
) -> Private[Counts]:
    """Sampling keeps one unit per user and slot, so what is counted is people, thinned."""
    what = f"place x slot, one visit a slot and at most {bound.slots} slots a user"
    return _boxed(values, 1, bound.l1(grid.slots), bound.l2(grid.slots), Counting.PEOPLE, what)


def weighted_counts(
    values: NDArray[np.int64],
    bound: WeightBound,
    counting: Counting,
    grid: TimeGrid,
    event_norms: NDArray[np.int64] | None,
) -> Private[Counts]:
    what = f"place x slot of {counting}, weighted to norm {bound.limit:g}"
    norms = ""
    if event_norms is not None:
        what += "; sensitivity of the counts multiplied by the event norms"
        norms = norms_digest(event_norms)
    l1, l2 = bound.l1(grid.slots), bound.l2(grid.slots)
    return Private(Counts(values, WEIGHT_UNITS, l1, l2, counting, what, norms), what)


def place_total_counts(
    values: NDArray[np.int64], bound: WeightBound, counting: Counting
) -> Private[Counts]:
    what = f"place totals of {counting}, scaled to norm {bound.limit:g}"
    l2 = bound.limit * WEIGHT_UNITS
    return _boxed(values, WEIGHT_UNITS, l2 * math.sqrt(values.size), l2, counting, what)


def slot_total_counts(
    values: NDArray[np.int64], bound: WeightBound, counting: Counting
) -> Private[Counts]:
    what = f"slot totals of {counting}, scaled to norm {bound.limit:g}"
    l2 = bound.limit * WEIGHT_UNITS
    return _boxed(values, WEIGHT_UNITS, l2 * math.sqrt(values.size), l2, counting, what)


def capped_total_count(total: int, cap: int, counting: Counting) -> Private[Counts]:
    values = np.array([total], np.int64)
    what = f"total of {counting}, at most {cap} a user"
    return _boxed(values, 1, float(cap), float(cap), counting, what)


def exact_counts(values: NDArray[np.int64], counting: Counting) -> Private[Counts]:
    units = WEIGHT_UNITS if counting is Counting.PEOPLE else 1
    what = f"place x slot of {counting}, unbounded: never to be measured"
    return _boxed(values, units, math.inf, math.inf, counting, what)


def checked_norms(norms: NDArray[Any], places: int, slots: int) -> NDArray[np.int64]:
    """Event norms as the engines use them. Public numbers, so they may be refused.

    They are not cut at MASS_CEILING: a mean over places of cut norms can lie below the ceiling
    where the true mean does not, and the weight would be too large.
    """
    array = np.asarray(norms)
    if array.shape != (places, slots) or array.dtype != np.int64 or bool((array < 0).any()):
        raise UsageError(
            f"Event norms are non-negative 64-bit integers, one per place and slot "
            f"({places} x {slots})."
        )
    if array.size and int(array.max()) >= MASS_CEILING:
        raise UsageError(
            "An event norm is 2^19 or more.",
            remedy="Scale the weights of the map down: a visit at such a place counts nothing.",
        )
    return np.ascontiguousarray(array)


def checked_cap(cap: int) -> int:
    if not isinstance(cap, int) or isinstance(cap, bool) or not 1 <= cap < 1 << 53:
        raise UsageError("The cap of a total is a whole number, at least 1.")
    return cap


def checked_key(key: bytes) -> bytes:
    if len(key) < 16:
        raise UsageError("The sampling key needs at least 16 secret bytes.")
    return key


class BoundBroken(AssertionError):
    """A count broke its own bound: a fault in the program, and nothing may be published."""
