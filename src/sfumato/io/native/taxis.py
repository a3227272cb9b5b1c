"""Taxi fixes in a public box: what T-Drive and Cabspotting have in common.

Fleets' files hold the same fix twice, fixes at (0, 0) and fixes far away (T-Drive: 1.3 million
duplicate rows and 147,789 fixes far outside). They are dropped and counted; the counts are
for the holder. The box is public and given, never read from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.events import all_rows
from sfumato.io.rows import BAD, FAR, Positions
from sfumato.model.errors import UsageError
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding


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
