"""T-Drive (Yuan et al. 2010): `id,datetime,lon,lat`, one text file a taxi, clock of Beijing."""

from __future__ import annotations

from pathlib import Path

from sfumato.io.native.taxis import BEIJING, Box, Dropped, taxi_events
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

_HEADER = ("user", "clock", "lon", "lat")
_READING = Reading(
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
        EventFile(path, FileFormat.CSV, _READING, header=_HEADER, named=False, ahead=0)
        for path in sorted(folder.rglob("*.txt"))
        if path.is_file()
    )
    return Events(parts, label=str(folder))


def read_tdrive(folder: Path, box: Box = BEIJING) -> tuple[Events, Dropped]:
    """All taxis of a folder, inside the box."""
    return taxi_events(taxi_parts(folder), box, str(folder))
