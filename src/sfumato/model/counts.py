"""`Counts`: a bounded integer array and what one user can change in it.

It travels inside `Private` until a measurement has been paid for.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.model.bound import Counting
from sfumato.model.errors import UsageError


def norms_digest(norms: NDArray[np.int64]) -> str:
    """What tells one table of event norms (public numbers) from another."""
    table = np.ascontiguousarray(norms, dtype="<i8")
    return hashlib.sha256(repr(table.shape).encode() + table.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Integers on a lattice of 1/`units_per_count`, with the sensitivity of its bound.

    `l1` and `l2` are in lattice units and hold for adding or removing one user's whole
    record. For place x slot counts of a `Bound` they bound the user's mass per slot, so they
    survive any non-negative map of places whose columns sum to at most one. Totals over slots
    and counts weighted by event norms do not have that property: measure them as they are.
    Infinite sensitivities mean that nothing bounds the counts, and nothing will measure them.
    With `norms`, the sensitivities are those of the counts *multiplied by event norms*, and
    say nothing about the counts themselves: these pass the wall through the map that the norms
    are of, and in no other way. The values are never part of the repr.
    """

    values: NDArray[np.int64] = field(repr=False)
    units_per_count: int
    l1: float
    l2: float
    counting: Counting
    what: str
    norms: str = ""
    """Digest of the event norms that people were weighted for; empty without any."""

    def __post_init__(self) -> None:
        if self.values.dtype != np.int64:
            raise UsageError("Counts are 64-bit integers; nothing else passes the wall.")
        if not (self.units_per_count >= 1 and self.l1 >= 0 and self.l2 >= 0):  # also NaN
            raise UsageError("Counts need a positive lattice and non-negative sensitivities.")
        own = self.values.copy()  # nobody else holds it, so nobody can change it
        own.setflags(write=False)
        object.__setattr__(self, "values", own)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)
