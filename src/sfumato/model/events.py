"""`Events`: where the records are and what their columns mean. Lazy: nothing is read here.

`io` describes a source as `Events`; an engine turns the description into a relation. The
description holds no record, so it may be printed and put in an internal log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sfumato.model.errors import UsageError


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
class FileSource:
    """Files of one format, in a fixed order. `hive` reads partition folders as columns."""

    paths: tuple[Path, ...]
    format: FileFormat
    hive: bool = False


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

    def __post_init__(self) -> None:
        if self.time is TimeEncoding.NAIVE and self.tz is None:
            raise UsageError(
                "The event times carry no time zone.",
                remedy="Say whose wall clock they are with --tz, for example --tz Europe/Paris.",
            )
