"""Cabspotting (Piorkowski et al. 2009): `new_<cab>.txt` files, or one Parquet file of them.

A line of a text file is latitude, longitude, occupied and seconds since 1970, apart by
blanks. The Parquet form has `cab`, `t_utc_s`, `lon_e5` and `lat_e5`.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.io.native.taxis import SAN_FRANCISCO, Box, Dropped, taxi_events
from sfumato.model.errors import InputError
from sfumato.model.events import Events

_COLUMNS = "{'lat': 'DOUBLE', 'lon': 'DOUBLE', 'occupied': 'INTEGER', 't': 'BIGINT'}"


def read_cabspotting(path: Path, box: Box = SAN_FRANCISCO) -> tuple[Events, Dropped]:
    """All cabs of a folder of text files, or of a Parquet file, inside the box."""
    path = Path(path)
    if path.is_file():
        select = (
            "SELECT CAST(cab AS VARCHAR) AS user, CAST(t_utc_s AS BIGINT) * 1000000 AS t, "
            "lon_e5 / 1e5 AS lon, lat_e5 / 1e5 AS lat FROM read_parquet(?)"
        )
        return taxi_events(select, [str(path)], [str(path)], box, str(path))
    files = sorted(str(file) for file in path.glob("new_*.txt"))
    if not files:
        raise InputError("there are no files new_*.txt in this folder.", file=str(path))
    select = (
        "SELECT regexp_extract(filename, 'new_(.*)[.]txt$', 1) AS user, t * 1000000 AS t, lon, lat "
        f"FROM read_csv(?, auto_detect = false, header = false, delim = ' ', filename = true, "
        f"columns = {_COLUMNS})"
    )
    return taxi_events(select, [files], files, box, str(path))
