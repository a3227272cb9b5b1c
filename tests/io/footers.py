"""Parquet footers that say other numbers of rows than there are, or what cannot be."""

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


IMPOSSIBLE = {
    # Between a list and the 64-bit number of values: the codec, of which there is no 51st.
    "codec": (b"\x15\x02\x16", b"\x15\x66\x16"),
    # Behind the type of a text in the schema: never missing, so that it has no histogram of levels.
    "levels": (b"\x15\x0c\x25\x02", b"\x15\x0c\x25\x00"),
}
"""What can stand in a footer and ends a process that asks Arrow for it in Python."""


def make_impossible(path: Path, what: str) -> None:
    """Let the footer of a file packed with Snappy say what cannot be, of all columns of texts."""
    raw = path.read_bytes()
    begin = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    footer = raw[begin:].replace(*IMPOSSIBLE[what])
    assert footer != raw[begin:]
    path.write_bytes(raw[:begin] + footer)
