"""From what the holder points at (file, folder, glob, list) to files, in order.

A file is *named* where the holder points at it and *found* where a folder or a pattern holds it.
Of files that are found none decides about another, nor about whether there is a release: one
that cannot be read gives no rows, and so does an empty folder.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import FileFormat

_PARQUET = (".parquet", ".parq", ".pq", ".geoparquet")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_NDJSON = (".ndjson", ".jsonl", ".ndjson.gz", ".jsonl.gz")
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


def locate(source: object) -> tuple[Located, ...]:
    """The files that a path, a folder, a pattern or a list of these means."""
    parts: Iterable[object] = source if isinstance(source, (list, tuple)) else [source]
    found: list[Located] = []
    for part in parts:
        paths, root, named = _expand(os.fspath(part))  # type: ignore[call-overload]
        found += [Located(path, named, partition_keys(path, root)) for path in paths]
    if not found and not isinstance(source, (str, os.PathLike)) and not list(parts):
        raise UsageError("No file was given.", remedy="Name a file, a folder or a pattern.")
    seen: set[str] = set()
    for file in found:
        real = os.path.realpath(file.path)
        if real in seen and file.named:
            raise InputError(
                "the file is given twice.", file=str(file.path), remedy="Give it once."
            )
        seen.add(real)
    return tuple({os.path.realpath(file.path): file for file in reversed(found)}.values())[::-1]


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


def _expand(text: str) -> tuple[list[Path], Path, bool]:
    """Files of one argument, the folder below which partition folders count, and if named."""
    if _ADDRESS.match(text) and not os.path.exists(text):
        # Not shown: it may hold a password.
        raise UsageError(
            "An address was given where sfumato reads files.", remedy="Copy the files here first."
        )
    if "\0" in text:
        raise UsageError("A path cannot contain a zero byte.")
    path = Path(text)
    try:
        if path.is_dir():
            return _folder(path), path, False
        if path.exists():
            return [path], path.parent, True
    except OSError as error:
        raise unreadable(path, error) from None
    if any(letter in text for letter in _GLOB):
        found = sorted(Path(name) for name in glob.glob(text, recursive=True))
        fixed = text[: min(text.index(letter) for letter in _GLOB if letter in text)]
        root = Path(fixed) if fixed.endswith("/") else Path(fixed).parent
        if not root.is_dir():
            raise InputError("there is no such folder.", file=str(root), remedy="Check the path.")
        return [name for name in found if name.is_file()], root, False
    raise InputError("there is no such file.", file=text, remedy="Check the path.")


def _folder(folder: Path) -> list[Path]:
    """Data files below a folder; what starts with a dot or an underscore is not data."""

    def stop(error: OSError) -> None:
        # A part of the data that cannot be listed must not be left out in silence.
        raise unreadable(Path(error.filename or folder), error)

    found: list[Path] = []
    for here, folders, files in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [
            Path(here) / name for name in files if name[0] not in "._" and by_name(name) is not None
        ]
    return sorted(found)


def by_name(name: str) -> FileFormat | None:
    """The format that a file's ending says, if it says one."""
    name = name.lower()
    for endings, kind in (
        (_PARQUET, FileFormat.PARQUET),
        (_CSV, FileFormat.CSV),
        (_NDJSON, FileFormat.NDJSON),
    ):
        if name.endswith(endings):
            return kind
    return None


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


def format_of(path: Path) -> FileFormat:
    """What the file is by its ending; by its first bytes where the ending says nothing."""
    kind = by_name(path.name)
    start = head(path, 8)
    if start[:4] == b"PARE" and kind in (None, FileFormat.PARQUET):
        raise InputError("the Parquet file is encrypted.", file=str(path), remedy="Decrypt it.")
    if kind is FileFormat.PARQUET and start[:4] != b"PAR1":
        raise InputError(
            "this is not a Parquet file: it does not begin like one.",
            file=str(path),
            remedy="Copy it again, or give it the ending of what it is.",
        )
    if kind is not None:
        return kind
    if start[:4] == b"PAR1":
        return FileFormat.PARQUET
    if start[:2] == b"\x1f\x8b":
        raise InputError(
            "the file is compressed but its name does not end in .gz.",
            file=str(path),
            remedy="Rename or unpack it.",
        )
    return FileFormat.CSV
