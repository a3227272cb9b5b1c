"""T-Drive, Cabspotting and Geolife as the studies use them: in a public box, each fix once.

The files are read by the formats of `sfumato.io.datasets` and nothing else. Fleets' files hold the
same fix twice, fixes at (0, 0) and fixes far away (T-Drive: 1.3 million duplicate rows and 147,789
fixes far outside). A study drops and counts them; a release would not look at where fixes lie.

Geolife holds some tracks twice, under two users: `duplicated_tracks` finds them, so that a study
can say how many of its people are one person.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.datasets import Cabspotting, Geolife, TDrive
from sfumato.io.events import all_rows, read_events
from sfumato.io.files import Located
from sfumato.io.rows import BAD, FAR, Positions
from sfumato.io.traces import fixes_of
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.traces import Box, Found, Traces, traces_of

BEIJING = Box(116.137, 39.710, 116.664, 40.110)
"""45 km by 44.5 km around the centre: 90 by 89 squares of 500 m, the published 8,000 cells."""
SAN_FRANCISCO = Box(-122.53, 37.59, -122.35, 37.83)


@dataclass(frozen=True, slots=True)
class Dropped:
    """Rows that are no fix of a taxi in the box: for the holder alone."""

    duplicates: int
    zero: int
    outside: int
    missing: int
    """Also lines that could not be cut into fields."""


def read_fixes(events: Events) -> tuple[pa.Table, int]:
    """user (text), time (epoch microseconds), lon and lat of all rows that have them; how many
    rows or lines do not."""
    parts, _ = all_rows(events, events.user)
    rows = [some for part in parts for some in part]
    user = _texts([part.user for part in rows])
    time = np.concatenate([np.empty(0, np.int64), *(part.time for part in rows)])
    lon, lat = (
        np.concatenate([np.empty(0), *(getattr(part, side) for part in rows)])
        for side in ("lon", "lat")
    )
    whole = np.concatenate([np.empty(0, np.bool_), *(_told(part) for part in rows)])
    whole &= user.is_valid().to_numpy(zero_copy_only=False) & np.isfinite(lon) & np.isfinite(lat)
    table = pa.table({"user": user, "time": time, "lon": lon, "lat": lat})
    missing = int((~whole).sum()) + sum(part.unreadable for part in rows)
    return table if whole.all() else table.filter(pa.array(whole)), missing


def taxi_events(events: Events, box: Box, label: str) -> tuple[Events, Dropped]:
    """Events of a fleet that lie in the box, each once, in the order of user and time.

    The box's east and north edges are outside: it is cut into squares.
    """
    read, missing = read_fixes(events)
    lon, lat = read["lon"].to_numpy(), read["lat"].to_numpy()
    zero = (lon == 0) | (lat == 0)
    inside = (lon >= box.west) & (lon < box.east) & (lat >= box.south) & (lat < box.north)
    fixes = read.filter(pa.array(~zero & inside))
    with duckdb.connect() as connection:  # which knows the table by its name here
        table: pa.Table = connection.sql(
            "SELECT DISTINCT * FROM fixes ORDER BY user, time, lon, lat"
        ).to_arrow_table()
    table = table.set_column(1, "time", table["time"].cast(pa.timestamp("us", tz="UTC")))
    made = Events.of_table(
        table,
        EventColumns(user="user", time="time", lon="lon", lat="lat"),
        TimeEncoding.INSTANT,
        UserEncoding.TEXT,
        label=label,
    )
    dropped = Dropped(
        duplicates=fixes.num_rows - table.num_rows,
        zero=int(zero.sum()),
        outside=int((~zero & ~inside).sum()),
        missing=missing,
    )
    return made, dropped


def _texts(users: list[Any]) -> Any:
    """Ids as text, each distinct one converted once."""
    whole = bool(users) and pa.types.is_integer(users[0].type)
    kind = pa.int64() if whole else pa.large_binary()
    coded = pa.chunked_array([part.cast(kind) for part in users], kind)
    coded = coded.combine_chunks().dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.large_string()))


def _told(part: Positions) -> NDArray[np.bool_]:
    """Rows with a time that is one."""
    read: NDArray[np.bool_] = (part.time != BAD) & (part.time != FAR)
    return read & part.time_valid if part.time_valid.size else read


def taxi_source(folder: Path) -> Events:
    """All text files of a folder as taxis of T-Drive."""
    return read_events(folder, format=TDrive.name)


def cab_source(path: Path) -> Events:
    """The cabs of a folder of text files, or the Parquet file that has been made of them."""
    if path.is_file():
        columns = {"user": "cab", "time": "t_utc_s", "lon": "lon_e5", "lat": "lat_e5"}
        return read_events(path, columns=columns)
    return read_events(path, only=lambda file: Cabspotting().can_read(Located(file, named=False)))


def read_tdrive(folder: Path, box: Box = BEIJING) -> tuple[Events, Dropped]:
    """All taxis of a folder, inside the box."""
    return taxi_events(taxi_source(folder), box, str(folder))


def read_cabspotting(path: Path, box: Box = SAN_FRANCISCO) -> tuple[Events, Dropped]:
    """All cabs of a folder of text files, or of a Parquet file, inside the box."""
    return taxi_events(cab_source(path), box, str(path))


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
    events = read_events(
        folder,
        format=Geolife.name,
        only=lambda file: period is None or _may_touch(file.stem, period),
    )
    traces, found = traces_of(fixes_of(events))
    if period is not None:
        start, end = (int(np.datetime64(day, "us").astype(np.int64)) for day in period)
        traces = traces.between(start, end)
    return traces, found, len(events.parts)


def duplicated_tracks(folder: Path) -> list[tuple[str, ...]]:
    """Groups of files with the same fixes under different users, as names relative to `folder`."""
    user_of = Geolife().user_of
    by_size: dict[int, list[Path]] = defaultdict(list)
    for path in plt_files(folder):
        by_size[path.stat().st_size].append(path)
    groups: dict[str, list[Path]] = defaultdict(list)
    for paths in by_size.values():
        if len({user_of(path) for path in paths}) > 1:
            for path in paths:
                groups[hashlib.sha256(path.read_bytes()).hexdigest()].append(path)
    return sorted(
        tuple(str(path.relative_to(folder)) for path in paths)
        for paths in groups.values()
        if len({user_of(path) for path in paths}) > 1
    )


def _may_touch(stem: str, period: tuple[str, str]) -> bool:
    day = stem[:8]
    if len(day) != 8 or not day.isdigit():
        return True
    start, end = (text.replace("-", "") for text in period)
    early = (np.datetime64(period[0]) - np.timedelta64(7, "D")).astype(str).replace("-", "")
    return str(early) <= day < end or start <= day < end
