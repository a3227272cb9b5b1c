"""Fixes of events: CSV, Parquet, NDJSON, DataFrames, and fleets' files, by the rules of events.

GPX 1.0 and 1.1: every `trkseg` is a trip; the user is the file's name.

Times are instants by the standard (`2008-11-01T08:00:00Z`); one without an offset is read as
UTC. A track point without a time, or with one that is none, is missing and costs itself alone. A
file that is no GPX is refused where it was named and gives no fix where a folder holds it.
Entities are not expanded: the parser is the standard library's, which refuses external ones, and
documents with a DTD are refused whole.

Sanitised traces as the frames other packages work with, without importing those packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.events import all_rows, read_events
from sfumato.io.files import Unreadable, unreadable
from sfumato.io.rows import Positions, RowRules
from sfumato.io.values import BAD, FAR
from sfumato.model.events import (
    EventColumns,
    Events,
    EventTable,
    Reading,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.traces import NO_TRIP, Fixes, Found, Traces, traces_of


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


_READING = Reading(
    EventColumns(user="user", time="time", lon="lon", lat="lat"),
    TimeEncoding.ISO,
    UserEncoding.TEXT,
    tz="UTC",
    time_is_text=True,
)


def gpx_fixes(paths: list[Path], *, named: bool) -> Fixes:
    """Tracks of GPX files, one user a file."""
    rules = RowRules(_READING, UserEncoding.TEXT, coordinates=True)
    rows, trips = [], [np.empty(0, np.int64)]
    trip = unfit = 0
    for path in paths:
        try:
            segments = _segments(path)
        except Unreadable:
            raise
        except InputError:
            if named:
                raise
            unfit += 1
            continue
        user = pa.scalar(os.fsencode(path.stem), pa.binary())
        points = [point for segment in segments for point in segment]
        columns = {"user": pa.repeat(user, len(points)), "time": _texts(map(_time, points))}
        for side in ("lon", "lat"):
            columns[side] = _texts(point.get(side) for point in points)
        rows.append(rules.positions(columns))
        sizes = [len(segment) for segment in segments]
        trips.append(np.repeat(np.arange(trip + 1, trip + 1 + len(sizes)), sizes))
        trip += len(sizes)
    return fixes(rows, UserEncoding.TEXT, np.concatenate(trips), unfit=unfit)


def _segments(path: Path) -> list[list[ElementTree.Element]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise InputError("a GPX file with a document type is not read.", file=str(path))
    try:
        root = ElementTree.fromstring(raw)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else None
        raise InputError("the file is not well-formed XML.", file=str(path), row=line) from None
    if _local(root) != "gpx":
        raise InputError("the file is not GPX.", file=str(path))
    return [
        [point for point in segment if _local(point) == "trkpt"]
        for segment in root.iter()
        if _local(segment) == "trkseg"
    ]


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _time(point: ElementTree.Element) -> str | None:
    return next((child.text for child in point if _local(child) == "time"), None)


def _texts(found: Iterable[str | None]) -> Any:
    return pa.array(
        [None if text is None else text.strip().encode() for text in found], pa.binary()
    )


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
