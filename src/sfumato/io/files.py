"""Files of events: which ones a source means, how they are opened, and what their first bytes say.

**Which files.** What the holder points at (file, folder, glob, list) becomes files, in order. A
file is *named* where the holder points at it and *found* where a folder or a pattern holds it. Of
files that are found none decides about another, nor about whether there is a release: one that
cannot be read gives no rows, and so does an empty folder.

**The header of a CSV file** gives delimiter and column names; nothing is guessed about types. The
first line is the file's schema; no line behind it is looked at. A file without a header begins with
a record, so its first line must not appear in a message. It counts as a header only if at least one
of its fields is a known column name or one that the holder named, and none looks like a number or a
date. Where the holder chooses columns by their numbers (`column={'user': 1}`) there is no header,
and then nothing of the file is looked at, since one person's record would decide how the others'
are cut: the ending or the format states the delimiter, and a line may have more fields than are
used.

**Members of NDJSON objects**, those of a file's first ones, are for `inspect` alone and
**internal**. The reader looks members up by their names and never decides by what a file holds.
Here names are gathered, so that the holder can be told which `--column` lines would find them.

**A DuckDB connection of our own** has bounded memory and a private spill folder, and leaves nothing
behind. Spill files hold records, so they live in a folder that only this user can enter and that
goes when the connection does. The session's zone is UTC: no reading may depend on where the process
happens to run. Insertion order is kept, because row numbers in messages need it; no count depends
on it.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote_to_bytes

import duckdb

from sfumato.errors import InputError, UsageError, csv_error, mentioned
from sfumato.io import names as aliases
from sfumato.io.names import is_known
from sfumato.io.tables import refuse_repeated


@contextmanager
def without_records(files: Sequence[str]) -> Iterator[None]:
    """Turn the engine's complaints, which quote the record, into errors that do not.

    Taken over are the line number and which of the known `files` it is about.
    """
    try:
        yield
    except duckdb.Error as error:
        if "CSV Error on Line" in str(error):
            raise csv_error(error, files) from None
        raise InputError(
            f"the events could not be read ({type(error).__name__}).",
            file=mentioned(str(error), files),
            remedy="Check that the file is complete and not cut short.",
        ) from None


PARQUET_ENDINGS = (".parquet", ".parq", ".pq", ".geoparquet")
CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
NDJSON_ENDINGS = (".ndjson", ".jsonl", ".ndjson.gz", ".jsonl.gz")
_NO_KEY = "__HIVE_DEFAULT_PARTITION__"
_GLOB = "*?["
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+:/")
"""Also `jdbc:…`, and what is left of an address taken for a path: its double slash is gone."""


def is_path(source: object) -> bool:
    """True for what names files: a text, a path, or a list of these."""
    if isinstance(source, (str, os.PathLike)):
        return True
    return isinstance(source, (list, tuple)) and all(
        isinstance(part, (str, os.PathLike)) for part in source
    )


@dataclass(frozen=True, slots=True)
class Located:
    """A file, whether it was named itself, and what its partition folders say (`day=01/`)."""

    path: Path
    named: bool
    keys: tuple[tuple[str, str | None], ...] = ()


def is_table(path: Path) -> bool:
    """Whether a file's ending is that of a table."""
    return path.name.lower().endswith((*PARQUET_ENDINGS, *CSV_ENDINGS, *NDJSON_ENDINGS))


def locate(source: object, is_data: Callable[[Path], bool] = is_table) -> tuple[Located, ...]:
    """The files that a path, a folder, a pattern or a list of these means.

    `is_data`: which files of a folder are meant, by their paths.
    """
    parts: Iterable[object] = source if isinstance(source, (list, tuple)) else [source]
    files: list[Located] = []
    for part in parts:
        paths, root, named = _expand(os.fspath(part), is_data)  # type: ignore[call-overload]
        files += [Located(path, named, partition_keys(path, root)) for path in paths]
    if not files and not isinstance(source, (str, os.PathLike)) and not list(parts):
        raise UsageError("No file was given.", remedy="Name a file, a folder or a pattern.")
    seen: set[str] = set()
    for file in files:
        # What was found in a folder is known by its own name: a link that somebody puts beside
        # another's file would otherwise decide by which name, and so how, that one is read.
        real = os.path.realpath(file.path) if file.named else os.path.abspath(file.path)
        if real in seen and file.named:
            raise InputError(
                "the file is given twice.", file=str(file.path), remedy="Give it once."
            )
        seen.add(real)
    once = {os.path.abspath(file.path): file for file in reversed(files)}
    return tuple(once.values())[::-1]


