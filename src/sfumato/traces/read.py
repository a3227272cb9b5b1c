"""`read_traces`: whatever holds traces, told apart by what it is and never by a guess."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sfumato.model.errors import InputError
from sfumato.traces.formats.cabspotting import cab_files, read_cabspotting
from sfumato.traces.formats.geolife import plt_files, read_geolife
from sfumato.traces.formats.gpx import read_gpx
from sfumato.traces.formats.table import read_table
from sfumato.traces.model import Found, Traces

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
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() == ".gpx":
            return _some(read_gpx([path]), path)
        if path.suffix.lower() == ".plt":
            return _some(read_geolife(path.parent)[:2], path)
        if path.is_dir():
            tracks = sorted(path.glob("*.gpx"))
            if tracks:
                return _some(read_gpx(tracks), path)
            if plt_files(path):
                return _some(read_geolife(path)[:2], path)
            if cab_files(path):
                return _some(read_cabspotting(path, gap_s=gap_s), path)
    return _some(
        read_table(source, columns=columns, tz=tz, time_unit=time_unit, gap_s=gap_s), source
    )


def _some(read: tuple[Traces, Found], source: object) -> tuple[Traces, Found]:
    if len(read[0]) == 0:
        raise InputError(
            "there is not a single usable fix.",
            file=str(source) if isinstance(source, str | Path) else None,
        )
    return read
