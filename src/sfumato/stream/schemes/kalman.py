"""A scalar Kalman filter for every cell at once: post-processing of noisy counts.

State x with process variance `process` a slot, observations with variance `noise`. Both are
public: the process variance is a guess that nobody looks up in the raw data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.stream.contract import Values


@dataclass(slots=True)
class Kalman:
    """Estimates and their variances, one per cell; `process` may differ from cell to cell."""

    estimate: Values
    variance: Values
    process: Values

    @classmethod
    def start(cls, cells: int, variance: float, process: float) -> Kalman:
        return cls(np.zeros(cells), np.full(cells, variance), np.full(cells, process))

    def predict(self) -> None:
        self.variance = self.variance + self.process

    def correct(
        self, observed: Values, noise: float, index: slice | NDArray[np.int64] = slice(None)
    ) -> None:
        """Take up observations of the cells `index`, with noise of a known variance."""
        gain = self.variance[index] / (self.variance[index] + noise)
        self.estimate[index] += gain * (observed - self.estimate[index])
        self.variance[index] *= 1 - gain


def default_process(expected_users: int | None, cells: int) -> float:
    """A public guess of how much a count drifts a slot: the mean count, as Poisson counts do."""
    return max(1.0, (expected_users or cells) / cells)
