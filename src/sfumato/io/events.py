"""`read_events`: from files or a table to a description, and from that to rows.

A description is made from schemas, names and options alone; no row is looked at, so no row can
change how another is read. Each file has a reading of its own by the same public rules. A file
that the holder named and that does not fit is refused; one that was found in a folder gives no
rows and is counted, because whether it is there may be a fact about one person. What the rows
themselves lack is judged row by row (`sfumato.io.rows`).

`Inputs`: what a release needs, found in a pipeline's own places. Events are opened last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.errors import SfumatoError, UsageError
from sfumato.io.columns import EPOCHS, ROLES, check_time_options, describe, placed
from sfumato.io.files import Located, Unreadable, format_of, is_address, is_path, locate
from sfumato.io.formats import BATCH, FORMATS, Damaged, FileSchema
from sfumato.io.names import check_keys
from sfumato.io.postgres.connect import parse_address
from sfumato.io.postgres.events import read_database
from sfumato.io.rows import SWOLLEN, Positions, RowRules
from sfumato.io.tables import LABEL, Column, arrow_columns, as_table
from sfumato.model.events import (
    EventColumns,
    EventFile,
    Events,
    EventTable,
    FileFormat,
    Reading,
    UserEncoding,
)
from sfumato.model.places import Places
from sfumato.model.source import Progress


@dataclass(frozen=True, slots=True)
class Inputs:
    """Antennas, zones where some were asked for, and how to get at the events."""

    towers: Places
    zones: Places | None
    open_events: Callable[[Progress | None], Events]
    """Not called for a plan or a dry run: those read no events."""


def read_events(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    period: tuple[int, int] | None = None,
    progress: Progress | None = None,
    only: Callable[[Path], bool] | None = None,
) -> Events:
    """Describe a source of events.

    `source`: a path (file, folder, glob, hive-partitioned folder), a list of paths, the address
    of a table in PostgreSQL (`sfumato.io.postgres.connect`; this one is read here, so close what
    comes back), an Arrow table or reader, a pandas, geopandas or polars DataFrame, or a DuckDB
    relation.
    `columns`: maps user, time, place, lon, lat to column names where the names alone do not
    tell. `tz`: the clock of times that carry no zone. `time_unit`: s, ms, us or ns for epoch
    numbers. `format`: parquet, csv or ndjson where the ending does not tell.
    `period`: first instant and first instant after (epoch microseconds); a database leaves rows
    outside it behind, files ignore it. `progress` hears of what a database sends.
    `only`: which files of a folder are events, by their names.
    """
    chosen = dict(columns or {})
    check_keys(chosen, ROLES)
    check_time_options(tz, time_unit)
    if format is not None and format not in tuple(FileFormat):
        raise UsageError(
            f"{format!r} is not a format of events.", remedy="Use parquet, csv or ndjson."
        )
    if is_address(source):
        return read_database(
            parse_address(str(source)),
            columns=columns,
            tz=tz,
            time_unit=time_unit,
            period=period,
            progress=progress,
        )
    if not is_path(source):
        table = as_table(source)
        reading, said = describe(arrow_columns(table.schema), chosen, LABEL, tz=tz, unit=time_unit)
        return Events((EventTable(table.select(list(reading.columns.used)), reading),), said)
    parts: list[EventFile] = []
    unfit: list[tuple[str, str]] = []
    notes: tuple[str, ...] = ()
    for file in locate(source):
        if only is not None and not file.named and not only(file.path):
            continue
        try:
            part, said = _file(file, chosen, format, tz=tz, unit=time_unit)
        except Unreadable:
            raise
        except SfumatoError as error:
            if file.named:
                raise
            unfit.append((str(file.path), error.problem))
            continue
        if part is not None:
            parts.append(part)
            notes = tuple(dict.fromkeys((*notes, *said)))
    return Events(tuple(parts), notes, unfit=tuple(unfit))


def _file(
    file: Located,
    chosen: Mapping[str, str],
    format: str | None,
    *,
    tz: str | None,
    unit: str | None,
) -> tuple[EventFile | None, tuple[str, ...]]:
    """One file and how it is read; nothing where it is empty."""
    kind = FileFormat(format) if format else format_of(file.path)
    schema = FORMATS[kind].schema(file.path, chosen.values())
    if schema is None:
        return None, ()
    return described_file(file, kind, schema, chosen, tz=tz, unit=unit)


def described_file(
    file: Located,
    kind: FileFormat,
    schema: FileSchema,
    chosen: Mapping[str, str],
    *,
    tz: str | None,
    unit: str | None,
) -> tuple[EventFile, tuple[str, ...]]:
    """A file whose schema is known, and how it is read; wherever the file is."""
    notes: tuple[str, ...] = ()
    if schema.open_names:
        reading = open_names(chosen, tz, unit)
    else:
        stored = [column for column in schema.columns if column.name not in dict(file.keys)]
        columns = [*stored, *(Column(name, "VARCHAR") for name, _ in file.keys)]
        reading, notes = describe(columns, chosen, str(file.path), tz=tz, unit=unit)
    part = EventFile(
        file.path, kind, reading, schema.delimiter, schema.header, file.named, file.keys
    )
    return part, notes


def resolved(events: Events, zones: bool) -> Events:
    """The events for places that are zones or towers: each part by names or by coordinates.

    A part that leaves it open is refused, or gives no rows where it was found in a folder.
    """
    parts: list[EventFile | EventTable] = []
    unfit = list(events.unfit)
    for part in events.parts:
        try:
            reading = replace(part.reading, columns=placed(part.reading.columns, zones))
        except SfumatoError as error:
            if isinstance(part, EventTable) or part.named:
                raise
            unfit.append((part.label, error.problem))
        else:
            parts.append(replace(part, reading=reading))
    return replace(events, parts=tuple(parts), unfit=tuple(unfit))


def open_names(chosen: Mapping[str, str], tz: str | None, unit: str | None) -> Reading:
    """NDJSON has no header: members are called as the options say, or by the parts' own names.

    In zones, positions count unless the holder named a place. A time that is a number counts
    seconds unless an option says otherwise, one that is text is ISO 8601.
    """
    name = {role.key: chosen.get(role.key, role.key) for role in ROLES}
    by_name = frozenset({"place"}) if "place" in chosen else frozenset({"lon", "lat"})
    columns = EventColumns(
        name["user"], name["time"], name["place"], name["lon"], name["lat"], 1.0, by_name
    )
    return Reading(columns, EPOCHS[unit or "s"], UserEncoding.TEXT, tz, time_is_text=True)


def rows_of(
    events: Events,
    *,
    period: tuple[int, int] | None = None,
    held: UserEncoding | None = None,
    dictionaries: bool = False,
) -> Iterator[Positions]:
    """All rows of `resolved` events, batch by batch; see `RowRules` for `dictionaries`.

    `held`: how ids are held, as the events say unless it is given.

    Raises `Damaged` in the middle where a file turns out to be broken: whoever has added up what
    came before begins again without it (`without_damaged`).
    """
    for part in events.parts:
        reading = part.reading
        rules = RowRules(
            reading,
            held or events.user,
            coordinates=reading.columns.lon is not None,
            period=period,
            dictionaries=dictionaries,
        )
        if isinstance(part, EventFile):
            yield from FORMATS[part.format].positions(part, rules)
            continue
        for start in range(0, part.table.num_rows, BATCH):
            some = part.table.slice(start, BATCH)
            # What is too large for one Arrow array stays in the pieces that it came in.
            for piece in [some] if some.nbytes < SWOLLEN else some.to_batches():
                columns = {name: piece.column(name) for name in rules.used}
                yield from rules.batches(columns, piece.num_rows)


def without_damaged(events: Events, error: Damaged) -> Events:
    """The events without the file that is damaged; the error itself where the holder named it."""
    for part in events.parts:
        if isinstance(part, EventFile) and part.label == error.file and not part.named:
            kept = tuple(other for other in events.parts if other is not part)
            return replace(events, parts=kept, unfit=(*events.unfit, (part.label, "damaged")))
    raise error


def all_rows(events: Events) -> tuple[list[Positions], Events]:
    """All rows at once, for sources that fit in memory, and the events without damaged files."""
    while True:
        try:
            return list(rows_of(events)), events
        except Damaged as error:
            events = without_damaged(events, error)


def expected_rows(events: Events) -> int:
    """Rows by the files' metadata, for progress only; 0 where not known."""
    total = 0
    for part in events.parts:
        if isinstance(part, EventTable):
            total += part.table.num_rows
        else:
            rows = FORMATS[part.format].expected_rows(part.path)
            if not rows and part.format is not FileFormat.PARQUET:
                return 0
            total += rows
    return total
