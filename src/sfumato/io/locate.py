"""From what the user points at (file, folder, glob, list) to files of one format, in order."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import FileFormat

_PARQUET = (".parquet", ".parq", ".pq", ".geoparquet")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
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


def locate(source: object) -> tuple[tuple[Path, ...], bool]:
    """The files and whether they lie in hive partition folders (`day=01/`)."""
    parts: Iterable[object] = source if isinstance(source, (list, tuple)) else [source]
    paths: list[Path] = []
    keys: dict[tuple[str, ...], Path] = {}
    for part in parts:
        found, root = _expand(os.fspath(part))  # type: ignore[call-overload]
        paths.extend(found)
        for path in found:
            keys.setdefault(_partition_keys(path, root), path)
    if len(keys) > 1:
        one, other = list(keys.values())[:2]
        raise InputError(
            f"it lies in other partition folders than {one}.",
            file=str(other),
            remedy="Point to files of one depth, for example FOLDER/*/*.parquet.",
        )
    hive = any(keys)
    if not paths:
        raise UsageError("No file was given.", remedy="Name a file, a folder or a pattern.")
    seen: set[str] = set()
    for path in paths:
        if any(letter in str(path) for letter in _GLOB):
            raise InputError(
                "the path contains one of * ? [, which would be read as a pattern.",
                file=str(path),
                remedy="Rename the file or its folder.",
            )
        real = os.path.realpath(path)
        if real in seen:
            raise InputError("the file is given twice.", file=str(path), remedy="Give it once.")
        seen.add(real)
    return tuple(paths), hive


def _partition_keys(path: Path, root: Path) -> tuple[str, ...]:
    """`year`, `day` of `year=2024/day=01/`, as far as it lies below what the user pointed at."""
    folders = path.parent.relative_to(root).parts if path.is_relative_to(root) else ()
    return tuple(folder.split("=", 1)[0] for folder in folders if "=" in folder)


def _expand(text: str) -> tuple[list[Path], Path]:
    """Files of one argument, and the folder from which partition folders are read."""
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
            return _folder(path), path
        if path.exists():
            return [path], path.parent
    except OSError as error:
        raise unreadable(path, error) from None
    if any(letter in text for letter in _GLOB):
        found = sorted(Path(name) for name in glob.glob(text, recursive=True))
        files = [name for name in found if name.is_file()]
        if not files:
            raise InputError("no file matches the pattern.", file=text)
        fixed = text[: min(text.index(letter) for letter in _GLOB if letter in text)]
        return files, Path(fixed) if fixed.endswith("/") else Path(fixed).parent
    raise InputError("there is no such file.", file=text, remedy="Check the path.")


def _folder(folder: Path) -> list[Path]:
    """Data files below a folder; what starts with a dot or an underscore is not data."""

    def stop(error: OSError) -> None:
        # A part of the data that cannot be listed must not be left out in silence.
        raise unreadable(Path(error.filename or folder), error)

    found: list[Path] = []
    kinds: set[str] = set()
    for here, folders, files in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if name[0] not in "._"]
        for name in files:
            kind = _kind(name)
            if kind is not None:
                kinds.add(kind)
                found.append(Path(here) / name)
    found.sort()
    if not found:
        raise InputError("the folder holds no Parquet or CSV file.", file=str(folder))
    if len(kinds) > 1:
        raise InputError(
            "the folder holds both Parquet and CSV files.",
            file=str(folder),
            remedy="Point to one kind with a pattern such as FOLDER/**/*.parquet.",
        )
    return found


def _kind(name: str) -> str | None:
    if name[0] in "._":
        return None
    if name.lower().endswith(_PARQUET):
        return "Parquet"
    return "CSV" if name.lower().endswith(_CSV) else None


def unreadable(path: Path, error: OSError) -> InputError:
    """The error for a file that the system does not let us read."""
    if isinstance(error, PermissionError):
        return InputError(
            "no permission to read it.", file=str(path), remedy="Change its owner or mode."
        )
    return InputError(
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
    """What the file is by its first bytes; its name only confirms."""
    start = head(path, 8)
    if not start:
        raise InputError("the file is empty.", file=str(path))
    if start[:4] == b"PARE":
        raise InputError("the Parquet file is encrypted.", file=str(path), remedy="Decrypt it.")
    name = path.name.lower()
    if start[:4] == b"PAR1":
        return FileFormat.PARQUET
    if name.endswith(_PARQUET):
        raise InputError(
            "this is not a Parquet file: it does not begin like one.",
            file=str(path),
            remedy="Copy it again, or give it the ending of what it is.",
        )
    if start[:2] == b"\x1f\x8b" and not name.endswith(".gz"):
        raise InputError(
            "the file is compressed but its name does not end in .gz.",
            file=str(path),
            remedy="Rename or unpack it.",
        )
    return FileFormat.CSV
