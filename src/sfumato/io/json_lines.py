"""NDJSON, one object a line: the wanted values of each line, read from that line alone.

Library parsers read blocks of lines: an object may run on over a line end, and one odd value
changes the type of a block. Here a compiled scanner checks each line by the grammar of RFC 8259
and copies the values that are wanted. Lines with escapes in them, or with numbers in another
form than plain digits, go through Python's own parser one by one: the same values, slower.

A number keeps its digits, so that an id of any length stays itself; 7.0 is the id 7. Text and
numbers are told apart by each value (`Values.numeric`): a time that is text is ISO 8601, one
that is a number counts since 1970. `true`, objects and lists are no id, no time and no place.
Of repeated keys the last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.lines import LONGEST, Array, Int, behind_marks
from sfumato.model.compiled import compiled

_MISSING, _TEXT, _DIGITS, _NUMBER, _OTHER = range(5)
_DEEPEST = 60
"""Objects and lists inside one another; a line with more is no record."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The wanted values of the lines that are objects, as bytes, and how many lines are not."""

    columns: dict[str, Any]
    numeric: dict[str, NDArray[np.bool_]]
    rows: int
    malformed: int


def json_values(data: bytes, keys: Sequence[str], ids: Sequence[str] = ()) -> Values:
    """The values of `keys` in every line of `data`; the lines end in LF.

    Those of `ids` name something, so that a number among them is brought into its plain form.
    """
    raw = np.frombuffer(data, np.uint8)
    most = data.count(b"\n")
    names = [key.encode() for key in keys]
    key_ends = np.cumsum([0, *(len(name) for name in names)]).astype(np.int64)
    key_bytes = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    ends = np.zeros((len(keys), most + 1), np.int32)
    content = np.empty((len(keys), max(raw.size, 1)), np.uint8)
    kinds = np.zeros((len(keys), most), np.uint8)
    slow = np.empty((most, 2), np.int64)
    named = np.array([key in ids for key in keys], np.bool_)
    rows, malformed, slow_rows = _scan(raw, key_ends, key_bytes, named, ends, content, kinds, slow)
    late = [_slowly(data[a:b], keys, ids) for a, b in slow[:slow_rows].tolist()]
    parsed = [record for record in late if record is not None]
    columns, numeric = {}, {}
    for k, key in enumerate(keys):
        there = (kinds[k, :rows] == _TEXT) | (kinds[k, :rows] == _DIGITS)
        there |= kinds[k, :rows] == _NUMBER
        column = _column(ends[k, : rows + 1], content[k], there)
        more = [record[k] for record in parsed]
        if more:
            rest = pa.array([value for value, _ in more], pa.binary())
            column = pa.concat_arrays([column, rest])
        columns[key] = column
        numeric[key] = np.concatenate(
            [kinds[k, :rows] >= _DIGITS, np.array([is_number for _, is_number in more], np.bool_)]
        )
    return Values(columns, numeric, rows + len(parsed), malformed + slow_rows - len(parsed))


def _column(ends: Array, content: Array, there: NDArray[np.bool_]) -> Any:
    mask = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [mask, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), ends.size - 1, buffers)


class _Token(str):
    """A number as it is written."""

    __slots__ = ()


