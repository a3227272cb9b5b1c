"""Where events come from: lines of JSON on standard input, a folder that fills, or a topic.

A feed gives rows, files that gave none and ticks of the clock, in order. Lines and files are
read as `release` reads them (`sfumato.io`): how a record is read depends on that record, the
schema of its file and the holder's options alone. A record that cannot be read costs itself
alone, a record of more than a megabyte is skipped in constant memory, and a file that is damaged,
empty, of another kind or leaves something open gives no rows: the stream goes on.

**Whose clock counts is a public choice**: the machine's or the feeder's (`Options.fed_clock`). Then
lines `{"clock": "2024-03-04T09:00:00Z"}` state the time. If the first line decided, whose line is
first would. The line is the unit: who can write a line of their own into the pipe can state the
time, so the feeder builds lines with a JSON encoder, which leaves no line break inside a value.

In a folder, files are read once, in the order of their names, when they have their final name
(write under a name that starts with a dot and rename); a file `CLOCK` with an instant in it states
the time, for replays.

**The machine's clock is read whether or not anything comes, and before what came counts.** If a
row's arrival made it tick, one person's row would close a slot for all that come after it, and
the slot's publication would tell that it came.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from sfumato.errors import InputError, SfumatoError
from sfumato.io.columns import check_time_options, placed
from sfumato.io.events import is_event_file, read_events, resolved, rows_of
from sfumato.io.files import unreadable
from sfumato.io.formats import json_positions, open_names
from sfumato.io.lines import whole_lines
from sfumato.io.names import EVENT_ROLES, of_roles
from sfumato.io.rows import Positions, RowRules
from sfumato.model.events import UserEncoding
from sfumato.model.time_grid import MICROSECONDS


@dataclass(frozen=True, slots=True)
class Options:
    """What the holder says about how events are read: the same for every line and every file."""

    zones: bool
    """Whether the places are zones, in which coordinates count."""
    columns: Mapping[str, str] = field(default_factory=dict)
    tz: str | None = None
    """Clock of times that carry no offset."""
    time_unit: str | None = None
    period: tuple[int, int] | None = None
    fed_clock: bool = False
    """Whether lines of the feed state the time; otherwise the machine's clock counts."""
    format: str | None = None
    """Format of the files, where their names do not tell."""
    broker_clock: bool = False
    """Whether the stamps of a topic's broker decide what is late (`streams.kafka`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", of_roles(self.columns, EVENT_ROLES))
        check_time_options(self.tz, self.time_unit)


@dataclass(frozen=True, slots=True)
class Unfit:
    """A file of the folder that gives no rows, and why; for the holder alone."""

    name: str
    why: str

    def internal_counts(self) -> dict[str, Any]:
        """Counted with all rows, in `slots.Dropped`."""
        return {}

    def internal_lines(self) -> list[str]:
        """Lines for the holder's internal log. Never publish them."""
        return [f"{self.name} gives no rows: {self.why}"]


@dataclass(frozen=True, slots=True)
class Tick:
    """What the clock says, in epoch microseconds."""

    clock_us: int
    stated: bool = field(default=False, compare=False)
    """Whether the feeder stated it; otherwise it is the machine's."""


@dataclass(frozen=True, slots=True, eq=False)
class Dated:
    """Rows, and the slots that were open to them when they came: from `first`, before `stop`."""

    rows: Positions
    first: int
    stop: int


Item = Positions | Dated | Unfit | Tick
_STDIN = "standard input"
_CLOCK = "CLOCK"
_LONGEST_CLOCK = 100


def machine_clock() -> int:
    return int(time.time() * MICROSECONDS)


def line_rules(options: Options) -> RowRules:
    """How a line of JSON becomes a row; ids are held as their canonical text."""
    said = open_names(options.columns, options.tz, options.time_unit)
    reading = replace(said, columns=placed(said.columns, options.zones))
    located = reading.columns.lon is not None
    return RowRules(reading, UserEncoding.TEXT, coordinates=located, period=options.period)


def ndjson_feed(stream: BinaryIO, options: Options, *, wait: float = 1.0) -> Iterator[Item]:
    """Rows and ticks of a stream of JSON lines, until it ends.

    On the machine's clock a row is late by the instant at which it was read, whoever else's came
    before. On the feeder's, nothing closes before the first line that states the time.
    """
    rules = line_rules(options)
    for block in whole_lines(_as_it_comes(stream, wait)):
        if not options.fed_clock:
            yield Tick(machine_clock())
        for part in _parts(block.data, block.skipped):
            if not isinstance(part, Tick):
                yield json_positions(part[0], rules, part[1])
            elif options.fed_clock:
                yield part
            else:
                raise InputError(
                    "a line states the clock, and the machine's clock was to count.",
                    file=_STDIN,
                    remedy="Say that the feed states it: `clock='feed'`; or leave the line out.",
                )
    if not options.fed_clock:
        yield Tick(machine_clock())


