"""Columns of texts in Parquet pages that are packed with Snappy and spelled out, read compiled.

Ids that are texts are most of a file's bytes, and unpacking them took a quarter of a count. Texts
of random digits are packed by Snappy into seven short pieces each, and a loop that does little for
a piece takes half of the library's time.

Only what is exactly as expected is read here: one kind of page, no value missing, as many as the
row group has rows, lengths that add up to the last byte, a checksum that is right where there is
one. For anything else the answer is None, and Arrow reads the row group, or finds that it is
damaged. So of columns that Arrow's reader can open (`sfumato.io.parquet`) none is read that Arrow
would refuse, and none otherwise than Arrow reads it. That is measured and not proved: no damaged
file of those that `make fuzz` tries (docs/fuzz.md).

Of the format (parquet.thrift, compact protocol; Snappy's format description) no more is here than
that: page headers are numbers and structs, and levels are runs of ones.
"""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.io.values import put_word, word_at
from sfumato.model.compiled import compiled

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

MOST = 1 << 26
"""Bytes of a row group's texts: more at once would take more memory than they save time."""
_SLACK = 32
_FAR = 80
"""More than the longest two pieces take that are moved without looking at the ends: 1 + 64 packed
bytes and 3, or 32 bytes and 16."""
_DATA_PAGE, _PLAIN, _RUNS = 0, 0, 3
_INTEGER, _STRUCT = 5, 12


@compiled
def unpack(data: Array, begin: Int, end: Int, out: Array, size: Int) -> bool:
    """Snappy's pieces in data[begin:end], which must make exactly `size` bytes.

    `out` and `data` have room for 32 bytes more: short pieces are moved 8 bytes at a time.
    """
    at, stop, to, last = np.int64(begin), np.int64(end), np.int64(0), np.int64(size)
    while at < stop:
        # Far from both ends: bytes that are spelled out, perhaps none, and a copy, by arithmetic.
        # Nothing could foresee which kind comes next, and a branch taken wrongly costs more.
        while at < stop - _FAR and to < last - _FAR:
            tag = np.int64(data[np.uintp(at)])
            spelled = ((tag & 3) - 1) >> 63  # all ones for bytes that are spelled out
            length = ((tag >> 2) + 1) & spelled
            source, target = np.uintp(at - spelled), np.uintp(to)
            put_word(out, target, word_at(data, source))
            put_word(out, target + np.uintp(8), word_at(data, source + np.uintp(8)))
            put_word(out, target + np.uintp(16), word_at(data, source + np.uintp(16)))
            put_word(out, target + np.uintp(24), word_at(data, source + np.uintp(24)))
            after, target = source + np.uintp(length), target + np.uintp(length)
            tag = np.int64(data[after])
            kind, more = tag & 3, tag >> 2
            far = (1 - kind) >> 63  # all ones where two bytes say how far back
            back = np.int64(data[after + np.uintp(1)])
            back |= (np.int64(data[after + np.uintp(2)]) << 8) & far
            back |= ((tag >> 5) << 8) & ~far
            count = (((more & 7) + 4) & ~far) | ((more + 1) & far)
            if length > 32 or count > 16 or kind == 0 or kind == 3:
                break
            if back < 8 or back > np.int64(target):
                break
            source = target - np.uintp(back)
            put_word(out, target, word_at(out, source))
            put_word(out, target + np.uintp(8), word_at(out, source + np.uintp(8)))
            at = np.int64(after) + 1 + kind
            to = np.int64(target) + count
        # Any piece, byte by byte.
        tag = np.int64(data[np.uintp(at)])
        at += 1
        kind, length = tag & 3, (tag >> 2) + 1
        said = np.int64(4) if kind == 3 else kind  # bytes behind the tag
        if kind == 0:
            said = max(length - 60, np.int64(0))
        if said > stop - at:
            return False
        number = np.int64(0)
        for k in range(said):
            number |= np.int64(data[np.uintp(at + k)]) << (8 * k)
        at += said
        if kind == 0:
            length = number + 1 if said else length
            if length > stop - at or length > last - to:
                return False
            for k in range(length):
                out[np.uintp(to + k)] = data[np.uintp(at + k)]
            at += length
        else:
            if kind == 1:
                number |= (tag >> 5) << 8
                length = ((tag >> 2) & 7) + 4
            if number == 0 or number > to or length > last - to:
                return False
            for k in range(length):
                out[np.uintp(to + k)] = out[np.uintp(to + k - number)]
        to += length
    return bool(to == last)


@compiled
def texts(page: Array, begin: Int, end: Int, count: Int, ends: Array, row: Int, out: Array) -> bool:
    """Texts behind their lengths in page[begin:end], exactly `count`; `ends` goes on at `row`.

    Lengths are the file's words: each is held to what is left of the page, and of `out`, which has
    the room that the file itself stated.
    """
    eight, room = np.uintp(8), np.uintp(out.size - _SLACK)
    at, stop, to = np.uintp(begin), np.uintp(end), np.uintp(ends[row])
    for i in range(row, row + count):
        if stop - at < np.uintp(4):
            return False
        length = np.uintp(page[at]) | (np.uintp(page[at + np.uintp(1)]) << eight)
        length |= np.uintp(page[at + np.uintp(2)]) << np.uintp(16)
        length |= np.uintp(page[at + np.uintp(3)]) << np.uintp(24)
        at += np.uintp(4)
        if length > stop - at or length > room - to:
            return False
        done = np.uintp(0)
        while done < length:
            put_word(out, to + done, word_at(page, at + done))
            done += eight
        at += length
        to += length
        ends[i + 1] = to
    return bool(at == stop)


