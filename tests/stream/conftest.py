"""Small streams: public facts for a unit, and counts that try to break a meter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.privacy.units import Unit
from sfumato.stream.calendar import Calendar
from sfumato.stream.facts import StreamFacts

CELLS, PER_DAY = 12, 8


@pytest.fixture
def facts() -> Callable[..., StreamFacts]:
    def make(
        unit: str = "user-day",
        days: int = 3,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        cells: int = CELLS,
        per_day: int = PER_DAY,
        people: int | None = 1000,
        columns: int | None = 4,
    ) -> StreamFacts:
        calendar = Calendar.regular(days * per_day, per_day)
        return StreamFacts(cells, calendar, epsilon, delta, Unit.parse(unit), people, columns)

    return make


@pytest.fixture
def adversarial() -> Callable[[str, StreamFacts], NDArray[np.int64]]:
    """Streams (slot x cell) that a careless budget would not survive."""

    def make(kind: str, facts: StreamFacts) -> NDArray[np.int64]:
        counts = np.zeros((facts.slots, facts.cells), dtype=np.int64)
        if kind == "constant":
            counts[:] = 80
        elif kind == "alternating":
            counts[::2, ::2] = 500
            counts[1::2, 1::2] = 500
        elif kind == "spike":
            counts[facts.slots // 2] = 10_000
        elif kind == "one user":
            counts[np.arange(facts.slots), np.arange(facts.slots) % facts.cells] = 1
        return counts

    return make
