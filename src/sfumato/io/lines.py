"""Lines of text, each by itself: blocks of whole lines, and CSV lines cut into Arrow columns.

A record ends at LF; a CR before it belongs to the end. Quotes act inside a line and nowhere else: a
quotation that a line opens and does not close makes that line malformed and leaves the next one
alone. No library's reader does that: DuckDB and pyarrow both let it swallow other people's rows,
also where they are told to ignore errors; that is why lines are cut here. A malformed line (an open
quotation, text behind a closing quote, another number of fields than the header) and a record above
`LONGEST` bytes are dropped and counted, the latter in constant memory however long it is.

A byte order mark before a line is no part of it. It stands before the first line of a file, and
files are put one behind another: if it counted before one line and not before another, whose line
comes first would decide what the next person is called. For the same reason it is no part of an id
or a name that begins with it, in whatever column, quotation or format that stands
(`without_marks`): otherwise a person whose id begins with one would be two users of a folder, one
where the column comes first in its line and one elsewhere, and count up to twice the bound.

A line that is cut says nothing about how its fields are read: that is `sfumato.io.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.values import bytes_of, validity
from sfumato.model.compiled import compiled

LONGEST = 1 << 20
"""Bytes of the longest record that is read, its line end not counted."""
BLOCK = 1 << 20
"""Bytes read at a time. Larger blocks are mapped and unmapped each time, which costs more."""

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

_LF, _CR, _QUOTE = 10, 13, 34


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its LF, and how many over-long records were skipped before."""

    data: bytes
    skipped: int = 0


def whole_lines(read: Callable[[int], bytes | None]) -> Iterator[Block]:
    """Blocks of whole lines of what `read` gives, until it gives nothing.

    `None` is nothing yet: an empty block comes, so that whoever looks at a clock can.

    Holds a block and at most one record of `LONGEST` bytes: the rest of a longer record is
    read and forgotten up to its line end.
    """
    rest, skipping = b"", False
    while True:
        piece = read(BLOCK)
        if piece is None:
            yield Block(b"")
            continue
        last = not piece
        if skipping:
            end = piece.find(b"\n")
            if end < 0:
                if last:
                    return
                continue
            piece, skipping = piece[end + 1 :], False
        data = rest + piece
        if last and data:
            data += b"\n"
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if len(rest) > LONGEST + 1:  # one byte may still be the CR of the line's end
            rest, skipping = b"", True
        if cut or skipping:
            yield Block(data[:cut], int(skipping))
        if last:
            return


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Fields of the lines that were whole, as binary Arrow arrays, and how many were not."""

    columns: list[Any]
    rows: int
    malformed: int


def cut_csv(data: bytes, delimiter: str, fields: int, wanted: list[int], more: bool = False) -> Cut:
    """The wanted fields of every line; an empty field is missing. `fields` as the header has.

    With `more` a line may have further fields: without a header nobody says how many there are.
    """
    raw = np.frombuffer(data, np.uint8)
    most = data.count(b"\n")
    place = np.full(fields, -1, np.int64)
    place[wanted] = np.arange(len(wanted))
    ends = np.zeros((len(wanted), most + 1), np.int32)
    content = np.empty((len(wanted), raw.size), np.uint8)
    rows, malformed = _cut_csv(raw, ord(delimiter), place, more, ends, content)
    return Cut(
        [binary_column(ends[k, : rows + 1], content[k]) for k in range(len(wanted))],
        int(rows),
        int(malformed),
    )


def binary_column(ends: Array, content: Array, valid: NDArray[np.bool_] | None = None) -> Any:
    """An Arrow array over offsets and bytes; empty values are missing."""
    full = np.diff(ends) > 0
    if valid is not None:
        full &= valid
    mask = None if full.all() else pa.py_buffer(np.packbits(full, bitorder="little"))
    size = ends.size - 1
    return pa.Array.from_buffers(
        pa.binary(), size, [mask, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(content)]
    )


@compiled
def behind_marks(data: Array, start: Int, stop: Int) -> Int:
    """Where a line begins behind byte order marks, if it has any."""
    while stop - start >= 3 and data[start] == 0xEF:
        if data[start + 1] != 0xBB or data[start + 2] != 0xBF:
            break
        start += 3
    return start


@compiled
def _begins(ends: Array, data: Array, out: Array) -> None:
    for i in range(out.size):
        out[i] = behind_marks(data, np.int64(ends[i]), np.int64(ends[i + 1]))


@compiled
def _moved(begins: Array, data: Array, ends: Array, out: Array) -> None:
    for i in range(begins.size):
        for k in range(ends[i + 1] - ends[i]):
            out[ends[i] + k] = data[begins[i] + k]


def without_marks(column: Any) -> Any:
    """Values without the byte order marks before them; one of nothing else is missing."""
    ends, data = bytes_of(column)
    begins = np.empty(len(column), np.int64)
    _begins(ends, data, begins)
    marked = begins > ends[:-1]
    if not marked.any():
        return column
    lengths = ends[1:] - begins
    moved = np.zeros(ends.size, np.int64)
    np.cumsum(lengths, out=moved[1:])
    content = np.empty(int(moved[-1]), np.uint8)
    _moved(begins, data, moved, content)
    there = validity(column)
    gone = marked & (lengths == 0)
    if there.size:
        gone |= ~there
    mask = pa.py_buffer(np.packbits(~gone, bitorder="little"))
    buffers = [mask, pa.py_buffer(moved), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


@compiled
def _cut_csv(
    data: Array, delimiter: Int, place: Array, more: bool, ends: Array, content: Array
) -> tuple[int, int]:
    """Cut all lines of `data`. Returns (rows, malformed lines); blank lines are neither."""
    fields = place.size
    columns = ends.shape[0]
    at = np.zeros(columns, np.int64)
    rows = 0
    malformed = 0
    start = 0
    while start < data.size:
        stop = start
        while data[stop] != _LF:
            stop += 1
        following = stop + 1
        if stop > start and data[stop - 1] == _CR:
            stop -= 1
        if stop == start:
            start = following
            continue
        good = stop - start <= LONGEST
        field = 0
        p = behind_marks(data, start, stop)
        while good:
            column = place[field] if field < fields else -1
            if p < stop and data[p] == _QUOTE:
                p += 1
                closed = False
                while p < stop:
                    if data[p] == _QUOTE:
                        if p + 1 < stop and data[p + 1] == _QUOTE:
                            p += 1
                        else:
                            closed = True
                            p += 1
                            break
                    if column >= 0:
                        content[column, at[column]] = data[p]
                        at[column] += 1
                    p += 1
                good = closed and (p >= stop or data[p] == delimiter)
            else:
                begin = p
                while p < stop and data[p] != delimiter:
                    p += 1
                if column >= 0:
                    w = at[column]
                    for k in range(begin, p):
                        content[column, w] = data[k]
                        w += 1
                    at[column] = w
            field += 1
            if p >= stop:
                break
            p += 1
        if good and (field == fields or (more and field > fields)):
            rows += 1
            for column in range(columns):
                ends[column, rows] = at[column]
        else:
            malformed += 1
            for column in range(columns):
                at[column] = ends[column, rows]
        start = following
    return rows, malformed
