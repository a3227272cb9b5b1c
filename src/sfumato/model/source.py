"""`Source`: what a scheme is given instead of an engine.

It answers with private arrays that only the wall can open. Every query states what one
user can change, and the arrays are the same bytes on every engine for the same key.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.time_grid import TimeGrid


class Source(Protocol):
    """Bounded counts of one data set over `grid` and `place_ids` (public keys, fixed order)."""

    @property
    def grid(self) -> TimeGrid: ...

    @property
    def place_ids(self) -> NDArray[np.str_]: ...

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        """Place x slot: one visit a slot, at most l slots a user. L1 l, L2 sqrt(l)."""

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        """Place x slot, user u counting w_u = min(1, C / norm_u). L2 C.

        With `event_norms` (place x slot, public non-negative integers on the lattice of
        1/`NORM_UNITS`), a visit's mass in the norm is its entry there instead of one, and
        the L2 statement is about the counts multiplied by these norms.
        """

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        """Vector over places of each user's totals, scaled to L2 at most C."""

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        """Vector over slots of each user's mass, scaled to L2 at most C."""

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        """One number: the sum over users of min(total, cap). Sensitivity cap."""

    def exact(self, counting: Counting) -> Private[Counts]:
        """Unbounded counts, the truth for `evaluate`. Sensitivity infinite: never measured."""


NORM_UNITS = 1 << 8
"""Fixed-point units of an event norm."""
