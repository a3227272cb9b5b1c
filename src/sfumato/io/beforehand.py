"""What the holder's own words rule out: asked by every verb before anything is read or charged.

A charge that cannot come to anything is refused from the format, the names of formats and the text
of the option alone. Nothing is opened.

**Why the text of the option, and no folder that is found.** Partition folders are read as fields of
records (`user=anna/`, `date=2008-02-02/`), so whether there is one may be a fact about one person:
who alone was there on a day makes the folder of that day. If a period was refused because no folder
of it was found, that a release came to be would tell of that person. A pattern that stands in the
option is the holder's choice, the same for any records. So `events/date=2009-01-*/*.csv` rules 2008
out, and `events/` with the same folders in it rules out nothing. Nor does a path without a pattern:
its folders lie above what was pointed at and are no fields (`backup/date=2009-01-03/calls.csv`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sfumato.errors import SfumatoError, UsageError
from sfumato.io.columns import placed
from sfumato.io.events import format_named, known_format, located, resolved
from sfumato.io.files import Located, is_address, is_path
from sfumato.io.formats import ReadOptions
from sfumato.io.names import EVENT_ROLES, of_roles
from sfumato.model.events import EventFile, Events, EventTable, Reading
from sfumato.model.time_grid import MICROSECONDS

_PART = re.compile(r"(year|month|day|date|dt)=([0-9*?\[\]-]+)", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[]")
_FORMS = {
    "year": ("%Y",),
    "month": ("%m", "%Y-%m", "%Y%m"),
    "day": ("%d", "%Y-%m-%d", "%Y%m%d"),
    "date": ("%Y-%m-%d", "%Y%m%d"),
    "dt": ("%Y-%m-%d", "%Y%m%d"),
}
"""How the folders of days are called, and how a day is written in them; also without zeros."""
_CLOCKS = timedelta(days=1)
"""A folder of a day by one clock holds records of the days beside it by another."""


def require_possible(
    source: object,
    format: str | None,
    column: Mapping[str, str] | None = None,
    *,
    zones: bool,
    period: tuple[int, int] | None = None,
    clock: str | None = None,
) -> None:
    """Refuse events that can name no place of the kind, lie in no day of the period, or are on a
    clock that is not the one stated.

    Args:
        source: The events; what is no files, or is not there yet, says nothing.
        format: The format that is stated.
        column: The columns that are stated, of events and of other files.
        zones: Whether the places are zones or cells; otherwise they are towers.
        period: First instant and first instant after, in epoch microseconds.
        clock: The clock that is stated for times without an offset.

    Raises:
        UsageError: They cannot.
    """
    if period is not None:
        _require_days(source, period)
    _require_placed(source, format, zones, column, clock)


def _require_placed(
    source: object,
    format: str | None,
    zones: bool,
    column: Mapping[str, str] | None,
    clock: str | None,
) -> None:
    """Refuse towers where the records are of a format that has coordinates and no tower, and a
    clock where the format has its own.

    By the format that the holder states, whatever files there are; where none is stated, by the
    names of the files, under the rule of `sfumato.io.events.read_by`.
    """
    if format is not None:
        if (reading := format_named(format).reading) is not None:
            _require_clock(reading, clock)
            placed(reading.columns, zones)
        return
    files = _named(source)
    if not files:
        return
    parts: list[EventFile | EventTable] = []
    chosen = of_roles(column or {}, EVENT_ROLES).values()
    for file in files:
        kind = known_format(file, chosen)
        if kind is None or kind.reading is None:  # its header says what it has
            return
        _require_clock(kind.reading, clock)
        parts += kind.read(file, ReadOptions()).parts
    resolved(Events(tuple(parts)), zones)


def _require_clock(reading: Reading, clock: str | None) -> None:
    if clock is not None and reading.tz not in (None, clock):
        raise UsageError(
            f"Times of this format are on the clock of {reading.tz}, and `events_tz` is {clock}.",
            remedy="Leave `events_tz` out; or state the columns by number, as of any table.",
        )


def of_fleet(source: object, format: str | None, column: Mapping[str, str] | None = None) -> bool:
    """Whether the events are those of vehicles whose receivers write all day.

    By the format that the holder states, or that the names of all files say. One more vehicle is
    one more file of that name, so none of them decides.
    """
    if format is not None:
        return format_named(format).fleet
    chosen = of_roles(column or {}, EVENT_ROLES).values()
    kinds = [known_format(file, chosen) for file in _named(source)]
    return bool(kinds) and all(kind is not None and kind.fleet for kind in kinds)


def _named(source: object) -> tuple[Located, ...]:
    """The files that a source means; none where it is no files, or they are not there yet."""
    if not is_path(source) or is_address(source):
        return ()
    try:
        return located(source)
    except SfumatoError:  # for the reader to say
        return ()


def _require_days(source: object, period: tuple[int, int]) -> None:
    """Refuse patterns that say of which days their files are, where the period has none of them."""
    if not is_path(source) or is_address(source):
        return
    texts: Any = source if isinstance(source, list | tuple) else [source]
    partitions = {tuple(_partitions(os.fsdecode(text))) for text in texts}
    if not partitions or any(_holds(parts, period) for parts in partitions):
        return
    raise UsageError(
        "The pattern of the events is one for other days than those of the period.",
        remedy="Check `start` and `end`. Where folders are called by the day of loading, give the "
        "folder above them.",
    )


def _partitions(text: str) -> Iterator[tuple[str, str]]:
    """Partition folders of a pattern, below where it begins: `sfumato.io.files.partition_keys`."""
    if (glob := _GLOB.search(text)) is None:
        return
    begin = text.rfind(os.sep, 0, glob.start()) + 1
    for name in text[begin:].split(os.sep):
        if (part := _PART.fullmatch(name)) is not None:
            yield part[1].lower(), part[2]


def _holds(parts: Iterable[tuple[str, str]], period: tuple[int, int]) -> bool:
    """Whether a day of the period could lie in folders of these names."""
    first, after = (datetime.fromtimestamp(at // MICROSECONDS, UTC).date() for at in period)
    day, last = first - _CLOCKS, after + _CLOCKS
    while day <= last:
        if all(_matches(day, key, value) for key, value in parts):
            return True
        day += timedelta(days=1)
    return False


def _matches(day: date, key: str, value: str) -> bool:
    written = {day.strftime(form) for form in _FORMS[key]}
    return any(
        fnmatchcase(text, value) for text in written | {text.lstrip("0") for text in written}
    )
