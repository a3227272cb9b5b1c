"""Rows of NDJSON, each read by itself: one person's line changes nothing about the others.

Arrow reads a block of lines in one go where all are of the kind that the first one is, with the
types said beforehand. Where it cannot, each line is read alone and a broken one is dropped: the
same rows, slowly. So whether a line is like its neighbours never shows in what is counted.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sfumato.stream.intake import (
    WHOLE_DOUBLES,
    instants,
    standard_rows,
    wanted_columns,
    whole_rows,
)

_WHERE = "standard input"


def rows_of(lines: bytes, names: dict[str, str], *, coordinates: bool) -> tuple[pa.Table, int]:
    """Standard rows of these lines, and how many lines were none."""
    wanted = wanted_columns(names, coordinates)
    whole = sum(bool(line.strip()) for line in lines.split(b"\n"))
    table = _together(lines, wanted) if _flat(lines, whole) else None
    rows = (
        _one_by_one(lines, wanted)
        if table is None or table.num_rows != whole
        else standard_rows(table, names, _WHERE, coordinates=coordinates)
    )
    return rows, whole - rows.num_rows


def _flat(lines: bytes, whole: int) -> bool:
    """Whether there is one object a line, of text and nothing nested: both readers agree there."""
    try:
        lines.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"[" not in lines and lines.count(b"{") == whole


def _together(lines: bytes, wanted: dict[str, str]) -> pa.Table | None:
    """All lines at once, or nothing where one of them is of another kind than the first."""
    first = _record(lines[: lines.find(b"\n") + 1])
    if first is None:
        return None
    kinds = {
        name: pa.float64() if part in ("lon", "lat") else _kind(part, first.get(name))
        for part, name in wanted.items()
    }
    options = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema(kinds), unexpected_field_behavior="ignore"
    )
    try:
        return pyarrow.json.read_json(io.BytesIO(lines), parse_options=options)
    except pa.ArrowInvalid:
        return None


def _kind(part: str, value: object) -> pa.DataType:
    """Text or numbers, as the first line has it; ids are never doubles, whose digits end."""
    if isinstance(value, str) or value is None:
        return pa.string()
    return pa.float64() if part == "time" else pa.int64()


def _one_by_one(lines: bytes, wanted: dict[str, str]) -> pa.Table:
    """Each line alone."""
    found = [record for line in lines.split(b"\n") if (record := _record(line)) is not None]
    columns: dict[str, Any] = {}
    for part, name in wanted.items():
        values = [record.get(name) for record in found]
        if part == "time":
            columns[part] = _times(values)
        elif part in ("lon", "lat"):
            columns[part] = pa.array([_degrees(value) for value in values], pa.float64())
        else:
            columns[part] = pa.array([_id(value) for value in values], pa.string())
    return whole_rows(pa.table(columns))


def _record(line: bytes) -> dict[str, object] | None:
    """The object of a line, or nothing."""
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _times(values: list[object]) -> pa.ChunkedArray:
    """Epoch microseconds of times that are text or numbers."""
    texts = pa.chunked_array([[v if _is_text(v) else None for v in values]], type=pa.string())
    numbers = pa.chunked_array([[_number(v) for v in values]], type=pa.float64())
    return pc.coalesce(instants(texts, _WHERE), instants(numbers, _WHERE))


def _id(value: object) -> str | None:
    """Text as it is, or a whole number."""
    if isinstance(value, str):
        return value if _is_text(value) else None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < WHOLE_DOUBLES else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _degrees(value: object) -> float | None:
    """A number, or text that is one."""
    if not isinstance(value, str):
        return _number(value)
    try:
        return float(value)
    except ValueError:
        return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _is_text(value: object) -> bool:
    """Whether it can be written down: half of a surrogate pair is none."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
