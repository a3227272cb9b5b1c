"""`open_flowkit`: events, antennas and regions of a FlowDB or of an export of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sfumato.adapters.flowkit.places import read_antennas, read_regions
from sfumato.adapters.flowkit.tables import EVENT_TABLES, ExportedTables, database, open_tables
from sfumato.adapters.inputs import Inputs
from sfumato.io.events import read_events
from sfumato.io.postgres.address import Table, is_address
from sfumato.io.postgres.events import read_database
from sfumato.model.errors import InputError
from sfumato.model.events import Events
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

COLUMNS = {"user": "msisdn", "time": "datetime", "place": "location_id"}


def open_flowkit(where: str, grid: TimeGrid, zoning: str | None) -> Inputs:
    """All tables of events that are there; an address may name fewer."""
    with open_tables(where) as tables:
        zones = None if zoning is None else read_regions(tables, zoning)
        towers = read_antennas(tables, grid.tz)
        named = database(where).tables if is_address(where) else _event_tables()
        there = tuple(table for table in named if tables.has(table))
        label = tables.label
    if not there:
        raise InputError(
            f"there are no events: none of {', '.join(table.label for table in named)} is there.",
            file=label,
        )

    def open_events(progress: Progress | None) -> Events:
        if is_address(where):
            address = replace(database(where), tables=there)
            period = grid.period
            return read_database(
                address, columns=COLUMNS, tz=grid.tz, period=period, progress=progress
            )
        exported = ExportedTables(Path(where))
        paths = [exported.path(table) for table in there]
        return read_events(paths, columns=COLUMNS, tz=grid.tz)

    return Inputs(towers, zones, open_events)


def _event_tables() -> tuple[Table, ...]:
    return tuple(Table(name, "events") for name in EVENT_TABLES)
