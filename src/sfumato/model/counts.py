"""`Counts` and `Bound`: bounded integer counts, and how much one user may change in them.

A `Bound` is fixed before the data is seen. Two forms (Acs & Castelluccia 2014, section 5, with the
corrected sensitivities of the contribution theorem in docs/guarantees.md):

* `SampleBound(slots=l)`: keep one visit per slot and at most l slots, both uniformly at
  random by a keyed order. One user moves the counts by at most l in L1 and sqrt(l) in L2.
* `WeightBound(limit=C)`: every visit of user u counts w_u = min(1, C / norm_u), where
  norm_u is the L2 norm over slots of the user's mass per slot. In L2 one user moves the
  counts by at most C, and in L1 by at most C * sqrt(slots) (Cauchy-Schwarz over slots).
  With `most`, w_u = min(most, C / norm_u): the same figures, as w_u * norm_u <= C either way.

Both L2 figures bound the *mass per slot*, so they hold after any map of places whose
columns sum to at most one (identity, area shares, clusters).

`Counts` is the array under such a bound with its two sensitivities. It travels inside `Private`
until a measurement has been paid for.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

WEIGHT_UNITS = 1 << 16
"""Fixed-point units of a whole weight: w_u is stored as floor(2^16 * w_u)."""

LARGEST_WEIGHT = 1 << 10
"""The most that a visit may ever count: 2^26 in fixed point, times a mass below 2^27."""
_LARGEST_LIMIT = 1 << 14
"""With larger weights a total is bounded by the limit alone: 2^30 a user, 2^62 of 2^32 users."""

MOST_PEOPLE = 10**10
"""That may be expected: more than there are."""


class Counting(StrEnum):
    """What one unit of a count is."""

    VISITS = "visits"
    """A user counts once per place and slot: the papers' density."""
    PEOPLE = "people"
    """One unit per user and slot, split evenly over the places visited in it."""


@dataclass(frozen=True, slots=True)
class SampleBound:
    """One visit per slot, at most `slots` slots, by keyed uniform sampling."""

    slots: int

    def __post_init__(self) -> None:
        if not isinstance(self.slots, int) or isinstance(self.slots, bool) or self.slots < 1:
            raise UsageError(
                "The sampling bound needs a whole number of slots, at least 1.",
                remedy="Give for example `bound='sample:30'`.",
            )

    @property
    def units_per_count(self) -> int:
        return 1

    def l1(self, grid_slots: int) -> float:
        """L1 sensitivity in lattice units: one unit in each of at most l slots."""
        return float(min(self.slots, grid_slots))

    def l2(self, grid_slots: int) -> float:
        """L2 sensitivity in lattice units: l unit entries in different slots."""
        return math.sqrt(min(self.slots, grid_slots))


@dataclass(frozen=True, slots=True)
class WeightBound:
    """Weights min(most, limit / norm) in fixed point, rounded down.

    A bound that is asked for has `most` 1: nobody counts more than once. A scheme that has
    measured how active people are sets another one to fit the limit to them afterwards: users of
    norm up to limit / most keep their proportions, and the counts are `most` times as large.
    What was charged stays what it was, because `most` has no part in it.

    *Claim.* Unit: a user's whole record; neighbours add or remove one; for any public `most` the
    counts move by at most `limit` in L2. Proof: the user's vector is w_u times one of norm
    norm_u (or less, where `people` rounds shares down), and w_u <= limit / norm_u whatever the
    other side of the minimum is. `most` must come from public or already measured numbers; it
    is a setting of the query, as event norms are.
    """

    limit: float
    most: float = 1.0

    def __post_init__(self) -> None:
        number = isinstance(self.limit, int | float) and not isinstance(self.limit, bool)
        if not (number and math.isfinite(self.limit) and self.limit > 0):
            raise UsageError(
                "The weight bound needs a finite positive limit.",
                remedy="Give for example `bound='weight:3'`.",
            )
        number = isinstance(self.most, int | float) and not isinstance(self.most, bool)
        if not (number and 1 / WEIGHT_UNITS <= self.most <= LARGEST_WEIGHT):  # also NaN
            raise UsageError(
                f"The largest weight of a user lies between 2^-16 and {LARGEST_WEIGHT}.",
                remedy="Leave `most` at 1 unless a limit is fitted after a measurement.",
            )
        if self.most > 1 and self.limit > _LARGEST_LIMIT:
            raise UsageError(
                f"Weights above 1 need a limit of at most {_LARGEST_LIMIT:,}.",
                remedy="Leave `most` at 1: such a limit weighs nobody down.",
            )

    @property
    def whole(self) -> int:
        """Weight of a user within the limit, in units of 2^-16: what `most` is exactly."""
        return math.floor(self.most * WEIGHT_UNITS)

    @property
    def units_per_count(self) -> int:
        return WEIGHT_UNITS

    def l1(self, grid_slots: int) -> float:
        """L1 sensitivity in lattice units: mass sums to at most sqrt(slots) * its L2 norm."""
        return self.limit * math.sqrt(grid_slots) * WEIGHT_UNITS

    def l2(self, grid_slots: int) -> float:  # noqa: ARG002 - same signature for both bounds
        """L2 sensitivity in lattice units: the weighted mass has norm at most `limit`."""
        return self.limit * WEIGHT_UNITS


Bound = SampleBound | WeightBound


def norms_digest(norms: NDArray[np.int64]) -> str:
    """What tells one table of event norms (public numbers) from another."""
    table = np.ascontiguousarray(norms, dtype="<i8")
    digest = hashlib.sha256(repr(table.shape).encode())
    digest.update(table.data)
    return digest.hexdigest()


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
