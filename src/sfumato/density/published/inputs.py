"""Opened counts and public geometry, as the printed schemes need them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from sfumato.density.layout import Layout
from sfumato.geography.cover import Cover
from sfumato.geography.overlay import Overlay


@dataclass(frozen=True, slots=True, eq=False)
class OpenedCounts:
    """True numbers that never leave the holder: pre-sampled counts and two totals.

    `sampled` is tower x slot with at most `limit` visits a user, `one_visit` counts one
    random visit of each user, `users` and `visits` are the true N and K.
    """

    sampled: NDArray[np.int64]
    limit: int
    one_visit: NDArray[np.int64]
    users: int
    visits: int


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """The public side: overlay, cover, where cells are, and the local starts of the slots."""

    overlay: Overlay
    cover: Cover
    zones: Layout
    towers: Layout
    starts: list[datetime]

    @property
    def cover_cells(self) -> Layout:
        """Layout of the cover's cells: its zones first, then its towers."""
        return self.zones.take(self.cover.zones).then(self.towers.take(self.cover.towers))
