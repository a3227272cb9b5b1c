"""Fixes of events: CSV, Parquet, NDJSON, DataFrames, and fleets' files, by the rules of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.events import all_rows, read_events
from sfumato.io.rows import BAD, FAR, Positions
from sfumato.model.errors import InputError
from sfumato.model.events import Events, EventTable, UserEncoding
from sfumato.traces.model import NO_TRIP, Fixes, Found, Traces, traces_of


def read_table(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    gap_s: float | None = None,
) -> tuple[Traces, Found]:
    """Traces of a table with a user, a time and coordinates in degrees."""
    events = read_events(source, columns=columns, tz=tz, time_unit=time_unit)
    return traces_of(fixes_of(events), gap_s=gap_s)


def fixes_of(events: Events) -> Fixes:
    """Fixes of events that have coordinates."""
    rows, events = all_rows(_located(events))
    return fixes(rows, events.user, unfit=len(events.unfit))


def fixes(
    rows: list[Positions],
    held: UserEncoding,
    trip: NDArray[np.int64] | None = None,
    *,
    unfit: int = 0,
) -> Fixes:
    """Rows as read, their users coded. A row without a time is nobody's."""
    users, names = _coded([part.user for part in rows], held)
    time = np.concatenate([np.empty(0, np.int64), *(_times(part) for part in rows)])
    gone = (time == FAR) | (time == BAD)
    lon, lat = (
        np.concatenate([np.empty(0), *(getattr(part, side) for part in rows)])
        for side in ("lon", "lat")
    )
    return Fixes(
        names,
        np.where(gone, -1, users),
        np.full(users.size, NO_TRIP) if trip is None else trip,
        np.where(gone, 0, time),
        lon,
        lat,
        unreadable=sum(part.unreadable for part in rows),
        unfit=unfit,
    )


def _located(events: Events) -> Events:
    """Every part by its coordinates: a name of a place beside them is no position."""
    parts = []
    unfit = list(events.unfit)
    for part in events.parts:
        columns = part.reading.columns
        if columns.lon is not None:
            columns = replace(columns, place=None)
            parts.append(replace(part, reading=replace(part.reading, columns=columns)))
        elif isinstance(part, EventTable) or part.named:
            raise InputError(
                "traces need coordinates.",
                file=part.label,
                remedy="Name them with --column lon=NAME --column lat=NAME.",
            )
        else:
            unfit.append((part.label, "traces need coordinates."))
    return replace(events, parts=tuple(parts), unfit=tuple(unfit))


def _times(rows: Positions) -> NDArray[np.int64]:
    return np.where(rows.time_valid, rows.time, FAR) if rows.time_valid.size else rows.time


def _coded(users: list[Any], held: UserEncoding) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Codes of the users, -1 where missing, and the ids that the codes mean."""
    kind = {UserEncoding.INTEGER: pa.int64(), UserEncoding.TEXT: pa.large_string()}.get(
        held, pa.large_binary()
    )
    ids = pa.chunked_array([part.cast(kind) for part in users], kind).combine_chunks()
    coded = ids.dictionary_encode()
    names = np.empty(len(coded.dictionary), dtype=object)
    names[:] = coded.dictionary.to_pylist()
    return coded.indices.fill_null(-1).to_numpy().astype(np.int64), names
