"""What a format of events is, and the formats of text and tables: CSV, NDJSON, frames.

**The contract.** A format says whether a source is its own (`can_read`), describes it (`read`) and,
where it describes files, gives their rows (`positions`). The first two go by types, layout, names,
headers and footers and never by rows, so that no row decides how another is read; `Damaged` is
raised where a file itself is broken, and nothing because of what a row holds. Rows leave in Arrow
columns through `sfumato.io.rows`, so every format obeys the same rules.

**Another format** is a subclass of `Format` in a file of its own (`LineFormat` where records are
lines, `FixedLines` where they have no header) and a line of `sfumato.io.events.FORMATS`. Then it is
read as events and as traces, by every command: docs/decisions/formats.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.io.columns import EPOCHS, check_time_options, describe
from sfumato.io.files import (
    CSV_ENDINGS,
    NDJSON_ENDINGS,
    CsvDialect,
    Located,
    headless,
    is_path,
    open_text,
    read_dialect,
    read_piece,
)
from sfumato.io.json_lines import json_values
from sfumato.io.lines import cut_csv, whole_lines
from sfumato.io.names import EVENT_ROLES, TimeName, by_position, of_roles
from sfumato.io.rows import Positions, RowRules
from sfumato.io.tables import (
    LABEL,
    Column,
    arrow_columns,
    as_table,
    is_spark_frame,
    without_fractions,
)
from sfumato.model.events import EventColumns, EventFile, Events, EventTable, Reading, UserEncoding
from sfumato.model.source import Progress


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the holder says about how a source is read; a format takes what concerns it."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Part (user, time, place, lon, lat) to column; parts of other files are left out."""
    tz: str | None = None
    """Clock of times that carry no zone."""
    time_unit: str | None = None
    """Unit of epoch numbers: s, ms, us or ns."""
    period: tuple[int, int] | None = None
    """First instant and first instant after; a database leaves other rows behind."""
    progress: Progress | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", of_roles(self.columns, EVENT_ROLES))
        check_time_options(self.tz, self.time_unit)


class Format:
    """One format: what it is called, which sources are its own, and how they are read."""

    name: ClassVar[str]
    """What `format` calls it; it is part of a release's fingerprint."""
    endings: ClassVar[tuple[str, ...]] = ()
    """Endings of its files; with `format=`, those files of a folder are read. None: no files."""
    fleet: ClassVar[bool] = False
    """Whether it is of vehicles whose receivers write all day."""
    reading: ClassVar[Reading | None] = None
    """How every file of it is read, where the format itself says so and no header does."""
    by_name_alone: ClassVar[bool] = False
    """Whether its files end as tables do: then it gives way where the holder states columns."""

    def can_read(self, source: object) -> bool:
        """Whether a source is of this format: a `Located` file, or what else the holder gave.

        By type, layout and name. Nothing is opened: what a file holds may be one person's.
        """
        return isinstance(source, Located) and source.path.name.lower().endswith(self.endings)

    def read(self, source: Any, options: ReadOptions) -> Events:
        """Describe a source; a file that is empty has no parts.

        Raises:
            InputError: the source is not of this format, or leaves open how it is read.
        """
        raise NotImplementedError

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        """The rows of a file that `read` described, batch by batch.

        Raises:
            Damaged: the file is broken.
        """
        raise NotImplementedError

    def expected_rows(self, path: Path) -> int:  # noqa: ARG002
        """Rows by the file's metadata, for progress only; 0 where not known."""
        return 0


class LineFormat(Format):
    """Text files whose records are lines, each by itself: Spark's workers read these too."""

    def rows(self, data: bytes, file: EventFile, rules: RowRules, skipped: int = 0) -> Positions:
        """Rows of whole lines; `skipped` lines were too long. Fields apart by a delimiter."""
        return csv_positions(data, file, rules, skipped)

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        for data, skipped in text_blocks(file.path, file.ahead):
            yield self.rows(data, file, rules, skipped)


