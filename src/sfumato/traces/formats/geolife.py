"""Geolife folders (Zheng et al. 2009): `Data/<user>/Trajectory/<trip>.plt`.

A file has six header lines, then latitude, longitude, 0, altitude in feet, days since
1899-12-30, date, time (GMT). Date and time are read; the day number has too few digits.

The collection holds some tracks twice, under two users: `duplicated_tracks` finds them, so
that a study can say how many of its people are one person.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import duckdb
import numpy as np

from sfumato.engine.connection import open_connection, without_records
from sfumato.io.schema import literal
from sfumato.model.errors import InputError
from sfumato.traces.model import Found, Traces, make_traces

HEADER_LINES = 6
_COLUMNS = "{'lat': 'DOUBLE', 'lon': 'DOUBLE', 'z': 'VARCHAR', 'alt': 'VARCHAR', " + (
    "'days': 'VARCHAR', 'day': 'VARCHAR', 'clock': 'VARCHAR'}"
)
_FILES_AT_ONCE = 2_000


def plt_files(folder: Path) -> list[Path]:
    """All trajectory files below a Geolife folder, whichever level of it is given."""
    return sorted(folder.rglob("*.plt"))


def read_geolife(
    folder: Path, *, period: tuple[str, str] | None = None
) -> tuple[Traces, Found, int]:
    """Traces, what was found, and the number of files. `period` is two dates, the end excluded.

    A trajectory's name is its start, so files that begin after the period, or more than a
    week before it, are not opened.
    """
    paths = plt_files(folder)
    if not paths:
        raise InputError("there are no .plt files below this folder.", file=str(folder))
    if period is not None:
        paths = [path for path in paths if _may_touch(path.stem, period)]
    users = sorted({_user(path) for path in paths})
    code = {name: number for number, name in enumerate(users)}
    parts = []
    with open_connection() as db:
        for first in range(0, len(paths), _FILES_AT_ONCE):
            some = paths[first : first + _FILES_AT_ONCE]
            parts.append(_read(db, some, [code[_user(path)] for path in some], first, period))
    user, trip, time, lat, lon = (
        np.concatenate([part[i] for part in parts]) if parts else np.empty(0) for i in range(5)
    )
    traces, found = make_traces(
        user.astype(np.int64),
        np.array(users, dtype=object),
        time.astype(np.int64),
        lon.astype(np.float64),
        lat.astype(np.float64),
        trip=trip.astype(np.int64),
        label=str(folder),
    )
    return traces, found, len(paths)


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


def _read(
    db: duckdb.DuckDBPyConnection,
    paths: list[Path],
    users: list[int],
    first: int,
    period: tuple[str, str] | None,
) -> tuple[np.ndarray, ...]:
    names = [str(path) for path in paths]
    listed = "[" + ", ".join(literal(name) for name in names) + "]"
    inside = f"WHERE day >= '{period[0]}' AND day < '{period[1]}'" if period else ""
    with without_records(names):
        table = db.sql(
            "SELECT filename, lat, lon, epoch_us(TRY_CAST(day || ' ' || clock AS TIMESTAMP)) AS t "
            f"FROM read_csv({listed}, auto_detect = false, header = false, skip = {HEADER_LINES}, "
            f"columns = {_COLUMNS}, delim = ',', filename = true) {inside}"
        ).to_arrow_table()
    coded = table["filename"].combine_chunks().dictionary_encode()
    position = {name: number for number, name in enumerate(names)}
    place = np.array([position[n] for n in coded.dictionary.to_pylist()], np.int64)
    trip = place[coded.indices.to_numpy()] if len(table) else np.empty(0, np.int64)
    user = np.array(users, np.int64)[trip]
    missing = table["t"].is_null().to_numpy()
    time = table["t"].fill_null(0).to_numpy()
    lat, lon = (table[n].fill_null(np.nan).to_numpy() for n in ("lat", "lon"))
    return np.where(missing, -1, user), trip + first, time, lat, lon
