"""The header of a CSV file: delimiter and column names, and nothing guessed about types.

The first line is the file's schema; no line behind it is looked at. A file without a header
begins with a record, so its first line must not appear in a message. It counts as a header only
if at least one of its fields is a known column name or one that the holder named, and none looks
like a number or a date.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from sfumato.io.aliases import is_known
from sfumato.io.locate import unreadable
from sfumato.io.schema import refuse_repeated
from sfumato.model.errors import InputError

_LONGEST_HEADER = 1 << 18
_DELIMITERS = ",;\t|"
_LOOKS_LIKE_DATA = re.compile(r"[+-]?\.?\d")


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a CSV file is cut into fields. All columns are text; there is one header line."""

    delimiter: str
    columns: tuple[str, ...]
    """All columns of the file in its own order."""


def open_text(path: Path) -> IO[bytes]:
    """The bytes of a text file, unpacked where its name ends in .gz."""
    try:
        if path.name.lower().endswith(".gz"):
            return cast(IO[bytes], gzip.open(path, "rb"))
        return path.open("rb", buffering=0)
    except OSError as error:
        raise unreadable(path, error) from None


def read_piece(file: IO[bytes], path: Path, size: int) -> bytes:
    """The next bytes; an error that says so where the file is damaged."""
    try:
        return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError("the compressed file is damaged.", file=str(path)) from None
    except OSError as error:
        raise unreadable(path, error) from None


def read_dialect(path: Path, chosen: Collection[str] = ()) -> CsvDialect | None:
    """Delimiter and columns of one file, from its first line; nothing where the file is empty.

    `chosen` are column names that the holder gave.
    """
    raw = b""
    with open_text(path) as file:
        while b"\n" not in raw and len(raw) <= _LONGEST_HEADER:
            piece = read_piece(file, path, 1 << 12)
            if not piece:
                break
            raw += piece
    return dialect_of(raw, path, chosen)


def dialect_of(raw: bytes, path: Path, chosen: Collection[str] = ()) -> CsvDialect | None:
    """The same from a file's first bytes, which hold its first line."""
    if not raw:
        return None
    line = _decoded(raw.partition(b"\n")[0], path).removesuffix("\r")
    if len(line) > _LONGEST_HEADER:
        raise InputError("the first line is too long to be a header.", file=str(path))
    if not line.strip():
        raise InputError("the first line is empty; it must name the columns.", file=str(path))
    delimiter = max(_DELIMITERS, key=line.count)
    fields = _fields(line, delimiter, path)
    wanted = {name.lower() for name in chosen}
    known = any(is_known(field) or field.lower() in wanted for field in fields)
    if not known or any(_LOOKS_LIKE_DATA.match(field) for field in fields):
        raise InputError(
            f"the first line ({len(fields)} fields) does not look like a header. It is not "
            "shown here because it may be a record.",
            file=str(path),
            remedy="If it is one, say which column is what: --column user=NAME …. "
            "Else put the column names (user, time, …) in the first line.",
        )
    names = [field or f"column{k}" for k, field in enumerate(fields)]
    refuse_repeated(names, str(path))
    return CsvDialect(delimiter, tuple(names))


def _fields(line: str, delimiter: str, path: Path) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        raise InputError("the header line has an unfinished quotation.", file=str(path)) from None
    return [field.strip() for field in rows[0]] if rows else []


def _decoded(line: bytes, path: Path) -> str:
    if line[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("the text is UTF-16.", file=str(path), remedy="Save it as UTF-8.")
    if b"\0" in line:
        raise InputError(
            "this is neither text nor Parquet.",
            file=str(path),
            remedy="Events are read from CSV (UTF-8), NDJSON and Parquet files.",
        )
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            "the header is not UTF-8.", file=str(path), remedy="Save it as UTF-8."
        ) from None
