"""The header of a CSV file: delimiter and column names, and nothing guessed about types.

A file without a header line begins with a record, so its first line must not appear in a
message. It counts as a header only if at least one of its fields is a known column name or
one that the user named, and none looks like a number or a date.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection
from pathlib import Path

from sfumato.io.aliases import is_known
from sfumato.io.locate import head, unreadable
from sfumato.io.schema import refuse_repeated
from sfumato.model.errors import InputError
from sfumato.model.events import CsvDialect

_SNIFFED = 1 << 18
_DELIMITERS = ",;\t|"
_LOOKS_LIKE_DATA = re.compile(r"[+-]?\.?\d")


def read_dialect(path: Path, chosen: Collection[str] = ()) -> CsvDialect:
    """Delimiter and columns of one file, from its first line. `chosen`: names the user gave."""
    text, whole = _text(path)
    line = text.split("\n", 1)[0].rstrip("\r")
    if not line.strip():
        raise InputError("the first line is empty; it must name the columns.", file=str(path))
    if "\n" not in text and not whole:
        raise InputError("the first line is too long to be a header.", file=str(path))
    delimiter = max(_DELIMITERS, key=line.count)
    fields = _fields(line, delimiter, path)
    wanted = {name.lower() for name in chosen}
    known = any(is_known(field) or field.lower() in wanted for field in fields)
    if not known or any(_LOOKS_LIKE_DATA.match(field) for field in fields):
        raise InputError(
            f"the first line ({len(fields)} fields) does not look like a header. It is not "
            "shown here because it may be a record.",
            file=str(path),
            remedy="Put the column names (user, time, …) in the first line.",
        )
    names = [field or f"column{k}" for k, field in enumerate(fields)]
    refuse_repeated(names, str(path))
    if (whole and not text.split("\n", 1)[-1].strip("\r\n ")) or "\n" not in text:
        raise InputError("the file has a header but no rows.", file=str(path))
    return CsvDialect(delimiter, tuple(names))


def _fields(line: str, delimiter: str, path: Path) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        raise InputError("the header line has an unfinished quotation.", file=str(path)) from None
    return [field.strip() for field in rows[0]] if rows else []


def _text(path: Path) -> tuple[str, bool]:
    """The beginning of the file as text, and whether that is all of it."""
    raw = head(path, _SNIFFED)
    whole = len(raw) < _SNIFFED
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path, "rb") as stream:
                raw = stream.read(_SNIFFED)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError("the compressed file is damaged.", file=str(path)) from None
        except OSError as error:
            raise unreadable(path, error) from None
        whole = len(raw) < _SNIFFED
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("the text is UTF-16.", file=str(path), remedy="Save it as UTF-8.")
    if b"\0" in raw:
        raise InputError(
            "this is neither text nor Parquet.",
            file=str(path),
            remedy="Events are read from CSV (UTF-8) and Parquet files.",
        )
    decoder = io.IncrementalNewlineDecoder(None, translate=True)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if whole or error.start < len(raw) - 4:
            raise InputError(
                "the text is not UTF-8.",
                file=str(path),
                row=raw[: error.start].count(b"\n") or None,
                remedy="Save it as UTF-8.",
            ) from None
        text = raw[: error.start].decode("utf-8-sig")
    return str(decoder.decode(text, final=True)), whole
