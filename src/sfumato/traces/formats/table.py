"""Traces from tables: CSV, Parquet, NDJSON, DataFrames, through the same reader as all events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.events import read_events, rows_of, without_damaged
from sfumato.io.formats import Damaged
from sfumato.io.rows import BAD, FAR, Positions
from sfumato.model.errors import InputError
from sfumato.model.events import Events, UserEncoding
from sfumato.traces.model import Found, Traces, make_traces


def read_table(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    gap_s: float | None = None,
) -> tuple[Traces, Found]:
    """Fixes of a table with a user, a time and coordinates in degrees."""
    events = _located(read_events(source, columns=columns, tz=tz, time_unit=time_unit))
    while True:
        try:
            rows = list(rows_of(events))
            break
        except Damaged as error:
            events = without_damaged(events, error)
    users, names = _coded(rows, events.user)
    time = np.concatenate([np.empty(0, np.int64), *(_times(part) for part in rows)])
    gone = (time == FAR) | (time == BAD)
    lon, lat = (
        np.concatenate([np.empty(0), *(getattr(part, side) for part in rows)])
        for side in ("lon", "lat")
    )
    return make_traces(
        np.where(gone, -1, users),
        names,
        np.where(gone, 0, time),
        lon,
        lat,
        gap_s=gap_s,
        label=events.names[0],
    )


def _located(events: Events) -> Events:
    """Every part by its coordinates: a name of a place beside them is no position."""
    parts = []
    for part in events.parts:
        columns = part.reading.columns
        if columns.lon is None:
            raise InputError(
                "traces need coordinates.",
                file=part.label,
                remedy="Name them with --column lon=NAME --column lat=NAME.",
            )
        columns = replace(columns, place=None)
        parts.append(replace(part, reading=replace(part.reading, columns=columns)))
    return replace(events, parts=tuple(parts))


def _times(rows: Positions) -> NDArray[np.int64]:
    return np.where(rows.time_valid, rows.time, FAR) if rows.time_valid.size else rows.time


def _coded(
    rows: list[Positions], held: UserEncoding
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.object_]]
]:
    """Codes of the users, -1 where missing, and the ids that the codes mean."""
    kind = {UserEncoding.INTEGER: pa.int64(), UserEncoding.TEXT: pa.large_string()}.get(
        held, pa.large_binary()
    )
    ids = pa.chunked_array([part.user.cast(kind) for part in rows], kind).combine_chunks()
    coded = ids if isinstance(ids, pa.DictionaryArray) else ids.dictionary_encode()
    users = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    return users, np.array(coded.dictionary.to_pylist(), dtype=object)
