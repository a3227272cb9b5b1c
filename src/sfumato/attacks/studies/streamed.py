"""People published by a stream, for studies: the real scheme, slot after slot, seeded noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.tables import counts_of
from sfumato.privacy.units import Unit
from sfumato.stream.calendar import Calendar
from sfumato.stream.facts import StreamFacts
from sfumato.stream.registry import DEFAULT, stream_scheme
from sfumato.stream.run import run_scheme


@dataclass(frozen=True, slots=True)
class StreamStage:
    """The public side of a stream on a grid: cells in rows of `columns`, slots a day."""

    cells: int
    columns: int | None
    slots_a_day: int
    first_weekday: int = 0
    unit: str = "user-day"

    def published(
        self,
        rows: NDArray[np.int32],
        epsilon: float,
        delta: float,
        seed: int,
        *,
        scheme: str = DEFAULT,
        expected: int | None = None,
    ) -> NDArray[np.float64]:
        """Cell x slot of whole days of `rows`, people x slot; `expected` people are known."""
        counts = np.ascontiguousarray(counts_of(rows, self.cells).T)
        facts = StreamFacts(
            self.cells,
            Calendar.regular(len(counts), self.slots_a_day, self.first_weekday),
            epsilon,
            delta,
            Unit.parse(self.unit),
            len(rows) if expected is None else expected,
            self.columns,
        )
        return np.ascontiguousarray(run_scheme(stream_scheme(scheme), facts, counts, seed).values.T)
