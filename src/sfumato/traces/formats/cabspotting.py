"""Cabspotting as it is distributed: `new_<cab>.txt`, newest fix first.

A line is latitude, longitude, occupied (0 or 1), seconds since 1970, apart by blanks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.engine.connection import open_connection, without_records
from sfumato.io.schema import literal
from sfumato.model.errors import InputError
from sfumato.traces.model import MICROSECONDS, Found, Traces, make_traces

_COLUMNS = "{'lat': 'DOUBLE', 'lon': 'DOUBLE', 'occupied': 'INTEGER', 't': 'BIGINT'}"


def cab_files(folder: Path) -> list[Path]:
    """The cabs' files of a folder."""
    return sorted(folder.glob("new_*.txt"))


def read_cabspotting(folder: Path, *, gap_s: float | None = None) -> tuple[Traces, Found]:
    """All cabs of a folder."""
    paths = cab_files(folder)
    if not paths:
        raise InputError("there are no files new_*.txt in this folder.", file=str(folder))
    names = [str(path) for path in paths]
    listed = "[" + ", ".join(map(literal, names)) + "]"
    with open_connection() as db, without_records(names):
        table = db.sql(
            f"SELECT filename, lat, lon, t FROM read_csv({listed}, auto_detect = false, "
            f"header = false, columns = {_COLUMNS}, delim = ' ', filename = true)"
        ).to_arrow_table()
    coded = table["filename"].combine_chunks().dictionary_encode()
    cabs = [Path(name).stem.removeprefix("new_") for name in coded.dictionary.to_pylist()]
    missing = table["t"].is_null().to_numpy()
    return make_traces(
        np.where(missing, -1, coded.indices.to_numpy()).astype(np.int64),
        np.array(cabs, dtype=object),
        table["t"].fill_null(0).to_numpy() * MICROSECONDS,
        table["lon"].fill_null(np.nan).to_numpy(),
        table["lat"].fill_null(np.nan).to_numpy(),
        gap_s=gap_s,
        label=str(folder),
    )
