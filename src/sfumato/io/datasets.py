"""Taxi fixes in a public box: what T-Drive and Cabspotting have in common.

Fleets' files hold the same fix twice, fixes at (0, 0) and fixes far away (T-Drive: 1.3 million
duplicate rows and 147,789 fixes far outside). They are dropped and counted; the counts are
for the holder. The box is public and given, never read from the data.

T-Drive (Yuan et al. 2010): `id,datetime,lon,lat`, one text file a taxi, clock of Beijing.

Cabspotting (Piorkowski et al. 2009): `new_<cab>.txt` files, or one Parquet file of them.

A line of a text file is latitude, longitude, occupied (0 or 1) and seconds since 1970, apart by
blanks, newest first. The Parquet form has `cab`, `t_utc_s`, `lon_e5` and `lat_e5`. A line that is
not so is no row, and leaves the others alone.

Geolife folders (Zheng et al. 2009): `Data/<user>/Trajectory/<trip>.plt`.

A file has six header lines, then latitude, longitude, 0, altitude in feet, days since
1899-12-30, date, time (GMT). Date and time are read; the day number has too few digits.

The collection holds some tracks twice, under two users: `duplicated_tracks` finds them, so
that a study can say how many of its people are one person.

`read_traces`: whatever holds traces, told apart by names and never by a guess.

In a folder every file is read by its own name: tracks (`.gpx`), Geolife's trajectories (`.plt`),
cabs (`new_<cab>.txt`), and tables. None decides how another is read; what cannot be read gives no
rows and is counted, and no fix at all are empty traces.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.events import all_rows, read_events
from sfumato.io.formats import text_blocks
from sfumato.io.lines import cut_csv
from sfumato.io.rows import Positions, RowRules
from sfumato.io.traces import fixes, fixes_of, gpx_fixes
from sfumato.io.values import BAD, FAR
from sfumato.model.events import (
    EventColumns,
    EventFile,
    Events,
    FileFormat,
    Reading,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.traces import Fixes, Found, Traces, joined, traces_of


@dataclass(frozen=True, slots=True)
class Box:
    """Degrees, edges included in the west and south."""

    west: float
    south: float
    east: float
    north: float

    def __post_init__(self) -> None:
        if not (-180 <= self.west < self.east <= 180 and -90 <= self.south < self.north <= 90):
            raise UsageError("A box is west, south, east, north in degrees.")


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
    rows, _ = all_rows(events)
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
    """Events of a fleet that lie in the box, each once, in the order of user and time."""
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


_TDRIVE_HEADER = ("user", "clock", "lon", "lat")
_TDRIVE_READING = Reading(
    EventColumns(user="user", time="clock", lon="lon", lat="lat"),
    TimeEncoding.ISO,
    UserEncoding.TEXT,
    tz="Asia/Shanghai",
    time_is_text=True,
)


def taxi_parts(folder: Path) -> Events:
    """The taxis' files of a folder, searched with its subfolders; none where there is none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("there is no such folder.", file=str(folder), remedy="Check the path.")
    parts = tuple(
        EventFile(
            path, FileFormat.CSV, _TDRIVE_READING, header=_TDRIVE_HEADER, named=False, ahead=0
        )
        for path in sorted(folder.rglob("*.txt"))
        if path.is_file()
    )
    return Events(parts, label=str(folder))


def read_tdrive(folder: Path, box: Box = BEIJING) -> tuple[Events, Dropped]:
    """All taxis of a folder, inside the box."""
    return taxi_events(taxi_parts(folder), box, str(folder))


_CAB_HEADER = ("lat", "lon", "occupied", "t")
_CAB_READING = Reading(
    EventColumns(user="cab", time="t", lon="lon", lat="lat"),
    TimeEncoding.EPOCH_S,
    UserEncoding.TEXT,
    time_is_text=True,
)


def is_cab(name: str) -> bool:
    """Whether a file's name is that of a cab."""
    return name.startswith("new_") and name.endswith(".txt")


def cab_parts(folder: Path) -> Events:
    """The cabs' files of a folder, each with its cab; none where there is none."""
    if not folder.is_dir():
        raise InputError("there is no such folder.", file=str(folder), remedy="Check the path.")
    paths = sorted(path for path in folder.iterdir() if is_cab(path.name) and path.is_file())
    parts = tuple(
        EventFile(
            path,
            FileFormat.CSV,
            _CAB_READING,
            delimiter=" ",
            header=_CAB_HEADER,
            named=False,
            keys=(("cab", path.stem.removeprefix("new_")),),
            ahead=0,
        )
        for path in paths
    )
    return Events(parts, label=str(folder))


def cab_source(path: Path) -> Events:
    """A folder of cabs' files, or the Parquet file."""
    if not path.is_file():
        return cab_parts(path)
    columns = {"user": "cab", "time": "t_utc_s", "lon": "lon_e5", "lat": "lat_e5"}
    return read_events(path, columns=columns)


def read_cabspotting(path: Path, box: Box = SAN_FRANCISCO) -> tuple[Events, Dropped]:
    """All cabs of a folder of text files, or of a Parquet file, inside the box."""
    return taxi_events(cab_source(Path(path)), box, str(path))


HEADER_LINES = 6
_FIELDS, _WANTED = 7, [0, 1, 5, 6]
_BLANK = pa.scalar(b" ", pa.binary())
_GEOLIFE_READING = Reading(
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
    rules = RowRules(_GEOLIFE_READING, UserEncoding.TEXT, coordinates=True)
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


GAP_S = 1200.0
"""Where a trace has no trips of its own, twenty minutes without a fix end one."""


def read_traces(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    gap_s: float = GAP_S,
) -> tuple[Traces, Found]:
    """Traces and what was found wrong with them.

    `source`: CSV or Parquet (as for events), a GPX file or a folder of them, a Geolife folder,
    a Cabspotting folder, an Arrow table, or a DataFrame of scikit-mobility (`uid`, `datetime`,
    `lat`, `lng`), trackintel (`user_id`, `tracked_at`, points) or movingpandas (index `t`).
    """
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and path.suffix.lower() == ".gpx":
        return traces_of(gpx_fixes([path], named=True))
    if path is not None and path.suffix.lower() == ".plt":
        return traces_of(geolife_fixes([path]))
    folder = path if path is not None and path.is_dir() else None

    def is_table(file: Path) -> bool:
        return not (file.parent == folder and is_cab(file.name))

    events = read_events(source, columns=columns, tz=tz, time_unit=time_unit, only=is_table)
    try:
        parts = [fixes_of(events)]
    finally:
        events.close()
    if folder is not None:
        parts += [
            gpx_fixes(sorted(filter(Path.is_file, folder.glob("*.gpx"))), named=False),
            geolife_fixes(plt_files(folder)),
            fixes_of(cab_parts(folder)),
        ]
    return traces_of(joined(parts), gap_s=gap_s)
