"""How finely a page shows its numbers: the step that they are rounded to, and the whole numbers of
steps. Post-processing: reads released numbers only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.tiles import beside, is_large, tiles

Table = NDArray[np.float64]
STEPS = (1.0, 0.1, 0.01, 0.001)
"""Down to the thousandths that tables are published in."""


def step_for(count: Table, lower: Table | None = None, upper: Table | None = None) -> float:
    """The coarsest step a tenth of the usual half interval, without intervals a tenth of the usual
    count, or 1 where all that is stated is whole. Whole counts may have ends that are not: rounded
    like them, one give or take a half would be one for sure."""
    parts, kind = tiles(count.shape), beside(count.shape)
    stated = [table for table in (count, lower, upper) if table is not None]
    if all(_whole(table[rows]) for table in stated for rows in parts):
        return 1.0
    widths = np.empty(0, dtype=kind)
    if lower is not None and upper is not None:
        halves = ((upper[rows] - lower[rows]) / 2 for rows in parts)
        widths = np.concatenate([half[np.isfinite(half)].astype(kind) for half in halves])
    if widths.size:
        usual = float(np.median(widths))
    else:
        usual = float(np.abs(count[np.isfinite(count)]).mean())
    for step in STEPS:
        if step <= usual / 10:
            return step
    return STEPS[-1]


def _whole(count: Table) -> bool:
    """Whether all that are known are whole."""
    known = count[np.isfinite(count)]
    return bool((known == np.round(known)).all())


def kind_for(step: float, *tables: Table | None) -> type[np.signedinteger[Any]]:
    """Of whole numbers of steps: the narrower type where there are many, and four of them still
    fit when they are added up."""
    given, most = [table for table in tables if table is not None], step * (1 << 28)
    if not is_large(given[0].shape):
        return np.int64
    fits = all(-most < table.min() and table.max() < most for table in given)
    return np.int32 if fits else np.int64
