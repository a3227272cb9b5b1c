"""`Events`: where the records are and how each is read. Lazy: no record is looked at here.

`sfumato.io` describes sources as `Events`, an engine counts them. The description holds no
record, so it may be printed and put in an internal log.

**No row affects another.** Every part (a file, a table) has a `Reading` of its own, made from
its schema, the names of its columns, its path and the holder's options, never from values. A
row that cannot be read is dropped and counted internally (`sfumato.io.rows` has the rules); a
part that was *found* in a folder and does not fit gives no rows. So the description of a part
does not change with a person's rows, and one part says nothing about another.

**Who is one person.** The canonical text of an id: decimal digits of a whole number, text as it
is, lower-case hex of bytes. 7 in a column of integers and `7` in a CSV file are one person;
`007` is another.

**Time**, always to epoch microseconds, rounded down:

============  ==============  =============================================================
`time`        `time_is_text`  meaning
============  ==============  =============================================================
INSTANT       no              a timestamp with zone of any precision
NAIVE         no              a timestamp without zone of any precision, on the clock of `tz`
ISO           yes             ISO 8601: the offset counts; without one the clock of `tz`
EPOCH_S …NS   no              integer, exact (ns: floor division by 1000), or double
EPOCH_S …NS   yes             a plain decimal number, fractions count
============  ==============  =============================================================

The clock of `tz` becomes an instant by `sfumato.model.time_grid`, the earlier reading of an
hour that the clock repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError


class TimeEncoding(StrEnum):
    """How the time column stores an instant."""

    INSTANT = "instant"
    """A timestamp with a zone."""
    NAIVE = "naive"
    """A timestamp on a local wall clock; `tz` says whose."""
    ISO = "iso"
    """ISO 8601 text. Without an offset it is on the clock of `tz`, or no time without one."""
    EPOCH_S = "epoch_s"
    EPOCH_MS = "epoch_ms"
    EPOCH_US = "epoch_us"
    EPOCH_NS = "epoch_ns"


class UserEncoding(StrEnum):
    INTEGER = "integer"
    TEXT = "text"
    BINARY = "binary"


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
    chosen: frozenset[str] = frozenset()
    """The parts whose columns the holder named himself."""

    def __post_init__(self) -> None:
        if (self.lon is None) != (self.lat is None):
            raise UsageError("Coordinates need both a longitude and a latitude column.")
        if self.place is None and self.lon is None:
            raise UsageError(
                "The events have neither a place column nor coordinates.",
                remedy="Name them with `column={'place': NAME}`, or with "
                "`column={'lon': NAME, 'lat': NAME}`.",
            )

    def by_coordinates(self, zones: bool) -> bool:
        """Whether rows find their place by coordinates: in zones, where the schema leaves no doubt.

        Refused from the schema alone where zones are given and there are both a place and
        coordinates, neither named by the holder.
        """
        if not zones:
            if self.place is None:
                raise UsageError(
                    "The events carry coordinates and no tower, but the places are towers.",
                    remedy="Leave `towers` out and count positions in `zones`, or in the cells of "
                    "a `grid` with its `region`; or name the tower column with "
                    "`column={'place': NAME}`.",
                )
            return False
        if self.lon is None or self.place is None:
            return self.lon is not None
        place, degrees = "place" in self.chosen, bool(self.chosen & {"lon", "lat"})
        if place == degrees:
            raise UsageError(
                f"The events have a place ({self.place!r}) and coordinates ({self.lon!r}, "
                f"{self.lat!r}); which of them lie in the zones is not said.",
                remedy=f"Write `column={{'place': {self.place!r}}}` to count by the zones' names, "
                f"or `column={{'lon': {self.lon!r}, 'lat': {self.lat!r}}}` to count by position.",
            )
        return degrees

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that play a part, each once."""
        names = (self.user, self.time, self.place, self.lon, self.lat)
        return tuple(name for name in names if name is not None)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of one part are read, decided before any of them is."""

    columns: EventColumns
    time: TimeEncoding
    user: UserEncoding
    tz: str | None = None
    """Clock of times that carry no zone."""
    time_is_text: bool = False

    def __post_init__(self) -> None:
        if self.time is TimeEncoding.NAIVE and self.tz is None:
            raise UsageError(
                "The event times carry no time zone.",
                remedy="Say whose wall clock they are with `events_tz`, for example "
                "`events_tz='Europe/Paris'`.",
            )


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file, its format by name (`sfumato.io.events.FORMATS`), and how its rows are read.

    `header` are the names of the fields of a line in their order, where its format is cut so.

    `named`: the holder pointed at this very file, so damage is an error; a damaged file that
    was found in a folder gives no rows. `keys` are what its path says, as text columns: partition
    folders (`day=01/`), or whose file it is. `ahead`: lines of a text file before its first record.
    `more_fields`: lines may have fields behind those of `header`.
    """

    path: Path
    format: str
    reading: Reading
    delimiter: str = ","
    header: tuple[str, ...] = ()
    named: bool = True
    keys: tuple[tuple[str, str | None], ...] = ()
    ahead: int = 1
    more_fields: bool = False

    @property
    def label(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """An Arrow table (or anything that became one without a copy) held in memory."""

    table: Any
    reading: Reading
    label: str = "table"


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Described, unread records of who, when and where, in parts of one source.

    `unordered` says that the same rows may come in another order next time (a database), and
    `keeper` holds the folder of its snapshot. `label` is what messages call the source instead
    of its paths. `unfit` counts files of a folder that give no rows: internal.
    """

    parts: tuple[EventFile | EventTable, ...]
    notes: tuple[str, ...] = ()
    """How columns are read, for the holder's log: public choices."""
    label: str | None = None
    unordered: bool = False
    unfit: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Files of a folder that do not fit, and why; for the holder alone."""
    keeper: Any = field(default=None, repr=False)

    @classmethod
    def of_table(
        cls,
        table: Any,
        columns: EventColumns,
        time: TimeEncoding,
        user: UserEncoding,
        tz: str | None = None,
        *,
        time_is_text: bool = False,
        label: str = "table",
    ) -> Events:
        """A table whose columns are known."""
        reading = Reading(columns, time, user, tz, time_is_text)
        return cls((EventTable(table, reading, label),))

    @property
    def user(self) -> UserEncoding:
        """How ids are held: as integers or bytes where all parts do, otherwise as text."""
        held = {part.reading.user for part in self.parts}
        return held.pop() if len(held) == 1 else UserEncoding.TEXT

    @property
    def names(self) -> tuple[str, ...]:
        """Public names of the parts, for messages."""
        if self.label is not None:
            return (self.label,)
        return tuple(part.label for part in self.parts) or ("events",)

    def close(self) -> None:
        """Let go of what reading took: the snapshot of a database. Files stay as they are."""
        if self.keeper is not None:
            self.keeper.cleanup()
