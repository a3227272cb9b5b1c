"""Geolife folders (Zheng et al. 2009): `Data/<user>/Trajectory/<trip>.plt`.

A file has six header lines, then latitude, longitude, 0, altitude in feet, days since
1899-12-30, date, time (GMT). Date and time are read; the day number has too few digits.

The collection holds some tracks twice, under two users: `duplicated_tracks` finds them, so
that a study can say how many of its people are one person.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.io.formats import text_blocks
from sfumato.io.lines import cut_csv
from sfumato.io.rows import RowRules
from sfumato.model.events import EventColumns, Reading, TimeEncoding, UserEncoding
from sfumato.traces.formats.table import fixes
from sfumato.traces.model import Fixes, Found, Traces, traces_of

HEADER_LINES = 6
_FIELDS, _WANTED = 7, [0, 1, 5, 6]
_BLANK = pa.scalar(b" ", pa.binary())
_READING = Reading(
    EventColumns(user="user", time="time", lon="lon", lat="lat"),
    TimeEncoding.ISO,
    UserEncoding.TEXT,
    tz="UTC",
    time_is_text=True,
)


def plt_files(folder: Path) -> list[Path]:
    """All trajectory files below a Geolife folder, whichever level of it is given."""
    return sorted(filter(Path.is_file, folder.rglob("*.plt")))


def read_geolife(
    folder: Path, *, period: tuple[str, str] | None = None
) -> tuple[Traces, Found, int]:
    """Traces, what was found, and the number of files. `period` is two dates, the end excluded.

    A trajectory's name is its start, so files that begin after the period, or more than a
    week before it, are not opened.
    """
    paths = plt_files(folder)
    if period is not None:
        paths = [path for path in paths if _may_touch(path.stem, period)]
    traces, found = traces_of(geolife_fixes(paths))
    if period is not None:
        start, end = (int(np.datetime64(day, "us").astype(np.int64)) for day in period)
        traces = traces.between(start, end)
    return traces, found, len(paths)


def geolife_fixes(paths: list[Path]) -> Fixes:
    """Fixes of trajectory files, a trip each; a line that cannot be read is no row."""
    rules = RowRules(_READING, UserEncoding.TEXT, coordinates=True)
    rows, trips = [], [np.empty(0, np.int64)]
    for trip, path in enumerate(paths):
        user = pa.scalar(os.fsencode(_user(path)), pa.binary())
        for data, skipped in text_blocks(path, HEADER_LINES):
            cut = cut_csv(data, ",", _FIELDS, _WANTED)
            lat, lon, day, clock = cut.columns
            columns = {
                "user": pa.repeat(user, cut.rows),
                "time": pc.binary_join_element_wise(day, clock, _BLANK),
                "lon": lon,
                "lat": lat,
            }
            rows.append(rules.positions(columns, unreadable=cut.malformed + skipped))
            trips.append(np.full(cut.rows, trip))
    return fixes(rows, UserEncoding.TEXT, np.concatenate(trips))


def duplicated_tracks(folder: Path) -> list[tuple[str, ...]]:
    """Groups of files with the same fixes under different users, as names relative to `folder`."""
    by_size: dict[int, list[Path]] = defaultdict(list)
    for path in plt_files(folder):
        by_size[path.stat().st_size].append(path)
    groups: dict[str, list[Path]] = defaultdict(list)
    for paths in by_size.values():
        if len({_user(path) for path in paths}) > 1:
            for path in paths:
                groups[hashlib.sha256(path.read_bytes()).hexdigest()].append(path)
    return sorted(
        tuple(str(path.relative_to(folder)) for path in paths)
        for paths in groups.values()
        if len({_user(path) for path in paths}) > 1
    )


def _user(path: Path) -> str:
    parent = path.parent
    return parent.parent.name if parent.name.lower() == "trajectory" else parent.name


def _may_touch(stem: str, period: tuple[str, str]) -> bool:
    day = stem[:8]
    if len(day) != 8 or not day.isdigit():
        return True
    start, end = (text.replace("-", "") for text in period)
    early = (np.datetime64(period[0]) - np.timedelta64(7, "D")).astype(str).replace("-", "")
    return str(early) <= day < end or start <= day < end
