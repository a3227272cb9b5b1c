"""The matrix mechanism for every hour: zones as the workload, the best strategy there is.

Stands for HDMM (McKenna et al. 2018) per hour: under Gaussian noise its search has a convex
optimum, which `strategy` computes, so this is at least as good in squared error. Sensitivity:
see `strategy`; one Gaussian measurement of all rows and slots with L2 C.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from sfumato.density.scheme import PublicFacts
from sfumato.model.bound import WEIGHT_UNITS
from sfumato.model.source import Source
from sfumato.privacy.calibration import GaussianPart
from sfumato.privacy.wall import Wall
from sfumato.reproduction.frontier.level import (
    Table,
    bounded,
    finished,
    purse,
    touched_everywhere,
)
from sfumato.reproduction.frontier.strategy import UNITS, Strategy, apply_strategy, best_strategy

LIMIT = 1.0
"""C. On tuning cities nothing from 0.75 to 2 was better by more than the noise of the draws."""
ROWS = "strategy"


@dataclass(frozen=True, slots=True)
class MatrixMechanism:
    """The baseline; the strategy of a map is computed once and kept."""

    limit: float = LIMIT
    _known: dict[str, Strategy] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return "matrix mechanism"

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Table:
        strategy = self._strategy(facts)
        rows = strategy.whole.shape[0]
        part = GaussianPart(self.limit * WEIGHT_UNITS * UNITS, touched_everywhere(facts, rows))
        spent = purse(wall, facts, {ROWS: part})
        box = apply_strategy(bounded(source, facts, self.limit), strategy.whole)
        noisy = spent.measure(ROWS, box).estimate()
        return finished(spent, source, facts, strategy.back @ noisy)

    def _strategy(self, facts: PublicFacts) -> Strategy:
        if facts.overlay is None:
            workload = np.eye(facts.places)
        else:
            workload = np.asarray(facts.overlay.shares.T.toarray(), dtype=np.float64)
        key = hashlib.sha256(workload.tobytes()).hexdigest()
        if key not in self._known:
            self._known[key] = best_strategy(workload)
        return self._known[key]
