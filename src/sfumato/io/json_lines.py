"""NDJSON, one object a line: the wanted values of each line, read from that line alone.

A reader of JSON files reads blocks of lines: an object may run on over a line end, and one odd
value changes the type of a block. Here lines are cut first, and DuckDB's scalar functions read each
as one text: `json_valid` says whether it is JSON, `json_extract` gives the wanted members of those
that are. No line is part of what another one is read from.

What DuckDB takes for JSON is RFC 8259 with commas before a closing bracket, and `NaN` and
`Infinity` as numbers, which are no id, no time and no place. Half of a surrogate pair is none. Of
repeated keys the first one counts.

An integer keeps its digits, so that an id of any length stays itself. A number with a fraction or
an exponent is a double: 7.0 is the id 7, one of 2^53 or more is no id, as in Parquet. Text and
numbers are told apart by each value (`Values.numeric`): a time that is text is ISO 8601, one that
is a number counts since 1970. `true`, objects and lists are no id, no time and no place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.io.lines import LONGEST, without_marks
from sfumato.io.rows import WHOLE_DOUBLES
from sfumato.io.tables import PRIVATE_ENGINE, literal
from sfumato.io.values import bytes_of, readable, without_rows

_BLANK = b" \t\r\n"
_QUOTE, _MINUS, _ESCAPE = b'"-\\'


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The wanted values of the lines that are objects, as bytes, and how many lines are not."""

    columns: dict[str, Any]
    numeric: dict[str, NDArray[np.bool_]]
    rows: int
    malformed: int


def json_values(data: bytes, keys: Sequence[str], ids: Sequence[str] = ()) -> Values:
    """The values of `keys` in every line of `data`; the lines end in LF. Blank lines are none.

    Those of `ids` name something, so that a number among them is brought into its plain form.
    """
    lines = without_marks(_lines(data))
    table = _members(_texts(lines), keys)
    malformed = len(lines) - table.num_rows
    if malformed:
        malformed -= sum(not line.strip(_BLANK) for line in lines.to_pylist())
    columns, numeric = {}, {}
    for k, key in enumerate(keys):
        columns[key], numeric[key] = _values(table.column(k), key in ids)
    return Values(columns, numeric, table.num_rows, malformed)


def _lines(data: bytes) -> Any:
    """Lines with their ends, which are white space to JSON."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.zeros(ends.size + 1, np.int32)
    offsets[1:] = ends
    return pa.Array.from_buffers(
        pa.binary(), ends.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _texts(lines: Any) -> Any:
    """The same as texts; nothing instead of those that are no object, too long or not UTF-8."""
    ends, data = bytes_of(lines)
    good = np.empty(len(lines), np.bool_)
    readable(ends, data, LONGEST + len("\r\n"), good)
    for i in np.flatnonzero((data[ends[:-1]] != ord("{")) | (np.diff(ends) > LONGEST)):
        line = bytes(data[int(ends[i]) : int(ends[i + 1])])
        good[i] &= line.lstrip(_BLANK).startswith(b"{")
        good[i] &= len(line.removesuffix(b"\n").removesuffix(b"\r")) <= LONGEST
    lines = without_rows(lines, ~good)
    return lines.view(pa.string() if lines.type == pa.binary() else pa.large_string())


@lru_cache(maxsize=1)
def _engine() -> duckdb.DuckDBPyConnection:
    """Opened once, as opening takes longer than reading a block; each caller has its own cursor."""
    return duckdb.connect(":memory:", config=PRIVATE_ENGINE)


def _members(lines: Any, keys: Sequence[str]) -> Any:
    """A column of JSON texts for each key, a row for each line that is an object, in order."""
    paths = ", ".join(literal(_pointer(key)) for key in keys)
    members = ", ".join(f"CAST(members[{k + 1}] AS VARCHAR) AS m{k}" for k in range(len(keys)))
    cursor = _engine().cursor()
    try:
        cursor.register("lines", pa.table({"line": lines}))
        return cursor.sql(
            f"SELECT {members} FROM (SELECT json_extract(line, [{paths}]) AS members FROM lines "
            "WHERE json_valid(line))"
        ).to_arrow_table()
    except duckdb.Error as error:
        raise InputError(f"lines of JSON could not be read ({type(error).__name__}).") from None
    finally:
        cursor.close()


def _pointer(key: str) -> str:
    """A member of the object itself, as a JSON pointer (RFC 6901)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _values(tokens: Any, named: bool) -> tuple[Any, NDArray[np.bool_]]:
    """Values as bytes, null where there is none, and which are numbers; from JSON texts."""
    column = tokens.combine_chunks().view(pa.binary())
    ends, data = bytes_of(column)
    begins, sizes = ends[:-1], np.diff(ends)
    there = sizes > 0
    starts = np.zeros(len(column), np.uint8)
    starts[there] = data[begins[there]]
    texts = starts == _QUOTE
    numeric = (starts == _MINUS) | _are_digits(starts)
    # Texts without their quotes; what is neither text nor number goes with its row.
    inside = np.ones(data.size, np.bool_)
    inside[begins[texts]] = inside[ends[1:][texts] - 1] = False
    moved = np.zeros(ends.size, np.int32)
    np.cumsum(sizes - 2 * texts, out=moved[1:])
    span = slice(int(ends[0]), int(ends[-1]))
    plain = data[span][inside[span]]
    mask = pa.py_buffer(np.packbits(texts | numeric, bitorder="little"))
    buffers = [mask, pa.py_buffer(moved), pa.py_buffer(plain)]
    values = pa.Array.from_buffers(pa.binary(), len(column), buffers)
    odd = texts & _rows_with(data == _ESCAPE, ends)
    if named:
        odd |= numeric & _rows_with(~_are_digits(data), ends, np.where(starts == _MINUS, 1, 0))
    if odd.any():
        rest = [_odd_value(token) for token in column.filter(pa.array(odd)).to_pylist()]
        values = pc.replace_with_mask(values, pa.array(odd), pa.array(rest, pa.binary()))
    return values, numeric


def _are_digits(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (data >= ord("0")) & (data <= ord("9"))


def _rows_with(marks: NDArray[np.bool_], ends: NDArray[Any], most: Any = 0) -> NDArray[np.bool_]:
    """Values with more than `most` of the marked bytes."""
    before = np.zeros(marks.size + 1, np.int64)
    np.cumsum(marks, out=before[1:])
    found: NDArray[np.bool_] = np.diff(before[ends]) > most
    return found


def _odd_value(token: bytes) -> bytes | None:
    """A text with escapes, or an id that is a number with a fraction or an exponent."""
    if token[0] == _QUOTE:
        text: str = json.loads(token)
        return text.encode()
    number = float(token)
    whole = abs(number) < WHOLE_DOUBLES and number.is_integer()
    return str(int(number)).encode() if whole else None
