"""Parquet footers that say other numbers of rows than there are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FILE, ROW_GROUP = "file", "row group"


def _number(value: int) -> bytes:
    """A field of 64 bits in Thrift's compact protocol, behind one whose number is lower by one."""
    value = 2 * value if value >= 0 else -2 * value - 1
    found = bytearray([0x16])
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def restate(path: Path, rows: int, columns: int, said: Mapping[str | int, int]) -> None:
    """Numbers of rows of a file of one row group: of the file, the row group, or a column.

    No other number of the footer may be the same, such as the bytes of a column's texts.
    """
    raw = path.read_bytes()
    end = len(raw) - 8
    begin = end - int.from_bytes(raw[end : end + 4], "little")
    pieces = raw[begin:end].split(_number(rows))
    order: list[str | int] = [FILE, *range(columns), ROW_GROUP]
    assert len(pieces) == len(order) + 1
    footer = pieces[0]
    for what, piece in zip(order, pieces[1:], strict=True):
        footer += _number(said.get(what, rows)) + piece
    path.write_bytes(raw[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