class FixedLines(LineFormat):
    """Lines whose fields are the same in every file, without a header that names them."""

    delimiter: ClassVar[str] = ","
    header: ClassVar[tuple[str, ...]]
    """What the fields are, in their order."""
    reading: ClassVar[Reading]
    ahead: ClassVar[int] = 0
    """Lines before the first record."""

    def user_of(self, path: Path) -> str | None:  # noqa: ARG002
        """Whose file it is, by its path; nothing where every line says so itself."""
        return None

    def read(self, source: Located, options: ReadOptions) -> Events:  # noqa: ARG002
        whose = self.user_of(source.path)
        keys = () if whose is None else ((self.reading.columns.user, whose),)
        part = EventFile(
            source.path,
            self.name,
            self.reading,
            self.delimiter,
            self.header,
            source.named,
            keys,
            self.ahead,
        )
        return Events((part,))


@dataclass(frozen=True, slots=True)
class FileSchema:
    """Columns of a file, and how a CSV file is cut. `open_names`: every line names its own."""

    columns: tuple[Column, ...]
    delimiter: str = ","
    header: tuple[str, ...] = ()
    open_names: bool = False
    headless: bool = False
    """Whether there is no header line; then other fields may follow those of `header`."""


class TableFormat(Format):
    """Files with columns that a header or footer names, or every line (`FileSchema.open_names`)."""

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:
        """Columns from header or footer; nothing where the file is empty."""
        raise NotImplementedError

    def read(self, source: Located, options: ReadOptions) -> Events:
        schema = self.schema(source.path, options.columns.values())
        return Events(()) if schema is None else self.described(source, schema, options)

    def described(self, file: Located, schema: FileSchema, options: ReadOptions) -> Events:
        """A file whose schema is known, wherever it is."""
        notes: tuple[str, ...] = ()
        tz, unit = options.tz, options.time_unit
        if schema.open_names:
            reading = open_names(options.columns, tz, unit)
        else:
            columns = with_keys(schema.columns, file)
            reading, notes = describe(columns, options.columns, str(file.path), tz=tz, unit=unit)
        return Events((self.part(file, schema, reading),), notes)

    def part(self, file: Located, schema: FileSchema, reading: Reading) -> EventFile:
        """The file, to be read so."""
        return EventFile(
            file.path,
            self.name,
            reading,
            schema.delimiter,
            schema.header,
            file.named,
            file.keys,
            int(bool(schema.header) and not schema.headless),
            schema.headless,
        )


def with_keys(columns: Collection[Column], file: Located) -> list[Column]:
    """The columns of a file and those that its partition folders state, which go first."""
    keys = dict(file.keys)
    stored = [column for column in columns if column.name not in keys]
    return [*stored, *(Column(name, "VARCHAR") for name in keys)]


def open_names(chosen: Mapping[str, str], tz: str | None, unit: str | None) -> Reading:
    """NDJSON has no header: members are called as the options say, or by the parts' own names.

    In zones, positions count unless the holder named a place. A time that is a number counts
    seconds unless an option says otherwise; text is ISO 8601, of UTC where the name says so.
    """
    name = {role.key: chosen.get(role.key, role.key) for role in EVENT_ROLES}
    by_name = frozenset({"place"}) if "place" in chosen else frozenset({"lon", "lat"})
    columns = EventColumns(
        name["user"], name["time"], name["place"], name["lon"], name["lat"], 1.0, by_name
    )
    clock = "UTC" if TimeName.of(name["time"]).utc else tz
    return Reading(columns, EPOCHS[unit or "s"], UserEncoding.TEXT, clock, time_is_text=True)


def constants(keys: Mapping[str, str | None], rules: RowRules, rows: int) -> dict[str, Any]:
    """Columns that the partition folders state, as bytes: a path need not be UTF-8."""
    stated = {name: keys[name] for name in rules.used if name in keys}
    return {
        name: pa.repeat(pa.scalar(None if text is None else os.fsencode(text), pa.binary()), rows)
        for name, text in stated.items()
    }


