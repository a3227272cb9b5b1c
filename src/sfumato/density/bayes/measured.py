"""What `bayes` measured: noisy numbers and the public settings they were taken with.

Paid for, so public: everything that is published follows from this and from public facts, by
`inference`. It is kept apart from the wall so that the same numbers can be read again, with a
better method or together with those of other weeks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """The ladder, and noisy totals of counted places and of slots.

    Totals are of bounded people: `place_limit` and `slot_limit` are the norms up to which a person
    counts fully.
    """

    steps: tuple[int, ...]
    ladder: Vector
    """Noisy sums of the steps …"""
    ladder_sd: Vector
    """… and the standard deviation of the noise of each."""
    places: Vector
    places_sd: float
    place_limit: float
    slots: Vector
    slots_sd: float
    slot_limit: float


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The margins, and the matrix that was weighted by what they say."""

    margins: Margins
    weights: Table
    """b, released x slots: made from the margins, before the matrix was measured."""
    matrix: Table
    """b o (A x) of bounded people, noisy."""
    matrix_sd: float
    matrix_limit: float
