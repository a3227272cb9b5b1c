"""From the relation to grouped rows: every batch judged, coded, packed and put away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np

from sfumato.engine.columns import numbers, validity
from sfumato.engine.connection import open_connection, without_records
from sfumato.engine.drops import DropLog, DropReason
from sfumato.engine.ids.tables import Ids, ids_for
from sfumato.engine.instants import BAD
from sfumato.engine.intake import kernels
from sfumato.engine.intake.grouped import Grouping
from sfumato.engine.intake.places import LocatedPlaces, NamedPlaces
from sfumato.engine.relation import Relation, names_of, relation_of, row_in_file
from sfumato.geography.locate import Locator
from sfumato.model.errors import InputError
from sfumato.model.events import Events, FileFormat, FileSource
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

_BATCH = 1 << 15
"""Rows at a time: larger text batches are mapped and unmapped each time, which costs more."""
_REASONS = tuple(DropReason)


def batches(
    connection: duckdb.DuckDBPyConnection, sql: str, where: Sequence[str], rows: int = _BATCH
) -> Iterator[Any]:
    """Arrow batches of a select, streamed: the result is never whole in memory."""
    with without_records(where):
        relation = connection.sql(sql)
        fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        reader = fetch(rows)
    while True:
        with without_records(where):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (OSError, RuntimeError) as error:
                # Arrow passes the engine's own complaint on, record and all.
                raise duckdb.Error(str(error)) from None
        yield batch


def _expected_rows(connection: duckdb.DuckDBPyConnection, events: Events) -> int:
    """Rows by the files' metadata, for progress only; 0 where not known."""
    source = events.source
    if not isinstance(source, FileSource):
        return int(source.table.num_rows)
    if source.format is not FileFormat.PARQUET:
        return 0
    with without_records(names_of(events)):
        paths = [str(path) for path in source.paths]
        # All rows are fetched: a result left open keeps the file from being read afterwards.
        found = connection.execute(
            "SELECT COALESCE(SUM(num_rows), 0) FROM parquet_file_metadata(?)", [paths]
        ).fetchall()
    return int(found[0][0])


def uniform_step(grid: TimeGrid) -> int:
    """Length of the slots in microseconds where all are equal, else 0."""
    steps = np.diff(grid.edges)
    return int(steps[0]) if bool((steps == steps[0]).all()) else 0


def place_finder(places: Places, relation: Relation) -> NamedPlaces | LocatedPlaces:
    """How rows of this relation find their place."""
    if relation.by_coordinates:
        return LocatedPlaces(places, Locator(places))
    return NamedPlaces(places, relation.place_is_integer)


def check_coordinates(
    batch: Any, events: Events, rows: int, connection: duckdb.DuckDBPyConnection
) -> None:
    """Refuse a coordinate that is no number; `rows` were read before this batch."""
    wrong = batch.column("bad").to_numpy(zero_copy_only=False)
    if wrong.any():
        file, row = row_in_file(events, rows + int(np.argmax(wrong)) + 1, connection)
        raise InputError(
            "a coordinate is not a number.",
            file=file,
            column=f"{events.columns.lon}/{events.columns.lat}",
            row=row,
            remedy="Check the coordinate columns, or name others with --column lon=… lat=….",
        )


def read_events(
    events: Events,
    places: Places,
    grid: TimeGrid,
    *,
    place_bits: int,
    threads: int,
    memory: int,
    progress: Progress | None,
) -> tuple[Grouping, Ids, DropLog]:
    """Read everything once: grouped rows, the table of ids, and what was dropped."""
    where = names_of(events)
    slot_bits = max(1, (grid.slots - 1).bit_length())
    grouping = Grouping(place_bits + slot_bits, memory // 2, threads)
    tally = np.zeros(kernels.REASONS, np.int64)
    first = np.zeros(kernels.REASONS, np.int64)
    rows = 0
    with open_connection(threads=threads, memory_limit=memory // 4) as connection:
        relation = relation_of(events, places, grid, connection)
        finder = place_finder(places, relation)
        ids = ids_for(relation.user)
        expected = _expected_rows(connection, events) if progress is not None else 0
        step = uniform_step(grid)
        for batch in batches(connection, relation.sql, where):
            size = batch.num_rows
            if relation.by_coordinates:
                check_coordinates(batch, events, rows, connection)
            user, time = batch.column("u"), batch.column("t")
            cells = np.empty(size, np.int64)
            kernels.judge(
                numbers(time, np.int64),
                validity(time),
                validity(user),
                finder.find(batch),
                finder.groups,
                places.valid_from,
                places.valid_to,
                grid.edges,
                step,
                BAD,
                place_bits,
                rows + 1,
                tally,
                first,
                cells,
            )
            if tally[kernels.NOT_A_TIME]:
                file, row = row_in_file(events, int(first[kernels.NOT_A_TIME]), connection)
                raise InputError(
                    "the time is not written as the column's other times are, or is no date.",
                    file=file,
                    column=events.columns.time,
                    row=row,
                    remedy="Write every time in one form, for example 2007-09-10T12:00:00+02:00.",
                )
            packed = np.empty(size, grouping.dtype)
            grouping.add(ids.encode(user, cells, packed), packed)
            rows += size
            if progress is not None:
                progress("reading events", rows / expected if expected else -1.0)
    grouping.finish(ids.count)
    return grouping, ids, drop_log(rows, tally, first)


def drop_log(rows: int, tally: Any, first: Any) -> DropLog:
    """Counters of the compiled loop as the log."""
    seen = [(reason, k) for k, reason in enumerate(_REASONS) if tally[k]]
    return DropLog(
        rows,
        {reason: int(tally[k]) for reason, k in seen},
        {reason: int(first[k]) if first[k] else None for reason, k in seen},
    )
