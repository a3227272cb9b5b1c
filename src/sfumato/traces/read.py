"""`read_traces`: whatever holds traces, told apart by names and never by a guess.

In a folder every file is read by its own name: tracks (`.gpx`), Geolife's trajectories (`.plt`),
cabs (`new_<cab>.txt`), and tables. None decides how another is read; what cannot be read gives no
rows and is counted, and no fix at all are empty traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sfumato.io.events import read_events
from sfumato.io.native.cabspotting import cab_parts, is_cab
from sfumato.traces.formats.geolife import geolife_fixes, plt_files
from sfumato.traces.formats.gpx import gpx_fixes
from sfumato.traces.formats.table import fixes_of
from sfumato.traces.model import Found, Traces, joined, traces_of

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