def partition_keys(path: Path, root: Path) -> tuple[tuple[str, str | None], ...]:
    """`day`, `01` of `day=01/`, as far as it lies below what the holder pointed at.

    Bytes that are no UTF-8 stay themselves (as the system spells them), so that two ids do not
    become one; whoever reads them as a name finds none.
    """
    folders = path.parent.relative_to(root).parts if path.is_relative_to(root) else ()
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return tuple((name, None if text == _NO_KEY else _unquoted(text)) for name, text in pairs)


def _unquoted(text: str) -> str:
    return os.fsdecode(unquote_to_bytes(os.fsencode(text)))


def _expand(text: str, is_data: Callable[[Path], bool]) -> tuple[list[Path], Path, bool]:
    """Files of one argument, the folder below which partition folders count, and if named."""
    path = Path(text)
    if is_folder(text):
        return _folder(path, is_data), path, False
    if path.exists():
        return [path], path.parent, True
    if any(letter in text for letter in _GLOB):
        matches = sorted(Path(name) for name in glob.glob(text, recursive=True))
        fixed = text[: min(text.index(letter) for letter in _GLOB if letter in text)]
        root = Path(fixed) if fixed.endswith("/") else Path(fixed).parent
        if not root.is_dir():
            raise InputError("there is no such folder.", file=str(root), remedy="Check the path.")
        return [name for name in matches if name.is_file()], root, False
    raise InputError("there is no such file.", file=text, remedy="Check the path.")


def is_folder(text: str) -> bool:
    """Whether a text names a folder; refused where it names nothing that a disk could hold."""
    if not text:
        raise UsageError("The name of a file is empty.", remedy="Write `.` for this folder.")
    if "\0" in text:
        raise UsageError("A path cannot contain a zero byte.")
    if (_ADDRESS.match(text) or is_address(text)) and not os.path.exists(text):
        # Not shown: it may hold a password.
        raise UsageError(
            "An address was given where sfumato reads files.", remedy="Copy the files here first."
        )
    try:
        return Path(text).is_dir()
    except OSError as error:
        raise unreadable(Path(text), error) from None


def _folder(folder: Path, is_data: Callable[[Path], bool]) -> list[Path]:
    """Data files below a folder; what starts with a dot or an underscore is not data."""

    def stop(error: OSError) -> None:
        # A part of the data that cannot be listed must not be left out in silence.
        raise unreadable(Path(error.filename or folder), error)

    paths: list[Path] = []
    for here, folders, files in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if name[0] not in "._"]
        paths += [Path(here) / name for name in files if name[0] not in "._"]
    # A pipe, or a link to nowhere, holds no rows: one of them must not hold up the others.
    return sorted(path for path in paths if is_data(path) and path.is_file())


class Damaged(InputError):
    """The file is broken: its bytes cannot be unpacked or decoded to the end."""


class Unreadable(InputError):
    """The system does not let us read a file. Its rows must not be left out in silence."""


def unreadable(path: Path, error: OSError) -> Unreadable:
    """The error for a file that the system does not let us read."""
    if isinstance(error, PermissionError):
        return Unreadable(
            "no permission to read it.", file=str(path), remedy="Change its owner or mode."
        )
    return Unreadable(
        f"it cannot be read ({os.strerror(error.errno) if error.errno else 'input error'}).",
        file=str(path),
    )


