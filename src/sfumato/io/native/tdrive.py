"""T-Drive (Yuan et al. 2010): `id,datetime,lon,lat`, one text file a taxi, clock of Beijing."""

from __future__ import annotations

from pathlib import Path

from sfumato.io.native.taxis import BEIJING, Box, Dropped, taxi_events
from sfumato.model.errors import InputError
from sfumato.model.events import Events

_COLUMNS = "{'user': 'VARCHAR', 'clock': 'TIMESTAMP', 'lon': 'DOUBLE', 'lat': 'DOUBLE'}"
_EAST_US = 8 * 3600 * 1_000_000
"""China has one clock, eight hours ahead of UTC, and did not move it in 2008."""


def read_tdrive(folder: Path, box: Box = BEIJING) -> tuple[Events, Dropped]:
    """All taxis of a folder (searched with its subfolders), inside the box."""
    files = sorted(str(path) for path in Path(folder).rglob("*.txt") if path.stat().st_size)
    if not files:
        raise InputError("there are no text files of taxis here.", file=str(folder))
    select = (
        f"SELECT user, epoch_us(clock) - {_EAST_US} AS t, lon, lat FROM read_csv(?, "
        f"auto_detect = false, header = false, delim = ',', columns = {_COLUMNS})"
    )
    return taxi_events(select, [files], files, box, str(folder))
