"""`open_multimno`: events, cells and zones of a lakehouse, for the days of a period."""

from __future__ import annotations

from pathlib import Path

from sfumato.adapters.inputs import Inputs
from sfumato.adapters.multimno.lakehouse import EVENTS, NETWORK, days_of, find, listed
from sfumato.adapters.multimno.network import read_network
from sfumato.adapters.multimno.zones import Zoning, read_zoning
from sfumato.io.events import read_events
from sfumato.model.events import Events
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

COLUMNS = {"user": "user_id", "time": "timestamp", "place": "cell_id"}


def open_multimno(lakehouse: Path, grid: TimeGrid, zoning: str | None) -> Inputs:
    """Cleaned (silver) events where there are some, raw (bronze) ones otherwise."""
    zones = read_zoning(lakehouse, Zoning.parse(zoning), grid)
    towers = read_network(find(lakehouse, NETWORK, "network topologies"), grid)

    def open_events(progress: Progress | None) -> Events:
        del progress  # files are described here and read later
        return _events(find(lakehouse, EVENTS, "events"), grid)

    return Inputs(towers, zones, open_events)


def _events(folder: Path, grid: TimeGrid) -> Events:
    """The files of the period's days; times without a zone are UTC, raw text that of the grid.

    They were found, not named: one that is damaged or does not fit gives no rows, and no file of
    these days is nobody.
    """
    wanted = set(days_of(grid))
    found = {part.path for part in listed(folder) if part.day is None or part.day in wanted}
    tz = grid.tz if folder.parent.name == "bronze" else "UTC"
    return read_events(folder, columns=COLUMNS, tz=tz, only=found.__contains__)
