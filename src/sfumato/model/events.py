"""`Events`: where the records are and what their columns mean. Lazy: nothing is read here.

`io` describes a source as `Events`; an engine turns the description into a relation. The
description holds no record, so it may be printed and put in an internal log.

What an engine does with it, the same on every engine:

**Files.** Parquet: `paths` by name, in this order; `hive` adds the partition folders' keys as
*text* columns (DuckDB: `hive_types_autocast=false`). The reader has checked that the columns
named in `columns` exist in every file with one type. CSV: every column is text and nothing is
guessed, so that an id `007` stays `007`; read with exactly `FileSource.csv` (delimiter, quote,
one header line, column names, UTF-8) and no detection. An empty field is missing. What the CSV
parser complains about contains the line itself: pass it through `sfumato.model.file_errors`,
which keeps file and line number only.

**User.** INTEGER: any integer type up to 64 bits, signed or not, or a decimal without
fraction of at most 18 digits (`CAST AS BIGINT` is exact for all but unsigned 64-bit columns).
TEXT: cast to text (text, UUID and enumerations), compared byte by byte. BINARY: the bytes.
A missing user is a row to drop and count; every other value is a user, also the empty binary.

**Place.** Cast to text (integers or text in the column) and compared with `Places.ids`.
A missing place is a row to drop and count.

**Coordinates.** Cast to double and divided by `columns.degrees_scale`. Text that is not a
number is an error; missing, not finite or out of range is a row to drop and count.

**Time**, always to epoch microseconds, rounded down:

============  ==============  =============================================================
`time`        `time_is_text`  meaning
============  ==============  =============================================================
INSTANT       no              a timestamp with zone of any precision
INSTANT       yes             each value fully matches `INSTANT_TEXT`; the offset counts
NAIVE         no              a timestamp without zone of any precision, on the clock of `tz`
NAIVE         yes             each value fully matches `NAIVE_TEXT`, on the clock of `tz`
EPOCH_S …NS   no              integer, exact (ns: floor division by 1000), or double
EPOCH_S …NS   yes             each value fully matches `NUMBER_TEXT`; s and ms are read as
                              double or decimal (fractions count), us and ns as integers
============  ==============  =============================================================

The clock of `tz` becomes an instant by `sfumato.model.wall_clock` (the earlier reading of an
hour that the clock repeats), not by an engine's own function: DuckDB takes the later one,
Spark the earlier. The text patterns are part of the contract because casts are lenient:
DuckDB drops the offset of `2020-01-01 00:00:00+02` when it casts to a timestamp, reads a text
without offset in the session's zone, and rounds `1.7` to the integer 2. A text that does not
match, or is no real date, is an error with its row number (the first record of a file is row
1, a header not counted); a missing time is a row to drop and count; infinite and NaN times
are outside every period.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sfumato.model.errors import UsageError

_DATE_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"

NAIVE_TEXT = _DATE_TIME
"""Date and time of day without an offset, as RE2 and `re.fullmatch` both read it."""
INSTANT_TEXT = _DATE_TIME + r"(Z| UTC|[+-](0[0-9]|1[0-7])(:?[0-5][0-9])?)"
"""Date, time of day and an offset from UTC of less than 18 hours, as every engine reads it."""
NUMBER_TEXT = r"[+-]?[0-9]{1,19}([.][0-9]{0,9})?"
"""A plain decimal number: no exponent, no separators."""


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"


class TimeEncoding(StrEnum):
    """How the time column stores an instant."""

    INSTANT = "instant"
    """A timestamp with a zone, or text with an offset."""
    NAIVE = "naive"
    """A local wall-clock reading; `tz` says whose."""
    EPOCH_S = "epoch_s"
    EPOCH_MS = "epoch_ms"
    EPOCH_US = "epoch_us"
    EPOCH_NS = "epoch_ns"


class UserEncoding(StrEnum):
    INTEGER = "integer"
    TEXT = "text"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a CSV file is cut into fields. All columns are text; there is one header line."""

    delimiter: str
    columns: tuple[str, ...]
    """All columns of the file in its own order; every file of a source has the same."""
    quote: str = '"'


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files of one format, in a fixed order. `hive` reads partition folders as columns.

    No path holds a character that a glob would expand. `csv` is set where the format is CSV.
    A snapshot of a database is a file source too: `label` is what messages call it instead of
    its paths, `unordered` says that the same rows may come in another order next time, and
    `keeper` holds the folder it lies in.
    """

    paths: tuple[Path, ...]
    format: FileFormat
    hive: bool = False
    csv: CsvDialect | None = None
    label: str | None = None
    unordered: bool = False
    keeper: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.paths:
            raise UsageError("A source of events needs at least one file.")
        if (self.csv is not None) != (self.format is FileFormat.CSV):
            raise UsageError("CSV files, and only they, have a dialect.")


@dataclass(frozen=True, slots=True, eq=False)
class TableSource:
    """An Arrow table (or anything that became one without a copy) held in memory."""

    table: Any
    label: str = "table"


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Which column plays which part. A tower id, or a pair of coordinates, never neither."""

    user: str
    time: str
    place: str | None = None
    lon: str | None = None
    lat: str | None = None
    degrees_scale: float = 1.0
    """Divide stored coordinates by this to get degrees (1e5 for `lon_e5`)."""

    def __post_init__(self) -> None:
        if (self.lon is None) != (self.lat is None):
            raise UsageError("Coordinates need both a longitude and a latitude column.")
        if self.place is None and self.lon is None:
            raise UsageError(
                "The events have neither a place column nor coordinates.",
                remedy="Name them with --column place=… or --column lon=… --column lat=….",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """A described, checked, unread table of who, when and where."""

    source: FileSource | TableSource
    columns: EventColumns
    time: TimeEncoding
    user: UserEncoding
    tz: str | None = None
    """Zone of naive times, `None` where times are instants."""
    notes: tuple[str, ...] = field(default=())
    """What the reader assumed (an alias it chose, say), for the holder's log."""
    time_is_text: bool = False
    """The time column holds text (every CSV file, and text columns elsewhere)."""

    def __post_init__(self) -> None:
        if self.time is TimeEncoding.NAIVE and self.tz is None:
            raise UsageError(
                "The event times carry no time zone.",
                remedy="Say whose wall clock they are with --tz, for example --tz Europe/Paris.",
            )

    def close(self) -> None:
        """Let go of what reading took: the snapshot of a database. Files stay as they are."""
        if isinstance(self.source, FileSource) and self.source.keeper is not None:
            self.source.keeper.cleanup()
