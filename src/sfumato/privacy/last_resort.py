"""The last resort: what is published where arithmetic on noisy numbers fails.

What was reserved is paid for, so what is read from noisy numbers is made to have an answer whatever
they are (tests/total). Should arithmetic fail all the same (a matrix without an inverse, a division
by zero, a result that is no number), the publisher gives what it can without any: totals spread by
public shares, each number within the widest interval that is honest, and a remark that says so.

*What counts.* Errors of arithmetic, raised while noisy numbers were read. Memory, disk, signals and
faults of the program (a missing key, a wrong type, a broken assertion) are none, and stop the run
with its budget reserved, to be taken up again. Neither is an error that came through counting or
drawing: it would tell of records. So whether the last resort is used follows from noisy numbers
and public facts, as all that it publishes does: post-processing.

`uses` counts, for the tests: none on noise that can occur.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Measurement
from sfumato.privacy.wall import Wall

T = TypeVar("T")
Vector = NDArray[np.float64]

REMARK = (
    "Arithmetic on the noisy numbers failed here, so they could not be read as usual. Numbers are "
    "shares of a noisy total, spread by public shares; each may be anything from nothing up to all."
)
COVERAGE = 0.90
_FAR = 5.0
"""Standard deviations that a noisy total is held to be within."""
_MORE = 3.0
"""Times the publicly expected people that there may be."""
_NO_NUMBER = ("infs or nans", "nan to integer", "infinity to integer")
"""How libraries that raise a plain ValueError speak of numbers that are none."""
_BEFORE = ("sfumato.engine", "sfumato.privacy.mechanisms", "sfumato.privacy.noise")
"""Where records are counted and noise is drawn."""
_USES: Counter[str] = Counter()


def uses() -> Mapping[str, int]:
    """How often each publisher has come to its last resort in this process."""
    return MappingProxyType(_USES)


def refined(publisher: str, read: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """What is read from noisy numbers; `otherwise`, where arithmetic on them fails."""
    try:
        return read()
    except (ArithmeticError, ValueError) as error:
        if not _of_arithmetic(error):
            raise
    _USES[publisher] += 1
    return otherwise()


def numbers(*tables: Any) -> None:
    """Nothing, where all of it are numbers.

    Raises:
        FloatingPointError: Something is infinite or none.
    """
    for table in tables:
        if table is not None and not np.isfinite(table).all():
            raise FloatingPointError("a result is no number")


def _of_arithmetic(error: ArithmeticError | ValueError) -> bool:
    if not isinstance(error, ArithmeticError | np.linalg.LinAlgError):
        text = str(error).lower()
        if not any(words in text for words in _NO_NUMBER):
            return False
    frames = (frame.f_globals for frame, _ in traceback.walk_tb(error.__traceback__))
    return not any(str(names.get("__name__", "")).startswith(_BEFORE) for names in frames)


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """One measurement by its sums: all that the last resort reads."""

    measured: Measurement
    """Without its numbers."""
    rows: Vector
    columns: Vector
    """Empty where it is a list and no table."""

    @property
    def total(self) -> float:
        return float(self.rows.sum())

    @property
    def highest(self) -> float:
        """What the true sum is hardly above."""
        cells = self.rows.size * max(self.columns.size, 1)
        return self.total + _FAR * self.measured.sd * float(np.sqrt(cells))


class HearingWall(Wall):
    """A wall that keeps the sums of what it handed over."""

    def __init__(self, charger: Any, key: bytes, branch: str = "measurement") -> None:
        super().__init__(charger, key, branch)
        self.heard: dict[str, Heard] = {}

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        return self._hear(super().gaussian(box, sigma2=sigma2, label=label, touched=touched))

    def laplace(
        self, box: Private[Counts], *, scale: Fraction | int, label: str, about: str = ""
    ) -> Measurement:
        return self._hear(super().laplace(box, scale=scale, label=label, about=about))

    def _hear(self, found: Measurement) -> Measurement:
        values, units = found.values, float(found.units_per_count)
        none = np.empty(0)
        table = values.ndim == 2
        rows = values.sum(axis=1, dtype=np.float64) if table else values.ravel().astype(np.float64)
        columns = values.sum(axis=0, dtype=np.float64) if table else none
        without = replace(found, values=np.empty(0, dtype=np.int64))
        self.heard[found.label] = Heard(without, rows / units, columns / units)
        return found


def everything(users: int | None, *highest: float) -> float:
    """What no true count is above: by the people publicly expected, each once in a place and slot,
    and by noisy totals."""
    return max(_MORE * (users or 0), 1.0, *highest)


def shares(noisy: Vector | None, size: int) -> Vector:
    """Shares of a whole, by noisy totals where some are above nothing; else all alike."""
    positive = np.zeros(size) if noisy is None else np.maximum(noisy, 0.0)
    whole = float(positive.sum())
    return positive / whole if whole > 0 else np.full(size, 1.0 / size)
