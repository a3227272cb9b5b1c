"""`People`: the truth that an attack is scored against. INTERNAL, held by the holder alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.ground import Ground
from sfumato.attacks.recovery.tables import counts_of


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Whom the tables are about: person x slot cells, the map and the clock."""

    cells: NDArray[np.int32]
    ground: Ground
    clock: Clock
    filled: float = 0.0
    """Share of slots without a record of the person, filled with the last known place."""
    others: NDArray[np.int32] | None = None
    """Other people of the same town whom no table counts: what a census would tell. A study has
    them, a holder has not."""

    @property
    def counts(self) -> NDArray[np.int64]:
        return counts_of(self.cells, self.ground.cells)