def head(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise unreadable(path, error) from None


_EVENT_KEYS = ("user", "time", "place")
_LONGEST_HEADER = 1 << 18
_DELIMITERS = ",;\t|"
_LOOKS_LIKE_DATA = re.compile(r"[+-]?\.?\d")


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a CSV file is cut into fields. All columns are text."""

    delimiter: str
    columns: tuple[str, ...]
    """All columns of the file in its own order; without a header their numbers from 1."""
    headless: bool = False
    """Whether there is no header line; then other fields may follow those of `columns`."""


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
        raise Damaged("the compressed file is damaged.", file=str(path)) from None
    except OSError as error:
        raise unreadable(path, error) from None


MOST_FIELDS = 4096
"""Fields of a line that can be chosen by their number."""


def headless(path: Path, chosen: Collection[str], delimiter: str | None = None) -> CsvDialect:
    """How a file of events without a header is cut: by its name and the options alone."""
    last = max(int(name) for name in chosen if name.isascii() and name.isdigit())
    if last > MOST_FIELDS:
        raise UsageError(f"A line has at most {MOST_FIELDS} fields.", remedy="Check `column`.")
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    columns = tuple(str(number) for number in range(1, last + 1))
    return CsvDialect(delimiter or ("\t" if tabs else ","), columns, headless=True)


def read_dialect(
    path: Path,
    chosen: Collection[str] = (),
    delimiter: str | None = None,
    keys: Sequence[str] = _EVENT_KEYS,
) -> CsvDialect | None:
    """Delimiter and columns of one file, from its first line; nothing where the file is empty.

    `chosen` are column names that the holder gave, `delimiter` what he says stands between
    fields, `keys` what he calls the parts that columns of such a file play.
    """
    return dialect_of(first_line(path), path, chosen, delimiter, keys)


def first_line(path: Path) -> bytes:
    """The first bytes of a text file, which hold its first line."""
    raw = b""
    with open_text(path) as file:
        while b"\n" not in raw and len(raw) <= _LONGEST_HEADER:
            piece = read_piece(file, path, 1 << 12)
            if not piece:
                break
            raw += piece
    return raw


def numbered_columns(path: Path) -> CsvDialect | None:
    """A file of public facts without a header, by its first line; nothing where it is empty."""
    raw = first_line(path)
    if not raw:
        return None
    line = _decoded(raw.partition(b"\n")[0], path).removesuffix("\r")
    delimiter = max(_DELIMITERS, key=line.count)
    count = len(_fields(line, delimiter, path))
    return CsvDialect(delimiter, tuple(str(k) for k in range(1, count + 1)), headless=True)


def dialect_of(
    raw: bytes,
    path: Path,
    chosen: Collection[str] = (),
    delimiter: str | None = None,
    keys: Sequence[str] = _EVENT_KEYS,
) -> CsvDialect | None:
    """The same from a file's first bytes, which hold its first line."""
    if not raw:
        return None
    line = _decoded(raw.partition(b"\n")[0], path).removesuffix("\r")
    if len(line) > _LONGEST_HEADER:
        raise InputError("the first line is too long to be a header.", file=str(path))
    if not line.strip():
        raise InputError("the first line is empty; it must name the columns.", file=str(path))
    delimiter = delimiter or max(_DELIMITERS, key=line.count)
    fields = _fields(line, delimiter, path)
    wanted = {name.lower() for name in chosen}
    known = any(is_known(field) or field.lower() in wanted for field in fields)
    if not known or any(_LOOKS_LIKE_DATA.match(field) for field in fields):
        raise InputError(
            f"the first line ({len(fields)} fields) does not look like a header. It is not "
            "shown here because it may be a record.",
            file=str(path),
            remedy=_name_or_number(keys),
        )
    names = [field or f"column{k}" for k, field in enumerate(fields)]
    refuse_repeated(names, str(path))
    return CsvDialect(delimiter, tuple(names))


def _name_or_number(keys: Sequence[str]) -> str:
    if not keys:
        return "Put the names of the columns in the first line."
    names = ", ".join(f"{key!r}: NAME" for key in keys)
    numbers = ", ".join(f"{key!r}: {k}" for k, key in enumerate(keys, start=1))
    return (
        f"If it is one, say which column is what: `column={{{names}}}`. If the file has no "
        f"header, choose columns by their numbers, from 1: `column={{{numbers}}}`."
    )


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
            remedy="Say what it is with `format`, or save it as CSV (UTF-8).",
        )
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            "the header is not UTF-8.", file=str(path), remedy="Save it as UTF-8."
        ) from None


_SAMPLE_BYTES = 1 << 18


def members(path: Path) -> tuple[list[str], list[str]]:
    """Names of members in the order they are met; then those that hold objects themselves."""
    with open_text(path) as file:
        lines = read_piece(file, path, _SAMPLE_BYTES).splitlines()
    names: dict[str, None] = {}
    nested: dict[str, None] = {}
    for line in lines[: 1 if len(lines) == 1 else -1]:  # the last one may be cut
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            names |= dict.fromkeys(record)
            nested |= dict.fromkeys(key for key, value in record.items() if isinstance(value, dict))
    return list(names), list(nested)


def roles_of(names: list[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Members that a usual name gives a part, where the part's own name is not among them."""
    roles = {}
    for role in (aliases.USER, aliases.TIME, aliases.PLACE, aliases.LON, aliases.LAT):
        if role.key in chosen or role.key in names:
            continue
        named = [name for name in names if aliases.plays(name, role)]
        if len(named) == 1:
            roles[role.key] = named[0]
    if "lon" in roles or "lon" in names:
        roles.pop("place", None)  # coordinates are there: which of the two is the holder's to say
    return roles


_DATABASE = re.compile(r"\s*postgres(ql)?:/", re.IGNORECASE)
_SECRETS = re.compile(r"(^|[\s?&;])(password|passfile|sslpassword)\s*=", re.IGNORECASE)
"""libpq's other form, `host=… password=…`, and whatever else brings a password along."""


def is_address(source: object) -> bool:
    """True for a text that means a database, also one that a path has mangled."""
    if not isinstance(source, str):
        return False
    return _DATABASE.match(source) is not None or _SECRETS.search(source) is not None
