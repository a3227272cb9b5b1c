"""`Asked`: what every source of bounded counts is made of, and the questions it can answer
without counting. Sources differ in how they count, never in what they were asked about.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.fingerprint import earlier_fingerprints, fingerprint
from sfumato.io.events import resolved
from sfumato.model.events import Events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid


class Asked:
    """Events, the places and slots they are counted over, and how much of the machine to use."""

    def __init__(
        self,
        events: Events,
        places: Places,
        grid: TimeGrid,
        *,
        threads: int | None = None,
        memory_limit: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._described = events
        self._events = resolved(events, places.kind is PlaceKind.ZONES)
        self._places = places
        self._grid = grid
        self._threads = threads or os.cpu_count() or 1
        self._memory_limit = memory_limit
        self._progress = progress

    @property
    def grid(self) -> TimeGrid:
        return self._grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._places.ids

    def fingerprint(self, key: bytes) -> str:
        return fingerprint(self._events, self._places, self._grid, key, self._progress)

    def earlier_fingerprints(self, key: bytes) -> frozenset[str]:
        """What a reservation made by an earlier version may hold for the same input."""
        return earlier_fingerprints(self._described, self._places, self._grid, key)

    @property
    def _shape(self) -> tuple[int, int]:
        """Places and slots of every table."""
        return len(self._places), self._grid.slots
