"""From the levels of a Gaussian estimate to those that the law of levels says.

Cities are sparse: most cells hold hardly anybody, a few hold many. Shrinkage with one Gaussian
prior leaves noise in the empty ones and takes people from the full ones. So levels come from
the law of levels (`law`), one for each cell (`choice`). Where the bell fits best the Gaussian
estimate stays, and is only lifted by what busy cells count more; and where the noise is finer than
the law's grid a cell's Gaussian level stays. Everything is computed from noisy means:
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.stream.consistency import nearest_counts
from sfumato.stream.contract import Values
from sfumato.stream.schemes.rhythm.choice import chosen
from sfumato.stream.schemes.rhythm.law import picture


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Brings a Gaussian estimate to other levels: down by a factor, up by people."""

    factor: Values
    more: Values
    settled: NDArray[np.bool_]
    """Cells whose level was chosen: how uncertain it is has been taken into account."""
    doubt: Values
    """How uncertain chosen levels are (a variance)."""

    def apply(self, values: Values, variance: Values, of_level: Values) -> tuple[Values, Values]:
        """`of_level` is the part of the variance that is the level's."""
        left = np.where(self.settled, np.maximum(variance - of_level, 0.0), variance)
        return values * self.factor + self.more, left * np.square(self.factor)

    def sd(self, variance: Values) -> float:
        """Standard deviation of one value, in the mean over cells."""
        return float(np.sqrt((variance + self.doubt).mean()))


def correction(
    mean: Values,
    prior: Values,
    base: Values,
    variance: float,
    draws: int,
    laplace: bool,
    whole: bool = True,
    chance: float = 0.0,
) -> Correction:
    """From the levels `base` to those of the law that fits the noisy means best.

    Levels are chosen for the least absolute error of `whole` counts, or else are means.
    """
    found = picture(mean, prior, variance, draws, laplace, chance)
    if whole:
        level, lifted = chosen(found, nearest_counts(mean).astype(np.float64))
    else:
        level, lifted = found.expected, np.zeros(mean.size)
    settled = level * (found.step - 1) <= math.sqrt(variance)
    none = np.zeros(mean.size)
    if found.name == "bell":
        more = np.where(settled, lifted, 0.0)
        return Correction(none + 1, more, none.astype(bool), none)
    doubt = np.where(settled, found.doubt(level), 0.0)
    level = np.where(settled, level, base)
    factor = np.minimum(level / np.maximum(base, 1e-9), 1.0)
    return Correction(factor, np.maximum(level - base, 0.0), settled, doubt)