def _slowly(
    line: bytes, keys: Sequence[str], ids: Sequence[str]
) -> list[tuple[bytes | None, bool]] | None:
    """Value and whether it is a number, for each key of one line; nothing if it is no object."""
    try:
        record = json.loads(
            line.decode("utf-8"), parse_int=_Token, parse_float=_Token, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return [_value(record.get(key), key in ids) for key in keys]


def _refuse(name: str) -> object:
    raise ValueError(name)


def _value(value: object, named: bool) -> tuple[bytes | None, bool]:
    if isinstance(value, _Token):
        plain = _plain(value)
        return (None if named and plain is not None and b"." in plain else plain), True
    if not isinstance(value, str):
        return None, False
    try:
        return value.encode("utf-8"), False
    except UnicodeEncodeError:  # half of a surrogate pair
        return None, False


def _plain(token: str) -> bytes | None:
    """A number in plain digits, whole ones without a fraction: 7.0 and 0.7e1 are 7."""
    try:
        number = Decimal(token)
    except InvalidOperation:
        return None
    if not number:
        return b"0"  # also 0e-999999999, whose plain form is a gigabyte of zeros
    if number.adjusted() > 40 and ("e" in token or "E" in token):
        return None
    if number.adjusted() < -40:
        return b"0.0"  # next to nothing, and no whole number
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.encode() if len(text) < LONGEST else None


@compiled
def _blank(data: Array, p: Int, stop: Int) -> Int:
    """The next place that is no white space."""
    while p < stop and (data[p] == 32 or data[p] == 9 or data[p] == 13):
        p += 1
    return p


@compiled
def _text_end(data: Array, p: Int, stop: Int) -> Int:
    """Behind the quote that closes a text begun before `p`, or -1. There are no escapes here."""
    while p < stop:
        if data[p] == 34:
            return p + 1
        if data[p] < 32:
            return -1
        p += 1
    return -1


@compiled
def _number_end(data: Array, p: Int, stop: Int) -> tuple[int, bool]:
    """Behind a number, or -1, and whether it has a fraction or an exponent."""
    odd = False
    if p < stop and data[p] == 45:
        p += 1
    if p >= stop or data[p] < 48 or data[p] > 57:
        return -1, odd
    if data[p] == 48:
        p += 1
    else:
        while p < stop and 48 <= data[p] <= 57:
            p += 1
    if p < stop and data[p] == 46:
        odd = True
        p += 1
        begin = p
        while p < stop and 48 <= data[p] <= 57:
            p += 1
        if p == begin:
            return -1, odd
    if p < stop and (data[p] == 69 or data[p] == 101):
        odd = True
        p += 1
        if p < stop and (data[p] == 43 or data[p] == 45):
            p += 1
        begin = p
        while p < stop and 48 <= data[p] <= 57:
            p += 1
        if p == begin:
            return -1, odd
    return p, odd


@compiled
def _word_end(data: Array, p: Int, stop: Int) -> Int:
    """Behind true, false or null, or -1."""
    if stop - p >= 4 and data[p] == 116 and data[p + 1] == 114 and data[p + 2] == 117:
        return p + 4 if data[p + 3] == 101 else -1
    if stop - p >= 4 and data[p] == 110 and data[p + 1] == 117 and data[p + 2] == 108:
        return p + 4 if data[p + 3] == 108 else -1
    if stop - p >= 5 and data[p] == 102 and data[p + 1] == 97 and data[p + 2] == 108:
        return p + 5 if data[p + 3] == 115 and data[p + 4] == 101 else -1
    return -1


@compiled
def _key_end(data: Array, p: Int, stop: Int) -> Int:
    """Behind a key and its colon, or -1."""
    p = _blank(data, p, stop)
    if p >= stop or data[p] != 34:
        return -1
    p = _text_end(data, p + 1, stop)
    if p < 0:
        return -1
    p = _blank(data, p, stop)
    return p + 1 if p < stop and data[p] == 58 else -1


@compiled
def _simple_end(data: Array, p: Int, stop: Int) -> tuple[int, int]:
    """Behind a value that holds no other, or -1, and its kind."""
    if p >= stop:
        return -1, _OTHER
    if data[p] == 34:
        return _text_end(data, p + 1, stop), _TEXT
    if data[p] == 45 or 48 <= data[p] <= 57:
        end, odd = _number_end(data, p, stop)
        return end, _NUMBER if odd else _DIGITS
    end = _word_end(data, p, stop)
    return end, _MISSING if data[p] == 110 else _OTHER


@compiled
def _nested_end(data: Array, p: Int, stop: Int) -> Int:
    """Behind an object or a list that begins at `p`, or -1."""
    objects = np.uint64(0)  # one bit a level: 1 inside an object
    depth = 0
    while True:
        p = _blank(data, p, stop)
        opened = p < stop and (data[p] == 123 or data[p] == 91)
        if opened:
            if depth == _DEEPEST:
                return -1
            inside = np.uint64(1) if data[p] == 123 else np.uint64(0)
            objects = (objects << np.uint64(1)) | inside
            depth += 1
            closing = 125 if inside else 93
            p = _blank(data, p + 1, stop)
            if not (p < stop and data[p] == closing):
                if inside:
                    p = _key_end(data, p, stop)
                    if p < 0:
                        return -1
                continue
        else:
            p, _ = _simple_end(data, p, stop)
            if p < 0:
                return -1
        while True:  # behind a value, or at the end of what was opened
            p = _blank(data, p, stop)
            if p >= stop:
                return -1
            inside = objects & np.uint64(1)
            if data[p] == (125 if inside else 93):
                p += 1
                objects >>= np.uint64(1)
                depth -= 1
                if depth == 0:
                    return p
                continue
            if data[p] != 44:
                return -1
            p += 1
            if inside:
                p = _key_end(data, p, stop)
                if p < 0:
                    return -1
            break


@compiled
def _key_index(data: Array, start: Int, stop: Int, key_ends: Array, key_bytes: Array) -> Int:
    for k in range(key_ends.size - 1):
        begin = key_ends[k]
        if key_ends[k + 1] - begin == stop - start:
            same = True
            for j in range(stop - start):
                if data[start + j] != key_bytes[begin + j]:
                    same = False
                    break
            if same:
                return k
    return -1


@compiled
def _object(
    data: Array, p: Int, stop: Int, key_ends: Array, key_bytes: Array, spans: Array
) -> bool:
    """Whether the line is one object; where the wanted values stand and their kinds."""
    p = _blank(data, p, stop)
    if p >= stop or data[p] != 123:
        return False
    p = _blank(data, p + 1, stop)
    if p < stop and data[p] == 125:
        return bool(_blank(data, p + 1, stop) == stop)
    while True:
        p = _blank(data, p, stop)
        begin = p + 1
        behind = _key_end(data, p, stop)
        if behind < 0:
            return False
        close = begin
        while data[close] != 34:
            close += 1
        wanted = _key_index(data, begin, close, key_ends, key_bytes)
        p = _blank(data, behind, stop)
        start = p
        kind = _OTHER
        if p < stop and (data[p] == 123 or data[p] == 91):
            p = _nested_end(data, p, stop)
        else:
            p, kind = _simple_end(data, p, stop)
        if p < 0:
            return False
        if wanted >= 0:
            quoted = 1 if kind == _TEXT else 0
            spans[wanted, 0], spans[wanted, 1], spans[wanted, 2] = start + quoted, p - quoted, kind
        p = _blank(data, p, stop)
        if p >= stop:
            return False
        if data[p] == 125:
            return bool(_blank(data, p + 1, stop) == stop)
        if data[p] != 44:
            return False
        p += 1


@compiled
def _needs_care(data: Array, named: Array, spans: Array) -> bool:
    """Whether a number is not its own digits: an id with a fraction, -0, or an exponent."""
    for k in range(named.size):
        kind = spans[k, 2]
        if kind == _NUMBER:
            if named[k]:
                return True
            for p in range(spans[k, 0], spans[k, 1]):
                if data[p] == 69 or data[p] == 101:
                    return True
        elif kind == _DIGITS and data[spans[k, 0]] == 45 and data[spans[k, 0] + 1] == 48:
            return True
    return False


@compiled
def _scan(
    data: Array,
    key_ends: Array,
    key_bytes: Array,
    named: Array,
    ends: Array,
    content: Array,
    kinds: Array,
    slow: Array,
) -> tuple[int, int, int]:
    """All lines. Returns (rows, malformed lines, lines for Python); blank lines are none."""
    keys = ends.shape[0]
    spans = np.zeros((keys, 3), np.int64)
    rows = 0
    malformed = 0
    slow_rows = 0
    start = 0
    while start < data.size:
        stop = start
        escaped = False
        while data[stop] != 10:
            if data[stop] == 92:
                escaped = True
            stop += 1
        following = stop + 1
        begin = behind_marks(data, start, stop)
        if _blank(data, begin, stop) == stop:
            start = following
            continue
        spans[:, :] = 0
        if stop - start - (1 if data[stop - 1] == 13 else 0) > LONGEST:  # a CR is the line's end
            malformed += 1
        elif escaped:
            slow[slow_rows, 0], slow[slow_rows, 1] = begin, stop
            slow_rows += 1
        elif not _object(data, begin, stop, key_ends, key_bytes, spans):
            malformed += 1
        elif _needs_care(data, named, spans):
            slow[slow_rows, 0], slow[slow_rows, 1] = begin, stop
            slow_rows += 1
        else:
            for k in range(keys):
                at = ends[k, rows]
                if _TEXT <= spans[k, 2] <= _NUMBER:
                    for p in range(spans[k, 0], spans[k, 1]):
                        content[k, at] = data[p]
                        at += 1
                ends[k, rows + 1] = at
                kinds[k, rows] = spans[k, 2]
            rows += 1
        start = following
    return rows, malformed, slow_rows