def text_blocks(path: Path, ahead: int = 0) -> Iterator[tuple[bytes, int]]:
    """Whole lines of a text file behind the first `ahead`, and how many over-long ones follow."""
    with open_text(path) as opened:
        for block in whole_lines(lambda size: read_piece(opened, path, size)):
            data, skipped = block.data, block.skipped
            while ahead and data:
                data, ahead = data[data.find(b"\n") + 1 :], ahead - 1
            heads = min(ahead, skipped)
            ahead -= heads
            yield data, skipped - heads


class Csv(TableFormat, LineFormat):
    """Lines cut by `sfumato.io.lines`; every field is text and nothing is guessed."""

    name = "csv"
    endings = CSV_ENDINGS
    delimiter: ClassVar[str | None] = None
    """What stands between fields; none: what the header shows, or the file's ending."""

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:
        if by_position(chosen):
            return csv_schema(headless(path, chosen, self.delimiter))
        dialect = read_dialect(path, chosen, self.delimiter)
        return None if dialect is None else csv_schema(dialect)


class TabSeparated(Csv):
    """The same with tabs; `format` says so where there is no header to show it."""

    name = "tsv"
    delimiter = "\t"


class SemicolonSeparated(Csv):
    """The same with semicolons."""

    name = "ssv"
    delimiter = ";"


class BarSeparated(Csv):
    """The same with bars."""

    name = "psv"
    delimiter = "|"


def csv_schema(dialect: CsvDialect) -> FileSchema:
    """The schema that a header states, or the numbers of the columns."""
    columns = tuple(Column(name, "VARCHAR") for name in dialect.columns)
    return FileSchema(columns, dialect.delimiter, dialect.columns, headless=dialect.headless)


def csv_positions(data: bytes, file: EventFile, rules: RowRules, skipped: int = 0) -> Positions:
    """Rows of whole lines of a CSV file, its header not among them."""
    keys = dict(file.keys)
    stored = [name for name in rules.used if name not in keys]
    wanted = [file.header.index(name) for name in stored]
    cut = cut_csv(data, file.delimiter, len(file.header), wanted, file.more_fields)
    return rules.positions(
        dict(zip(stored, cut.columns, strict=True)) | constants(keys, rules, cut.rows),
        unreadable=cut.malformed + skipped,
    )


class NdJson(TableFormat, LineFormat):
    """One JSON object a line; the names of its members are those of the options."""

    name = "ndjson"
    endings = NDJSON_ENDINGS

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:  # noqa: ARG002
        return FileSchema((), open_names=True)

    def rows(
        self,
        data: bytes,
        file: EventFile,  # noqa: ARG002
        rules: RowRules,
        skipped: int = 0,
    ) -> Positions:
        return json_positions(data, rules, skipped)


def json_positions(data: bytes, rules: RowRules, skipped: int = 0) -> Positions:
    """Rows of whole lines of NDJSON."""
    names = rules.reading.columns
    ids = [name for name in (names.user, names.place) if name is not None]
    found = json_values(data, rules.used, ids)
    return rules.positions(
        found.columns,
        numeric_times=found.numeric[names.time],
        unreadable=found.malformed + skipped,
    )


class Frame(Format):
    """What is in memory already: Arrow, pandas, geopandas, polars, a DuckDB relation."""

    name = "frame"

    def can_read(self, source: object) -> bool:
        return not isinstance(source, Located) and not is_path(source)

    def read(self, source: object, options: ReadOptions) -> Events:
        table = as_table(source)
        reading, notes = describe(
            arrow_columns(table.schema),
            options.columns,
            LABEL,
            tz=options.tz,
            unit=options.time_unit,
        )
        roles = reading.columns
        table = without_fractions(source, table, (roles.user, roles.place))
        return Events((EventTable(table.select(list(roles.used)), reading),), notes)


class SparkTable(Format):
    """A Spark DataFrame, brought here whole: what is small enough for traces, streams, attacks.

    `release` and `evaluate` count it where it is instead (`sfumato.engine.open`).
    """

    name = "spark"

    def can_read(self, source: object) -> bool:
        return is_spark_frame(source)

    def read(self, source: Any, options: ReadOptions) -> Events:
        from sfumato.engine.spark.files import collected

        return collected(source, options)
