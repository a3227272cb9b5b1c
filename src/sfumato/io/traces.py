"""Traces: the fixes of any source of events that has coordinates, and traces as others' frames.

`read_traces` reads a source described by `read_events`, by the same formats and rules; each part
counts by its coordinates, and what the format itself calls a trip (a Geolife file, a segment of
GPX) stays one. No file decides how another is read; what cannot be read gives no rows and is
counted, and no fix at all are empty traces.

`to_frame` gives sanitised traces as the frames other packages work with, without importing those
packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.events import all_rows, read_by, read_events
from sfumato.io.rows import Positions
from sfumato.io.values import BAD, FAR
from sfumato.model.events import EventColumns, Events, UserEncoding
from sfumato.model.traces import NO_TRIP, Fixes, Found, Traces, traces_of

GAP_S = 1200.0
"""Where a trace has no trips of its own, twenty minutes without a fix end one."""


def read_traces(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    gap_s: float = GAP_S,
    own_trips: bool = True,
) -> tuple[Traces, Found]:
    """Traces of a source, and what was found wrong with its rows.

    Args:
        source: Whatever `read_events` takes and has coordinates: CSV, Parquet, NDJSON, GPX files,
            folders of these, of Geolife, T-Drive or Cabspotting, a table in PostgreSQL, an Arrow
            table, a Spark DataFrame, or a DataFrame of scikit-mobility (`uid`, `datetime`, `lat`,
            `lng`), trackintel (`user_id`, `tracked_at`, points) or movingpandas (index `t`).
        columns: Maps user, time, lon, lat to column names where the names alone do not tell.
        tz: The clock of times that carry no zone.
        time_unit: s, ms, us or ns for epoch numbers.
        format: The format where names and folders do not tell.
        gap_s: So many seconds without a fix end a trip, where the format has none of its own.
        own_trips: Whether trips of the format's own are kept; otherwise gaps alone cut them.

    Returns:
        The traces, sorted by user, trip and time; and counts of what was left out.

    Raises:
        UsageError: an option means nothing here.
        InputError: what the holder named cannot be read, or has no coordinates.
    """
    events = read_events(source, columns=columns, tz=tz, time_unit=time_unit, format=format)
    try:
        fixes = fixes_of(events)
        if not own_trips:
            fixes = replace(fixes, trip=np.full(fixes.trip.size, NO_TRIP))
        return traces_of(fixes, gap_s=gap_s)
    finally:
        events.close()


def fixes_of(events: Events) -> Fixes:
    """Fixes of events that have coordinates."""
    events = read_by(events, _located)
    held = events.user
    parts, events = all_rows(events, held)
    rows = [some for part in parts for some in part]
    users, names = coded_users([part.user for part in rows], held)
    time = np.concatenate([np.empty(0, np.int64), *(_times(part) for part in rows)])
    gone = (time == FAR) | (time == BAD)  # a row without a time is nobody's
    lon, lat = (
        np.concatenate([np.empty(0), *(getattr(part, side) for part in rows)])
        for side in ("lon", "lat")
    )
    return Fixes(
        names,
        np.where(gone, -1, users),
        _trips(parts),
        np.where(gone, 0, time),
        lon,
        lat,
        unreadable=sum(part.unreadable for part in rows),
        unfit=len(events.unfit),
    )


def _trips(parts: Sequence[Sequence[Positions]]) -> NDArray[np.int64]:
    """Trips of the formats, told apart across files; `NO_TRIP` where a format has none."""
    trips = [np.empty(0, np.int64)]
    behind = 0
    for part in parts:
        own = [np.full(some.rows, NO_TRIP) if some.trip is None else some.trip for some in part]
        numbers = np.concatenate([np.empty(0, np.int64), *own])
        real = numbers[numbers != NO_TRIP]
        trips.append(np.where(numbers == NO_TRIP, NO_TRIP, numbers + behind))
        # From the largest number on, not from how many there are: where a file's first trip has no
        # usable fix, the next file's must not fall upon those that are left.
        behind += int(real.max()) + 1 if real.size else 0
    return np.concatenate(trips)


def _located(columns: EventColumns) -> EventColumns:
    """The columns by which a fix is placed: a name of a place beside them is no position."""
    if columns.lon is None:
        raise InputError(
            "traces need coordinates, and the events have none.",
            remedy="Name them with `column={'lon': NAME, 'lat': NAME}`.",
        )
    return replace(columns, place=None)


def _times(rows: Positions) -> NDArray[np.int64]:
    return np.where(rows.time_valid, rows.time, FAR) if rows.time_valid.size else rows.time


def coded_users(
    users: list[Any], held: UserEncoding
) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Codes of the users, -1 where missing, and the ids that the codes mean."""
    kind = {UserEncoding.INTEGER: pa.int64(), UserEncoding.TEXT: pa.large_string()}.get(
        held, pa.large_binary()
    )
    ids = pa.chunked_array([part.cast(kind) for part in users], kind).combine_chunks()
    coded = ids.dictionary_encode()
    names = np.empty(len(coded.dictionary), dtype=object)
    names[:] = coded.dictionary.to_pylist()
    return coded.indices.fill_null(-1).to_numpy().astype(np.int64), names


def to_table(traces: Traces, tz: str = "UTC") -> pa.Table:
    """user, trip, time (an instant), lon, lat."""
    return pa.table(
        {
            # No fixes at all are a table of the same columns.
            "user": pa.array(
                traces.names[traces.user].tolist(), None if len(traces) else pa.string()
            ),
            "trip": pa.array(traces.trip),
            "time": pa.array(traces.time, pa.timestamp("us", tz=tz)),
            "lon": pa.array(traces.lon),
            "lat": pa.array(traces.lat),
        }
    )


def to_frame(traces: Traces, like: str) -> Any:
    """A DataFrame as `scikit-mobility`, `trackintel` or `movingpandas` expects it.

    scikit-mobility: `uid`, `datetime` (naive, UTC), `lat`, `lng`, `tid`. trackintel: points with
    `user_id`, `tracked_at` (with a zone). movingpandas: index `t` (naive, UTC), points, `traj_id`.
    """
    user = pd.array(traces.names[traces.user].tolist())
    time = pd.to_datetime(traces.time, unit="us", utc=True)
    if like == "scikit-mobility":
        return pd.DataFrame(
            {
                "uid": user,
                "datetime": time.tz_localize(None),
                "lat": traces.lat,
                "lng": traces.lon,
                "tid": traces.trip,
            }
        )
    import geopandas as gpd

    points = gpd.points_from_xy(traces.lon, traces.lat, crs="EPSG:4326")
    if like == "trackintel":
        frame = pd.DataFrame({"user_id": user, "tracked_at": time})
        made = gpd.GeoDataFrame(frame, geometry=points)
        made.index.name = "id"
        return made
    if like == "movingpandas":
        trip = np.char.add(
            np.char.add(user.astype(str).to_numpy(dtype=str), "_"), traces.trip.astype(str)
        )
        frame = pd.DataFrame(
            {"traj_id": trip, "user_id": user}, index=time.tz_localize(None).rename("t")
        )
        return gpd.GeoDataFrame(frame, geometry=points)
    raise UsageError(
        f"{like!r} is not a kind of frame.",
        remedy="Choose scikit-mobility, trackintel or movingpandas.",
    )