class _Unexpected(Exception):
    """Something that is left to Arrow."""


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    found, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
        if shift > 63:
            raise _Unexpected


def _struct(data: memoryview, at: int) -> tuple[dict[int, Any], int]:
    """32-bit numbers and structs of a struct by their field's number, and where it ends."""
    found: dict[int, Any] = {}
    field = 0
    while (head := data[at]) != 0:
        at += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            zigzag, at = _number(data, at)
            field = (zigzag >> 1) ^ -(zigzag & 1)
        if kind in (4, 5, 6):
            zigzag, at = _number(data, at)
            if kind == _INTEGER:  # what a header says of its page; others Arrow leaves out as well
                found[field] = (zigzag >> 1) ^ -(zigzag & 1)
        elif kind == 8:  # bytes: statistics
            size, at = _number(data, at)
            at += size
        elif kind == _STRUCT:
            found[field], at = _struct(data, at)
        elif kind not in (1, 2):  # true and false have no bytes of their own
            raise _Unexpected
    return found, at + 1


def _after_levels(page: NDArray[np.uint8], size: int, values: int) -> int:
    """Where the values begin behind levels that say that each is there."""
    end = 4 + int.from_bytes(page[:4].tobytes(), "little")
    if end > size:
        raise _Unexpected
    levels, at, said = page[:end].data, 4, 0
    while at < end:
        run, at = _number(levels, at)
        if run & 1 or levels[at] != 1:  # packed bits, or values that are missing
            raise _Unexpected
        said += run >> 1
        at += 1
    if said != values:
        raise _Unexpected
    return end


def can_be_read(column: Any, kind: Any) -> bool:
    """Whether a column of the schema could be read here: one text in a row, perhaps missing."""
    return (
        column.physical_type == "BYTE_ARRAY"
        and column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and kind in (pa.string(), pa.binary())
    )


class TextPages:
    """Reads row groups of texts from an open file, one after another in the same room."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packed = self._page = np.empty(0, np.uint8)

    def read(self, chunk: Any, kind: Any, optional: bool, rows: int) -> Any:
        """The texts of a row group of so many rows as an Arrow array; None: left to Arrow."""
        plain = set(chunk.encodings) <= {"PLAIN", "RLE"} and not chunk.has_dictionary_page
        if chunk.compression != "SNAPPY" or not plain:
            return None
        size = int(chunk.total_compressed_size)
        if not 0 < size <= MOST or not 0 < chunk.total_uncompressed_size <= MOST:
            return None
        if chunk.num_values != rows:  # Arrow reads as many as the row group says
            return None
        if not 0 < 4 * rows <= chunk.total_uncompressed_size:  # each has a length
            return None
        try:
            return self._texts(chunk, kind, optional, size)
        except (_Unexpected, LookupError, TypeError, OSError, RecursionError, pa.ArrowException):
            return None

    def _texts(self, chunk: Any, kind: Any, optional: bool, size: int) -> Any:
        if self._packed.size < size + _SLACK:
            self._packed = np.empty(size + _SLACK, np.uint8)
        packed, view = self._packed, self._packed.data[:size]
        self._file.seek(chunk.data_page_offset)
        if self._file.readinto(view) != size:  # type: ignore[attr-defined]
            raise _Unexpected
        rows, row, at = int(chunk.num_values), 0, 0
        ends = np.frombuffer(pa.allocate_buffer(4 * (rows + 1)), np.int32)
        ends[0] = 0
        whole = pa.allocate_buffer(int(chunk.total_uncompressed_size) + _SLACK)
        data = np.frombuffer(whole, np.uint8)
        while at < size:
            head, at = _struct(view, at)
            about, length, after = head[5], head[2], at + head[3]
            values, coding, levels, _ = (about[field] for field in (1, 2, 3, 4))
            if head[1] != _DATA_PAGE or coding != _PLAIN or not at < after <= size:
                raise _Unexpected
            if not 0 < values <= rows - row or not 0 < length <= MOST:
                raise _Unexpected
            if 4 in head and zlib.crc32(view[at:after]) != head[4] % (1 << 32):
                raise _Unexpected
            said, begin = _number(view, at)
            if self._page.size < length + _SLACK:
                self._page = np.empty(length + _SLACK, np.uint8)
            page = self._page
            if said != length or begin > after or not unpack(packed, begin, after, page, length):
                raise _Unexpected
            if optional and levels != _RUNS:
                raise _Unexpected
            first = _after_levels(page, length, values) if optional else 0
            if not texts(page, first, length, values, ends, row, data):
                raise _Unexpected
            row, at = row + values, after
        if row != rows:
            raise _Unexpected
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(ends), whole])
