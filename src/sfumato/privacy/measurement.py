"""`Measurement`, `Selection`, `Selections`: what has passed the wall, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.events import PrivacyEvent


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Public from here on: everything computed from it is post-processing and free.

    `variance` is that of the noise on each entry, in lattice units squared. `tainted` is
    true where the noise came from a seeded stream, which is for tests only.
    """

    label: str
    values: NDArray[np.int64]
    variance: float
    units_per_count: int
    event: PrivacyEvent
    tainted: bool = False

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def estimate(self) -> NDArray[np.float64]:
        """The noisy counts, in people or visits instead of lattice units."""
        return self.values / np.float64(self.units_per_count)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise, in counts."""
        return float(np.sqrt(self.variance)) / self.units_per_count


@dataclass(frozen=True, slots=True)
class Selection:
    """The index that a private choice came to, among `candidates` public ones."""

    label: str
    index: int
    candidates: int
    event: PrivacyEvent
    tainted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Selections:
    """The indices that private choices in the rows of a table came to."""

    label: str
    indices: NDArray[np.int64]
    candidates: int
    event: PrivacyEvent
    tainted: bool = False

    def __post_init__(self) -> None:
        self.indices.setflags(write=False)
