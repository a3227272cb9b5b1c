"""A density as a long table: every place and every slot, empty ones too. The keys are public.

Times in the Parquet form are instants in the grid's zone; in the CSV form they are local
times with their offset, so that the two hours called 02:00 in October stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from sfumato.density.scheme import Density
from sfumato.model.time_grid import TimeGrid


def density_table(density: Density, grid: TimeGrid) -> pa.Table:
    """zone_id, time_start, time_end, count, lower, upper; places in order, then slots."""
    places, slots = density.values.shape
    starts, ends = grid_times(grid, places)
    return pa.table(
        {
            "zone_id": pa.array(np.repeat(density.place_ids, slots).tolist(), type=pa.string()),
            "time_start": starts,
            "time_end": ends,
            "count": density.values.ravel(),
            "lower": density.lower.ravel(),
            "upper": density.upper.ravel(),
        }
    )


def grid_times(grid: TimeGrid, places: int) -> tuple[pa.Array, pa.Array]:
    """Starts and ends of all slots, once for each place, as instants in the grid's zone."""
    instant = pa.timestamp("us", tz=grid.tz)
    starts, ends = (
        pa.array(np.tile(np.asarray(edges), places), type=pa.int64()).cast(instant)
        for edges in (grid.edges[:-1], grid.edges[1:])
    )
    return starts, ends


def with_local_times(table: pa.Table, grid: TimeGrid) -> pa.Table:
    """The same table with times as text, for CSV."""
    places = table.num_rows // grid.slots

    def texts(times: Sequence[datetime]) -> pa.Array:
        return pa.array([time.isoformat() for time in times] * places, type=pa.string())

    table = table.set_column(1, "time_start", texts(grid.starts()))
    return table.set_column(2, "time_end", texts(grid.ends()))
