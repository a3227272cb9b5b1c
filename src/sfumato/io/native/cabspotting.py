"""Cabspotting (Piorkowski et al. 2009): `new_<cab>.txt` files, or one Parquet file of them.

A line of a text file is latitude, longitude, occupied (0 or 1) and seconds since 1970, apart by
blanks, newest first. The Parquet form has `cab`, `t_utc_s`, `lon_e5` and `lat_e5`. A line that is
not so is no row, and leaves the others alone.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.io.events import read_events
from sfumato.io.native.taxis import SAN_FRANCISCO, Box, Dropped, taxi_events
from sfumato.model.errors import InputError
from sfumato.model.events import (
    EventColumns,
    EventFile,
    Events,
    FileFormat,
    Reading,
    TimeEncoding,
    UserEncoding,
)

_HEADER = ("lat", "lon", "occupied", "t")
_READING = Reading(
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
            _READING,
            delimiter=" ",
            header=_HEADER,
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
