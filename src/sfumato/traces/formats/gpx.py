"""GPX 1.0 and 1.1: every `trkseg` is a trip; the user is the file's name.

Times are instants by the standard (`2008-11-01T08:00:00Z`); one without an offset is read as
UTC. Track points without a time are missing. Entities are not expanded: the parser is the
standard library's, which refuses external ones, and documents with a DTD are refused whole.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from sfumato.model.errors import InputError
from sfumato.traces.model import MICROSECONDS, Found, Traces, make_traces


def read_gpx(paths: list[Path]) -> tuple[Traces, Found]:
    """Tracks of GPX files, one user a file."""
    users: list[int] = []
    trips: list[int] = []
    times: list[int] = []
    lons: list[float] = []
    lats: list[float] = []
    trip = 0
    for user, path in enumerate(paths):
        for segment in _segments(path):
            trip += 1
            for number, point in enumerate(segment, start=1):
                time = _time(point, path, number)
                users.append(user if time is not None else -1)
                times.append(time or 0)
                trips.append(trip)
                lons.append(_degrees(point, "lon"))
                lats.append(_degrees(point, "lat"))
    return make_traces(
        np.array(users, np.int64),
        np.array([path.stem for path in paths], dtype=object),
        np.array(times, np.int64),
        np.array(lons, np.float64),
        np.array(lats, np.float64),
        trip=np.array(trips, np.int64),
        label=str(paths[0]),
    )


def _segments(path: Path) -> list[list[ElementTree.Element]]:
    try:
        raw = path.read_bytes()
        if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
            raise InputError("a GPX file with a document type is not read.", file=str(path))
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise InputError(
            "the file is not well-formed XML.", file=str(path), row=error.position[0]
        ) from None
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror}).", file=str(path)) from None
    if _local(root) != "gpx":
        raise InputError("the file is not GPX.", file=str(path))
    return [
        [point for point in segment if _local(point) == "trkpt"]
        for segment in root.iter()
        if _local(segment) == "trkseg"
    ]


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _degrees(point: ElementTree.Element, name: str) -> float:
    try:
        return float(point.get(name, "nan"))
    except ValueError:
        return math.nan


def _time(point: ElementTree.Element, path: Path, number: int) -> int | None:
    text = next((child.text for child in point if _local(child) == "time"), None)
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            "the time of a track point cannot be read.",
            file=str(path),
            row=number,
            remedy="GPX times look like 2008-11-01T08:00:00Z.",
        ) from None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return round(aware.timestamp() * MICROSECONDS)
