"""Where events come from: lines of JSON on standard input, or a folder that fills.

A feed gives tables of rows and ticks of the clock, in order. In NDJSON a line
`{"clock": "2024-03-04T09:00:00Z"}` states the time; without any such line the machine's clock
counts. In a folder, files are read once, in the order of their names, when they have their
final name (write under a name that starts with a dot and rename); a file `CLOCK` with an
instant in it states the time, for replays.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from sfumato.model.errors import InputError
from sfumato.model.time_grid import MICROSECONDS
from sfumato.stream.intake import known_format, standard_rows


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of user, time and place or coordinates, in no order."""

    table: pa.Table


@dataclass(frozen=True, slots=True)
class Tick:
    """What the clock says, in epoch microseconds."""

    clock_us: int


Item = Rows | Tick
_CHUNK = 1 << 20
_STDIN = "standard input"


def machine_clock() -> int:
    return int(time.time() * MICROSECONDS)


def ndjson_feed(stream: BinaryIO, names: dict[str, str]) -> Iterator[Item]:
    """Rows and ticks of a stream of JSON lines, until it ends."""
    rest, stated = b"", False
    while True:
        read = getattr(stream, "read1", stream.read)
        chunk = read(_CHUNK)
        if not chunk and rest and not rest.endswith(b"\n"):
            chunk = b"\n"
        rest += chunk
        cut = rest.rfind(b"\n") + 1
        lines, rest = rest[:cut], rest[cut:]
        while b'"clock"' in lines:
            at = lines.index(b'"clock"')
            begin = lines.rfind(b"\n", 0, at) + 1
            end = lines.find(b"\n", at) + 1
            if lines[:begin].strip():
                yield Rows(_rows(lines[:begin], names))
            yield Tick(_clock(lines[begin:end]))
            lines, stated = lines[end:], True
        if lines.strip():
            yield Rows(_rows(lines, names))
        if not stated:
            yield Tick(machine_clock())
        if not chunk:
            return


def folder_feed(
    folder: Path, names: dict[str, str], *, wait: float = 1.0, more: Callable[[], bool]
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
            yield Rows(standard_rows(_table(folder / name), names, name))
        yield Tick(machine_clock() if tick is None else tick)
        if not fresh and more():
            time.sleep(wait)


def _table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path, partitioning=None)
        return pyarrow.csv.read_csv(path)
    except (pa.ArrowInvalid, OSError):
        pass
    raise InputError("the file cannot be read.", file=path.name)


def _rows(lines: bytes, names: dict[str, str]) -> pa.Table:
    # Times are read as text, or else as numbers: a guessed timestamp would lose its offset.
    as_text = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema({names.get("time", "time"): pa.string()})
    )
    table = None
    for options in (as_text, None):
        try:
            table = pyarrow.json.read_json(io.BytesIO(lines), parse_options=options)
            break
        except pa.ArrowInvalid:
            continue
    if table is None:
        raise InputError("a line is not a JSON object like the others.", file=_STDIN)
    return standard_rows(table, names, _STDIN)


def _clock(line: bytes) -> int:
    try:
        return _instant(str(json.loads(line)["clock"]), _STDIN)
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError('a line with the clock is not {"clock": "…"}.', file=_STDIN)


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