def _as_it_comes(stream: BinaryIO, wait: float) -> Callable[[int], bytes | None]:
    """What is there at once, or nothing yet after so many seconds.

    A live pipe must not wait until a block is full, nor the clock until somebody's line comes.
    """
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    try:
        handle = stream.fileno()
    except (AttributeError, OSError):  # not a file of the system: nothing to wait for
        return read

    def some(size: int) -> bytes | None:
        # Blocks are larger than the stream's own buffer, so nothing read waits in there.
        return read(size) if select.select([handle], [], [], wait)[0] else None

    return some


def _parts(lines: bytes, skipped: int) -> Iterator[tuple[bytes, int] | Tick]:
    """Runs of whole lines that are rows, and what the clock says between them."""
    begin = at = 0
    while (at := lines.find(b'"clock"', at)) >= 0:
        start, stop = lines.rfind(b"\n", 0, at) + 1, lines.find(b"\n", at) + 1
        tick, at = _clock(lines[start:stop]), stop
        if tick is None:
            continue
        if lines[begin:start].strip():
            yield lines[begin:start], 0
        yield tick
        begin = stop
    if lines[begin:].strip() or skipped:
        yield lines[begin:], skipped


def folder_feed(
    folder: Path,
    options: Options,
    *,
    wait: float = 1.0,
    more: Callable[[], bool],
) -> Iterator[Item]:
    """Rows of the files that appear, files that give none, and ticks, while `more` says so."""
    if not folder.is_dir():
        raise InputError("this is not a folder.", file=str(folder))
    seen: set[str] = set()
    looked = False
    while more():
        if looked:
            # At fixed instants: if files made the next look come sooner, one person's file would
            # decide which of the others' at the end of a slot are late.
            time.sleep(wait - time.time() % wait)
        looked = True
        # The clock first: a file that was there before its hour was told is not too late.
        tick = folder_clock(folder)
        fresh = sorted(
            path.name
            for path in folder.iterdir()
            if path.name not in seen and path.name != _CLOCK and path.name[0] not in "._"
        )
        for name in fresh:
            seen.add(name)
            yield from file_rows(folder / name, options)
        yield tick


def rows_in(source: object, options: Options) -> list[Positions] | None:
    """All rows of a file or a table, ids as their canonical text; `None` for an empty file."""
    events = resolved(
        read_events(
            source,
            columns=options.columns,
            tz=options.tz,
            time_unit=options.time_unit,
            format=options.format,
        ),
        options.zones,
    )
    if not events.parts:
        return None
    return list(rows_of(events, period=options.period, held=UserEncoding.TEXT))


def record_rows(records: Iterable[Mapping[str, Any]], options: Options) -> Positions:
    """Rows of records in memory, each read by itself as a line of JSON would be.

    As a data frame one record's value could decide the type of everybody's column. A record that
    is no JSON object is an unreadable row.
    """
    lines, bad = [], 0
    for record in records:
        try:
            lines.append(json.dumps(record, default=_plain).encode())
        except (TypeError, ValueError, RecursionError):
            bad += 1
    return json_positions(b"".join(line + b"\n" for line in lines), line_rules(options), bad)


def _plain(value: Any) -> Any:
    """Times and numpy's numbers as JSON has them."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError


def file_rows(path: Path, options: Options) -> list[Positions] | list[Unfit]:
    """All rows of a file, or none: one that breaks in the middle is not counted in part."""
    if options.format is None and not is_event_file(path):
        return [Unfit(path.name, "its name is not that of a format of events")]
    try:
        if not path.is_file():  # a pipe would be waited for until somebody writes to it
            return [Unfit(path.name, "it is not a file")]
        found = rows_in(path, options)
        return [Unfit(path.name, "it is empty")] if found is None else found
    except SfumatoError as error:
        return [Unfit(path.name, error.problem)]
    except (pa.ArrowException, OSError, ValueError):
        return [Unfit(path.name, "it cannot be read")]


def folder_clock(folder: Path) -> Tick:
    """What the file `CLOCK` says, or the machine."""
    path = folder / _CLOCK
    try:
        # Not waited for where it is a pipe, and no more than an instant is read.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(_LONGEST_CLOCK).decode("ascii", errors="replace")
    except FileNotFoundError:
        return Tick(machine_clock())
    except OSError as error:
        raise unreadable(path, error) from None
    return Tick(_instant(text.strip(), _CLOCK), stated=True)


def _clock(line: bytes) -> Tick | None:
    """What a line says about the time; nothing where it is a row that happens to hold the word."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or set(said) != {"clock"}:
        return None
    return Tick(_instant(str(said["clock"]), _STDIN), stated=True)


def _instant(text: str, where: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise InputError(
            "the clock is not an instant.", file=where, remedy="Write 2024-03-04T09:00:00Z."
        )
    return round(when.timestamp() * MICROSECONDS)
