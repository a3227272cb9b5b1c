"""GPX 1.0 and 1.1: every `trkseg` is a trip; the user is the file's name.

Times are instants by the standard (`2008-11-01T08:00:00Z`); one without an offset is read as
UTC. A track point without a time, or with one that is none, is missing and costs itself alone. A
file that is no GPX is refused where it was named and gives no fix where a folder holds it.
Entities are not expanded: the parser is the standard library's, which refuses external ones, and
documents with a DTD are refused whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from sfumato.io.locate import Unreadable, unreadable
from sfumato.io.rows import RowRules
from sfumato.model.errors import InputError
from sfumato.model.events import EventColumns, Reading, TimeEncoding, UserEncoding
from sfumato.traces.formats.table import fixes
from sfumato.traces.model import Fixes

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
