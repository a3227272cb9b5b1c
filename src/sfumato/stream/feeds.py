"""Where events come from: lines of JSON on standard input, or a folder that fills.

A feed gives tables of rows and ticks of the clock, in order. In NDJSON a line
`{"clock": "2024-03-04T09:00:00Z"}` states the time, from the first line on; otherwise the
machine's clock counts. In a folder, files are read once, in the order of their names, when they
have their final name (write under a name that starts with a dot and rename); a file `CLOCK` with
an instant in it states the time, for replays.

A line or a row that cannot be read is dropped, and neither stops the stream nor changes how
the others are read: types are not guessed from the rows. CSV is text throughout, so that an id
`007` is the same person in every file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sfumato.model.errors import InputError
from sfumato.model.time_grid import MICROSECONDS
from sfumato.stream.intake import known_format, standard_rows
from sfumato.stream.lines import rows_of


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of user, time and place or coordinates, in no order, and how many were unreadable."""

    table: pa.Table
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """What the clock says, in epoch microseconds."""

    clock_us: int


Item = Rows | Tick
_CHUNK = 1 << 20
_STDIN = "standard input"


def machine_clock() -> int:
    return int(time.time() * MICROSECONDS)


def ndjson_feed(stream: BinaryIO, names: dict[str, str], *, coordinates: bool) -> Iterator[Item]:
    """Rows and ticks of a stream of JSON lines, until it ends.

    Who states the clock begins with it. If a later line would do, the machine's clock would count
    until then, and how many rows come before that line would decide which slots it closes.
    """
    rest, stated = b"", None
    while True:
        read = getattr(stream, "read1", stream.read)
        chunk = read(_CHUNK)
        if not chunk and rest and not rest.endswith(b"\n"):
            chunk = b"\n"
        rest += chunk
        cut = rest.rfind(b"\n") + 1
        lines, rest = rest[:cut], rest[cut:]
        for part in _parts(lines):
            if stated is None:
                stated = isinstance(part, Tick)
            if not isinstance(part, Tick):
                yield Rows(*rows_of(part, names, coordinates=coordinates))
            elif stated:
                yield part
            else:
                raise InputError(
                    "the clock is stated after the first line.",
                    file=_STDIN,
                    remedy='Begin with a line {"clock": "…"}, or leave the clock to the machine.',
                )
        if stated is False or (stated is None and not chunk):
            yield Tick(machine_clock())
        if not chunk:
            return


def _parts(lines: bytes) -> Iterator[bytes | Tick]:
    """Runs of whole lines that are rows, and what the clock says between them."""
    begin = at = 0
    while (at := lines.find(b'"clock"', at)) >= 0:
        start, stop = lines.rfind(b"\n", 0, at) + 1, lines.find(b"\n", at) + 1
        tick, at = _clock(lines[start:stop]), stop
        if tick is None:
            continue
        if lines[begin:start].strip():
            yield lines[begin:start]
        yield tick
        begin = stop
    if lines[begin:].strip():
        yield lines[begin:]


def folder_feed(
    folder: Path,
    names: dict[str, str],
    *,
    coordinates: bool,
    wait: float = 1.0,
    more: Callable[[], bool],
) -> Iterator[Item]:
    """Rows of the files that appear, and ticks, as long as `more` says so."""
    if not folder.is_dir():
        raise InputError("this is no folder.", file=str(folder))
    seen: set[str] = set()
    while more():
        fresh = sorted(
            path.name
            for path in folder.iterdir()
            if path.name not in seen and path.name != "CLOCK" and known_format(path.name)
        )
        clock = folder / "CLOCK"
        tick = _instant(clock.read_text("ascii").strip(), clock.name) if clock.exists() else None
        for name in fresh:
            seen.add(name)
            table = _table(folder / name)
            rows = standard_rows(table, names, name, coordinates=coordinates)
            yield Rows(rows, table.num_rows - rows.num_rows)
        yield Tick(machine_clock() if tick is None else tick)
        if not fresh and more():
            time.sleep(wait)


def _table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path, partitioning=None)
        return _csv(path)
    except (pa.ArrowInvalid, OSError):
        pass
    raise InputError("the file cannot be read.", file=path.name)


def _csv(path: Path) -> pa.Table:
    """Every column as text; empty is missing, and a row with too many or too few fields is left."""
    skipping = pyarrow.csv.ParseOptions(invalid_row_handler=lambda _row: "skip")
    with pyarrow.csv.open_csv(path, parse_options=skipping) as header:
        names = header.schema.names
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    return pyarrow.csv.read_csv(path, parse_options=skipping, convert_options=as_text)


def _clock(line: bytes) -> Tick | None:
    """What a line says about the time; nothing where it is a row that happens to hold the word."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or set(said) != {"clock"}:
        return None
    return Tick(_instant(str(said["clock"]), _STDIN))


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
