"""`read_events`: from any source to a description, and from that to rows; the one registry.

A description is made from schemas, names and options alone; no row is looked at, so no row can
change how another is read. Each file has a reading of its own by the same public rules. A file
that the holder named and that does not fit is refused; one that was found in a folder gives no
rows and is counted, because whether it is there may be a fact about one person. What the rows
themselves lack is judged row by row (`sfumato.io.rows`).

`FORMATS` holds every format there is. A source, or each file of a folder by itself, is read by the
first that recognises it, or by the one that the holder names.

`Inputs` is what a release needs where another pipeline keeps it in places of its own
(`sfumato.io.flowkit`, `sfumato.io.multimno`): towers, zones, and events, which are opened last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.columns import placed
from sfumato.io.datasets import Cabspotting, Geolife, Gpx, TDrive
from sfumato.io.files import Damaged, Located, Unreadable, head, is_address, is_path, locate
from sfumato.io.formats import (
    BarSeparated,
    Csv,
    Format,
    Frame,
    NdJson,
    ReadOptions,
    SemicolonSeparated,
    SparkTable,
    TabSeparated,
)
from sfumato.io.names import by_position
from sfumato.io.parquet import BATCH, Parquet
from sfumato.io.postgres.events import Database
from sfumato.io.rows import SWOLLEN, Positions, RowRules
from sfumato.model.events import EventColumns, EventFile, Events, EventTable, UserEncoding
from sfumato.model.places import Places
from sfumato.model.source import Progress

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Database(),
        SparkTable(),
        Frame(),
        TDrive(),
        Cabspotting(),
        Geolife(),
        Gpx(),
        Parquet(),
        NdJson(),
        Csv(),
        TabSeparated(),
        SemicolonSeparated(),
        BarSeparated(),
    )
}
"""Every format by its name, asked in this order: `.txt` is a taxi's where its name is one, else a
table. Another format is a line here and a file of its own."""


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMATS:
        of_files = ", ".join(each.name for each in FORMATS.values() if each.endings)
        raise UsageError(f"{name!r} is not a format of events.", remedy=f"Use one of {of_files}.")
    return FORMATS[name]


def known_format(file: Located, chosen: Collection[str] = ()) -> Format | None:
    """The format that a file's name and folders say, if they say one.

    Where columns are `chosen`, a `.txt` is a table whatever it is called: `1.txt` and `new_1.txt`
    would have columns and a clock of their own, beside those that the holder states for all files.
    """
    fitting = (each for each in FORMATS.values() if each.can_read(file))
    return next((each for each in fitting if not (chosen and each.by_name_alone)), None)


def is_event_file(path: Path) -> bool:
    """Whether a file of a folder is one of events, by its name and folders."""
    return known_format(Located(path, named=False)) is not None


def format_of(file: Located, chosen: Collection[str] = ()) -> Format:
    """The format of a file by its name; by its first bytes where no name tells.

    Not where columns are `chosen` by their numbers: the first bytes are somebody's record then,
    and one that begins like a packed file would cost everybody else's.

    Raises:
        InputError: the file is packed or encrypted and its name does not say so.
    """
    known = known_format(file, chosen)
    if known is not None:
        return known
    if by_position(chosen):
        return FORMATS[Csv.name]
    start = head(file.path, 4)
    if start[:2] == b"\x1f\x8b":
        raise InputError(
            "the file is compressed but its name does not end in .gz.",
            file=str(file.path),
            remedy="Rename or unpack it.",
        )
    return FORMATS[Parquet.name if start in (b"PAR1", b"PARE") else Csv.name]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Towers, zones where some were asked for, and how to get at the events."""

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

    Args:
        source: A path (file, folder, glob, hive-partitioned folder), a list of paths, the address
            of a table in PostgreSQL (`sfumato.io.postgres.connect`; this one is read here, so close
            what comes back), an Arrow table or reader, a pandas, geopandas or polars DataFrame, a
            DuckDB relation, or a Spark DataFrame (brought here whole).
        columns: Maps user, time, place, lon, lat to column names where the names alone do not tell;
            to their numbers from 1 where a text file has no header.
        tz: The clock of times that carry no zone.
        time_unit: s, ms, us or ns for epoch numbers.
        format: A name in `FORMATS` where names and folders do not tell, or tell wrongly. Of a
            folder, the files with that format's endings are read.
        period: First instant and first instant after (epoch microseconds); a database leaves rows
            outside it behind, files ignore it.
        progress: Hears of what a database sends.
        only: Which files of a folder are events, by their paths.

    Returns:
        The description, with nothing read but headers and footers.

    Raises:
        UsageError: an option means nothing here.
        InputError: what the holder named cannot be read, or leaves open how.
    """
    options = ReadOptions(dict(columns or {}), tz, time_unit, period, progress)
    said = None if format is None else format_named(format)
    if is_address(source) or not is_path(source):
        own = next(each for each in FORMATS.values() if each.can_read(source))
        if said is not None and said is not own:
            raise UsageError(
                f"This source is not of the format {format!r}.", remedy="Leave the format out."
            )
        return own.read(source, options)
    parts: list[EventFile | EventTable] = []
    unfit: list[tuple[str, str]] = []
    notes: tuple[str, ...] = ()
    for file in located(source, said):
        if only is not None and not file.named and not only(file.path):
            continue
        try:
            kind = said or format_of(file, options.columns.values())
            found = kind.read(file, options)
        except Unreadable:
            raise
        except SfumatoError as error:
            if file.named:
                raise
            unfit.append((str(file.path), error.problem))
            continue
        parts += found.parts
        notes = tuple(dict.fromkeys((*notes, *found.notes)))
    return Events(tuple(parts), notes, unfit=tuple(unfit))


def located(source: object, said: Format | None = None) -> tuple[Located, ...]:
    """The files that a source means: of a folder those of any format, or of the one that is said.

    Raises:
        UsageError: the format that is said is not one of files.
    """
    if said is None:
        return locate(source, is_event_file)
    endings = said.endings
    if not endings:
        raise UsageError(f"{said.name!r} is not a format of files.", remedy="Leave it out.")
    return locate(source, lambda path: path.name.lower().endswith(endings))


def resolved(events: Events, zones: bool) -> Events:
    """The events for places that are zones or towers: each part by names or by coordinates.

    A part that leaves it open is refused, or gives no rows where it was found in a folder; see
    `read_by`.
    """
    return read_by(events, lambda columns: placed(columns, zones))


def read_by(events: Events, chosen: Callable[[EventColumns], EventColumns]) -> Events:
    """The events, each part read by those of its columns that are `chosen`.

    A part whose columns do not serve is refused, or gives no rows where it was found in a folder:
    whether it is there may be a fact about one person. Where that is so of *all* of several files,
    nothing could be counted, and the source is refused before anybody pays.

    What decides is which kinds of files a source holds (formats by name, columns by header or
    footer), never a row. That kind is a public fact, as the schema of a table is: a source with a
    file a person keeps them alike. So one person's file of another kind takes no rows from the
    others, and one file that stands alone decides nothing, like none: both are counted. Who cannot
    call the kind of files public names the `format` or points at the files.

    Raises:
        SfumatoError: a part that the holder named does not serve, or none does.
    """
    parts: list[EventFile | EventTable] = []
    unfit = list(events.unfit)
    refusal: SfumatoError | None = None
    for part in events.parts:
        try:
            reading = replace(part.reading, columns=chosen(part.reading.columns))
        except SfumatoError as error:
            if isinstance(part, EventTable) or part.named:
                raise
            refusal = refusal or error
            unfit.append((part.label, error.problem))
        else:
            parts.append(replace(part, reading=reading))
    if refusal is not None and not parts and len(events.parts) > 1:
        raise refusal
    return replace(events, parts=tuple(parts), unfit=tuple(unfit))


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


def all_rows(events: Events, held: UserEncoding) -> tuple[list[list[Positions]], Events]:
    """All rows at once, part by part, for sources that fit in memory; without damaged files.

    `held`: how ids are held, whichever files turn out to be damaged.
    """
    rows: list[list[Positions]] = []
    for part in events.parts:
        try:
            rows.append(list(rows_of(replace(events, parts=(part,)), held=held)))
        except Damaged as error:
            events = without_damaged(events, error)
    return rows, events


def expected_rows(events: Events) -> int:
    """Rows by the files' metadata, for progress only; 0 where not known."""
    total = 0
    for part in events.parts:
        if isinstance(part, EventTable):
            total += part.table.num_rows
        else:
            rows = FORMATS[part.format].expected_rows(part.path)
            if not rows and part.format != Parquet.name:
                return 0
            total += rows
    return total
