"""Taxi fixes in a public box: what T-Drive and Cabspotting have in common.

Fleets' files hold the same fix twice, fixes at (0, 0) and fixes far away (T-Drive: 1.3 million
duplicate rows and 147,789 fixes far outside). They are dropped and counted; the counts are
for the holder. The box is public and given, never read from the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from sfumato.model.errors import UsageError
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.file_errors import csv_error, parquet_error


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


def taxi_events(
    select: str, parameters: Sequence[object], files: Sequence[str], box: Box, label: str
) -> tuple[Events, Dropped]:
    """Events from a query that gives user (text), t (epoch microseconds), lon and lat."""
    judged = (
        f"SELECT *, (user IS NULL OR t IS NULL OR lon IS NULL OR lat IS NULL) AS missing, "
        "(lon = 0 OR lat = 0) AS zero, "
        f"NOT (lon >= {box.west!r} AND lon < {box.east!r} AND lat >= {box.south!r} "
        f"AND lat < {box.north!r}) AS outside FROM ({select})"
    )
    try:
        with duckdb.connect() as connection:
            connection.execute("SET preserve_insertion_order = false")
            connection.execute(f"CREATE TEMP TABLE fix AS {judged}", list(parameters))
            counted = connection.execute(
                "SELECT count(*) FILTER (missing), count(*) FILTER (NOT missing AND zero), "
                "count(*) FILTER (NOT missing AND NOT zero AND outside), "
                "count(*) FILTER (NOT missing AND NOT zero AND NOT outside) FROM fix"
            ).fetchall()[0]
            found: pa.Table = connection.sql(
                "SELECT DISTINCT user, t, lon, lat FROM fix "
                "WHERE NOT missing AND NOT zero AND NOT outside ORDER BY user, t, lon, lat"
            ).to_arrow_table()
    except duckdb.Error as error:
        raised = (
            csv_error(error, files) if files[0].endswith(".txt") else parquet_error(error, files)
        )
    else:
        missing, zero, outside, kept = (int(number) for number in counted)
        instants = found["t"].cast(pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        table = pa.table(
            {"user": found["user"], "time": instants, "lon": found["lon"], "lat": found["lat"]}
        )
        events = Events.of_table(
            table,
            EventColumns(user="user", time="time", lon="lon", lat="lat"),
            TimeEncoding.INSTANT,
            UserEncoding.TEXT,
            label=label,
        )
        return events, Dropped(kept - found.num_rows, zero, outside, missing)
    raise raised
