"""Earlier releases as the expectation of the next one. Free: they are published.

Where people were last week, and how it changed with the hour, is likely to hold next week too.
Every earlier table, brought to the same mean, is carried over by weekday and time of day, or,
where the earlier releases lack that weekday, by kind of day, or by time of day alone. The next
release takes the sizes of places and their rhythms from it as its prior mean; whatever has
changed since is found by the layers above, which start from here instead of from nothing.
Post-processing of published numbers: no event of its own, no budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar

Table = NDArray[np.float64]
SMALLEST, LARGEST = 0.05, 20.0
"""A cell stays within these multiples of the product of its margins: empty cells say little."""


@dataclass(frozen=True, slots=True, eq=False)
class EarlierTable:
    """A published table over the same places, and the calendar of its slots."""

    values: Table
    calendar: Calendar


def expected_pattern(earlier: Sequence[EarlierTable], calendar: Calendar) -> Table:
    """Place x slot of the coming period, with a mean of one."""
    scaled = [table.values / max(float(table.values.mean()), 1e-9) for table in earlier]
    values = np.concatenate(scaled, axis=1)
    past = np.concatenate([_times(table.calendar) for table in earlier], axis=1)
    coming = _times(calendar)
    found = np.tile(values.mean(axis=1, keepdims=True), (1, coming.shape[1]))
    for t in range(coming.shape[1]):
        for depth in range(3):  # weekday and time, kind of day and time, time alone
            same = (past[depth:] == coming[depth:, t : t + 1]).all(axis=0)
            if same.any():
                found[:, t] = values[:, same].mean(axis=1)
                break
    rows, columns = found.mean(axis=1, keepdims=True), found.mean(axis=0, keepdims=True)
    product = np.maximum(rows * columns, 1e-12)
    kept = np.clip(found, SMALLEST * product, LARGEST * product)
    result: Table = kept / kept.mean()
    return result


def pattern_digest(pattern: Table) -> str:
    """What names a pattern in a manifest, and what a rerun must have in common."""
    return hashlib.sha256(np.ascontiguousarray(pattern).tobytes()).hexdigest()


def _times(calendar: Calendar) -> NDArray[np.int64]:
    """Rows from the finest to the coarsest: weekday, kind of day, time of day."""
    clock = np.rint(calendar.hour * 12).astype(np.int64)
    return np.stack([calendar.weekday, calendar.weekend.astype(np.int64), clock])
