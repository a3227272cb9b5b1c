"""Network topology: a table of cells for every day, as antennas that are valid from until.

A day without a table takes the last one before it (or the first after it). A cell that stays where
it is over consecutive days is one row; one that moves, comes or goes has a row for each stay.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.adapters.multimno.lakehouse import day_for, days_of, midnight, parts
from sfumato.io.place_table import PlaceTable, id_texts
from sfumato.io.validity import validity
from sfumato.model.errors import InputError
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

_NEEDED = ("cell_id", "latitude", "longitude")
_DATES = ("valid_date_start", "valid_date_end")
_DAY = 86_400_000_000
Stays = tuple[NDArray[np.str_], NDArray[np.float64], NDArray[np.int64]]
"""Ids, positions (longitude, latitude) and times (from, until)."""


def read_network(folder: Path, grid: TimeGrid) -> Places:
    """The cells of every day of the period."""
    found = parts(folder)
    known = sorted({part.day for part in found if part.day is not None})
    days = days_of(grid)
    stays: list[Stays] = []
    if not known:
        stays = [_stays([part.path for part in found], ALWAYS_FROM, ALWAYS_TO)]
    for source, some in groupby(days, key=lambda day: day_for(day, known) if known else day):
        if not known:
            break
        span = list(some)
        first = ALWAYS_FROM if span[0] == days[0] else midnight(span[0])
        last = ALWAYS_TO if span[-1] == days[-1] else midnight(span[-1]) + _DAY
        paths = [part.path for part in found if part.day == source]
        stays.append(_stays(paths, first, last))
    return _merged(stays)


def _stays(paths: list[Path], first: int, last: int) -> Stays:
    """One table of cells, cut to the time in which it holds."""
    tables = [_read(path) for path in paths]
    table = pa.concat_tables(tables, promote_options="permissive")
    label = str(paths[0])
    ids = np.asarray(id_texts(table["cell_id"], "cell_id", label), dtype=np.str_)
    where = np.column_stack(
        [table[name].cast(pa.float64()).to_numpy() for name in ("longitude", "latitude")]
    )
    start, end = validity(PlaceTable(table, None, None, label), {}, "UTC")
    times = np.column_stack([np.maximum(start, first), np.minimum(end, last)])
    holds = times[:, 0] < times[:, 1]
    return ids[holds], where[holds], times[holds]


def _read(path: Path) -> pa.Table:
    try:
        names = pq.read_schema(path).names
        wanted = [*_NEEDED, *(name for name in _DATES if name in names)]
        return pq.ParquetFile(path).read(columns=wanted)
    except (OSError, pa.ArrowException, KeyError):
        pass
    raise InputError(f"this is no network topology: it needs {', '.join(_NEEDED)}.", file=str(path))


def _merged(stays: list[Stays]) -> Places:
    """Stays of one cell at one place that follow each other become one."""
    ids, where, times = (np.concatenate(part) for part in zip(*stays, strict=True))
    if not ids.size:
        raise InputError("no cell is valid in the period.")
    order = np.lexsort((times[:, 0], ids))
    ids, where, times = ids[order], where[order], times[order]
    goes_on = (ids[1:] == ids[:-1]) & (where[1:] == where[:-1]).all(axis=1)
    goes_on &= times[1:, 0] <= times[:-1, 1]
    begins = np.flatnonzero(np.concatenate(([True], ~goes_on)))
    until = np.maximum.reduceat(times[:, 1], begins)
    return Places.of(
        PlaceKind.TOWERS,
        ids[begins],
        np.asarray(shapely.points(where[begins]), dtype=object),
        valid_from=times[begins, 0],
        valid_to=until,
    )
