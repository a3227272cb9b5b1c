"""The tables of a release: one long table, whole numbers on request, levels that add up.

Post-processing: reads released numbers only.

A density is a long table: every place and every slot, empty ones too (`published.tables`).

Whole numbers are made on request, and so are levels (parents of zones) that add up. Sums are exact,
because counts have at most three decimals and are added as whole thousandths. No interval is given
for a sum there: the errors of zones hang together (shared totals, shared shapes, zones around one
tower); a release with a posterior answers for it (`Release.sum`). Nor is a median: medians do not
add up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.density.common import DECIMALS
from sfumato.density.refine.margins import add_up, round_keeping_totals
from sfumato.density.scheme import Density
from sfumato.model.time_grid import TimeGrid
from sfumato.published.tables import grid_times, long_table


def density_table(density: Density, grid: TimeGrid, rows: slice = slice(None)) -> pa.Table:
    """zone_id, time_start, time_end, count, any median, lower, upper; places, then slots."""
    median, lower, upper = (
        None if layer is None else layer[rows]
        for layer in (density.median, density.lower, density.upper)
    )
    return long_table(
        density.place_ids[rows],
        grid,
        density.values[rows],
        median=median,
        lower=lower,
        upper=upper,
    )


CITY = "city"
_UNITS = 10**DECIMALS


def whole_numbers(density: Density) -> Density:
    """Counts as integers that keep each slot's rounded total; intervals widen outwards.

    A median is rounded by itself: it keeps no total.
    """
    lower, upper, median = density.lower, density.upper, density.median
    return replace(
        density,
        values=round_keeping_totals(np.asarray(density.values, dtype=np.float64)),
        lower=None if lower is None else np.floor(lower),
        upper=None if upper is None else np.ceil(upper),
        median=None if median is None else np.rint(median).astype(np.int64),
    )


def level_table(
    density: Density, parents: NDArray[np.str_], grid: TimeGrid, column: str
) -> pa.Table:
    """`column`, time_start, time_end, count: the sums of each parent's zones."""
    ids, which = np.unique(parents, return_inverse=True)
    thousandths = np.rint(np.asarray(density.values, dtype=np.float64) * _UNITS)
    sums = add_up(thousandths, which.astype(np.int64))
    counts = (sums / _UNITS).astype(np.int64) if density.values.dtype == np.int64 else sums / _UNITS
    starts, ends = grid_times(grid, ids.size)
    return pa.table(
        {
            column: pa.array(np.repeat(ids, grid.slots).tolist(), type=pa.string()),
            "time_start": starts,
            "time_end": ends,
            "count": counts.ravel(),
        }
    )


def whole_city(density: Density) -> NDArray[np.str_]:
    """The one parent of all zones."""
    return np.full(density.place_ids.size, CITY)
