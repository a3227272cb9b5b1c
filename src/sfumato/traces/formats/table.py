"""Traces from tables: CSV, Parquet, DataFrames, through the same reader as all events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import numpy as np
import pyarrow as pa
import shapely

from sfumato.engine.connection import open_connection, without_records
from sfumato.engine.instants import BAD, FAR
from sfumato.engine.relation import names_of, relation_of, row_in_file
from sfumato.io.events import read_events
from sfumato.model.errors import InputError
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
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
    events = read_events(source, columns=columns, tz=tz, time_unit=time_unit)
    names = names_of(events)
    if events.columns.lon is None:
        raise InputError(
            "traces need coordinates.",
            file=names[0],
            remedy="Name them with --column lon=NAME --column lat=NAME.",
        )
    grid = TimeGrid.between(date(1980, 1, 1), date(2100, 1, 1), "7d", "UTC")
    with open_connection() as db:
        relation = relation_of(events, _world(), grid, db)
        with without_records(names):
            table = db.sql(relation.sql).to_arrow_table()
        time = table["t"].fill_null(FAR).to_numpy()
        wrong = (time == BAD) | table["bad"].to_numpy()
        if wrong.any():
            file, row = row_in_file(events, int(np.argmax(wrong)) + 1, db)
            raise InputError("the time or a coordinate cannot be read.", file=file, row=row)
    ids = table["u"].combine_chunks()
    coded = ids if isinstance(ids, pa.DictionaryArray) else ids.dictionary_encode()
    users = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    far = (time == FAR) | (time == BAD)
    return make_traces(
        np.where(far, -1, users),
        np.array(coded.dictionary.to_pylist(), dtype=object),
        np.where(far, 0, time).astype(np.int64),
        table["lon"].to_numpy(),
        table["lat"].to_numpy(),
        gap_s=gap_s,
        label=names[0],
    )


def _world() -> Places:
    """Any zones would do: they say that the events are read by their coordinates."""
    return Places(
        PlaceKind.ZONES,
        np.array(["world"]),
        np.array([shapely.box(-180, -90, 180, 90)], dtype=object),
        np.array(["world"]),
        np.array([np.iinfo(np.int64).min]),
        np.array([np.iinfo(np.int64).max]),
    )
