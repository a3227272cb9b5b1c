"""The door for what somebody else wrote: published folders, files of places, lists of questions.

Whoever wrote a file may have meant harm, and a digest in a manifest of the same hand vouches for
nothing. So whatever the file says:

* **It is a file.** A pipe, a device, a folder in a file's place and, inside of a folder of others,
  a link are refused before a byte is read. No more is read than the file had when it was opened.
* **It has a size.** At most `LARGEST` bytes, `MOST_READ` where they are held at once. What is
  packed unpacks to at most `room` bytes: what an archive declares is asked first, and no more is
  taken than it declares.
* **It is shallow.** JSON is nested at most `DEEPEST` times: readers and libraries recurse.
* **Its texts can be shown.** Characters that command a terminal or turn a line around become
  escapes (`errors.printable`) where they enter, so that no output has to think of them.

Functions that take bytes raise `ValueError` for whatever is wrong with them; their callers know
which file it was and what to do. What is absent raises `OSError`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, is_printable, printable
from sfumato.io.files import unreadable

LARGEST = 8 << 30
"""Bytes of a file; a sparse one of a terabyte takes no room in an archive."""
MOST_READ = 1 << 30
"""Bytes of a file that is held as a whole."""
UNPACKED = 512 << 20
"""Bytes that any small file may unpack to: the counts of 64 million places and time slots."""
RATIO = 100
"""Bytes that a larger file may unpack to, for each of its own. Noisy numbers pack to a half."""
DEEPEST = 64
_MOST_MEMBERS = 1_000
_PIECE = 1 << 20
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biufU][1-9]\d{0,2})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,15},? ?){0,8})\),? ?\}\s*"
)
"""As numpy writes it for numbers and texts; its own reader would parse any Python expression."""
_NOWHERE = shapely.to_wkb(shapely.Point())
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DRIVEN = re.compile(rb"<\s*(OGR|VRT|GDAL)", re.IGNORECASE)
"""Files of GDAL's own that name others, or addresses, which it then opens."""
_HEAD = 4096
_BLANKS = dict.fromkeys(map(ord, "\t\n\r"))
"""Stand between the words of JSON, never in its texts."""
_SHOWN_OTHERWISE = (
    "[\\x00-\\x1f\\x7f-\\x{9f}\\x{61c}\\x{200b}\\x{200e}\\x{200f}\\x{2028}-\\x{202e}"
    "\\x{2060}-\\x{206f}\\x{feff}\\x{fff9}-\\x{fffb}\\x{e0000}-\\x{e007f}]"
)
"""What `errors.printable` escapes, as Arrow's regular expressions write it."""


def room(size: int) -> int:
    """Bytes that a packed file of this size may unpack to."""
    return max(UNPACKED, RATIO * size)


@contextmanager
def opened(path: Path, *, links: bool = False) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size. Links are followed where its name is the user's own word.

    Raises:
        InputError: It is none, or too large.
        OSError: It is absent or cannot be read.
    """
    state = os.stat(path) if links else os.lstat(path)  # opening a device may already do something
    _check_kind(state, path)
    follow = 0 if links else os.O_NOFOLLOW
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | follow)
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(file.fileno())
        _check_kind(state, path)
        yield file, state.st_size


def _check_kind(state: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(state.st_mode):
        raise InputError(
            "it is a link, and what was published holds its own files.",
            file=str(path),
            remedy="Put the file itself there, if you trust it.",
        )
    if not stat.S_ISREG(state.st_mode):
        raise InputError(
            "it is no file but a folder, a pipe or a device, and was not opened.",
            file=str(path),
            remedy="Give a file on a disk.",
        )
    if state.st_size > LARGEST:
        raise _too_large(path, LARGEST)


def _too_large(path: Path, most: int) -> InputError:
    unit = f"{most >> 30} GiB" if most >= 1 << 30 else f"{most >> 20} MiB"
    return InputError(
        f"it is larger than {unit}, and was not read.",
        file=str(path),
        remedy="Check where it comes from; no file of this kind is so large.",
    )


def contents(path: Path, most: int = MOST_READ, *, links: bool = False) -> bytes:
    """All bytes of a file that was written by somebody else."""
    with opened(path, links=links) as (file, size):
        if size > most:
            raise _too_large(path, most)
        return file.read(size)


def digest(path: Path) -> str:
    """SHA-256 of a file, in pieces."""
    found = hashlib.sha256()
    with opened(path) as (file, size):
        while size > 0 and (piece := file.read(min(size, _PIECE))):
            found.update(piece)
            size -= len(piece)
    return found.hexdigest()


def document(text: bytes | str) -> Any:
    """What JSON says, its texts and names fit to be shown.

    Raises:
        ValueError: It is none, or nested too deeply.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    check_depth(_TEXT.sub(b"", raw))
    words = raw.decode("utf-8-sig", "surrogatepass")
    try:
        found = json.loads(words)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    plain = "\\" not in words and is_printable(words.translate(_BLANKS))
    return found if plain else _shown(found)


def check_depth(text: bytes) -> None:
    """Refuse what recursion over its brackets would not survive: GEOS has no limit of its own.

    Raises:
        ValueError: It is nested more than `DEEPEST` times.
    """
    signs = np.frombuffer(text, dtype=np.uint8)
    for begin, end in (b"[]", b"{}", b"()"):
        steps = (signs == begin).astype(np.int8) - (signs == end).astype(np.int8)
        if steps.size and int(steps.cumsum(dtype=np.int64).max()) > DEEPEST:
            raise ValueError("nested too deeply")


def check_wkb(shape: bytes) -> None:
    """The same of a shape in well-known binary, whose collections hold shapes with headers.

    Raises:
        ValueError: Shapes lie in shapes more than `DEEPEST` times, or it is cut short.
    """
    at, left = 0, [1]  # of the collections around: shapes that are still to come
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        order = "<" if shape[at] else ">"
        try:
            kind, parts = struct.unpack_from(f"{order}II", shape, at + 1)
            at += 4 * bool(kind & 0x20000000)  # EWKB names a coordinate system
            parts = struct.unpack_from(f"{order}I", shape, at + 5)[0]
        except struct.error:
            raise ValueError("cut short") from None
        flags, plain = kind >> 28, kind & 0xFFFFFFF
        width = 8 * (2 + max(bool(flags & 8) + bool(flags & 4), (0, 1, 1, 2)[plain // 1000 % 4]))
        if plain % 1000 == 1:
            at += 5 + width
        elif plain % 1000 == 2:
            at += 9 + width * parts
        elif plain % 1000 == 3:
            at += 9
            for _ in range(parts):
                if at + 4 > len(shape):
                    raise ValueError("cut short")
                at += 4 + width * struct.unpack_from(f"{order}I", shape, at)[0]
        else:
            at += 9
            left.append(parts)
            if len(left) > DEEPEST:
                raise ValueError("nested too deeply")
        if at > len(shape):
            raise ValueError("cut short")


def wkb_shapes(shapes: Sequence[bytes | str | None]) -> NDArray[np.object_]:
    """Shapes in well-known binary, plain or in hexadecimal.

    Raises:
        ValueError: One cannot be read.
    """
    try:
        for shape in shapes:
            check_wkb((bytes.fromhex(shape) if isinstance(shape, str) else shape) or _NOWHERE)
        return np.asarray(shapely.from_wkb(np.array(shapes, dtype=object)), dtype=object)
    except (shapely.errors.ShapelyError, TypeError, IndexError) as error:
        raise ValueError("no shapes") from error


def _shown(tree: Any) -> Any:
    """A tree of JSON whose texts are printable; lists of numbers stay what they are."""
    if isinstance(tree, str):
        return printable(tree)
    if isinstance(tree, dict):
        return {printable(key): _shown(value) for key, value in tree.items()}
    if isinstance(tree, list) and not all(isinstance(part, float | int) for part in tree):
        return [_shown(part) for part in tree]
    return tree


def arrays(content: bytes, most: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a file of numpy's (`.npz`), by name; nothing in it is run.

    Args:
        content: The file.
        most: Bytes of all arrays together; default: `room`.

    Raises:
        ValueError: It is no such file, or would be larger.
    """
    left = room(len(content)) if most is None else min(most, room(len(content)))
    found: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS or sum(one.file_size for one in members) > left:
                raise ValueError("too much is packed")
            for member in members:
                name = printable(member.filename.removesuffix(".npy"))
                if name in found:
                    raise ValueError("a name stands twice")
                with archive.open(member) as file:
                    found[name] = _array(file, member.file_size)
    except ValueError:
        raise
    except (
        zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, TypeError,
        AttributeError, IndexError, KeyError, OverflowError, SyntaxError,
    ) as error:  # fmt: skip
        # Also NotImplementedError: a way of packing that is not ours.
        raise ValueError("it is damaged") from error
    return found


def _array(file: Any, size: int) -> NDArray[Any]:
    """One array; as many bytes are taken as its header and the archive declare, both the same."""
    begin = file.read(10)
    if begin[:8] != b"\x93NUMPY\1\0" or len(begin) < 10:
        raise ValueError("another version")
    header = _HEADER.fullmatch(file.read(int.from_bytes(begin[8:], "little")))
    if header is None:
        raise ValueError("no numbers")
    kind, columns_first = np.dtype(header[1].decode()), header[2] == b"True"
    shape = tuple(map(int, header[3].replace(b",", b" ").split()))
    wanted = math.prod(shape) * kind.itemsize
    if wanted > size:
        raise ValueError("more numbers than bytes")
    found, at = np.empty(wanted, dtype=np.uint8), 0
    while at < wanted:
        taken = file.readinto(found[at : at + _PIECE].data)
        if not taken:
            raise EOFError
        at += taken
    if file.read(1):
        raise ValueError("more bytes than numbers")
    return found.view(kind).reshape(shape, order="F" if columns_first else "C")


def parquet_file(content: bytes) -> pq.ParquetFile:
    """A Parquet file whose texts stay coded, so that a long one is held once.

    **Read it without threads** (`column` and `table` do). A task in Arrow's pool holds the reader,
    and that the bytes, which are Python's; it may let go of them after its result is out, when the
    interpreter is ending. To give Python's object back it then asks for Python's lock, is ended
    there as every thread is, and C++ ends the process: "terminate called without an active
    exception", exit 134, after all was done. Bytes that no other thread ever holds die with the
    thread that ends the interpreter, and one column is read by one thread anyway.

    Raises:
        ValueError: It cannot be read, or its rows would take more than `room`.
    """
    source = pa.BufferReader(content)
    with _arrow():
        schema = pq.read_schema(source)
        texts = [field.name for field in schema if _is_text(field.type)]
        file = pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False)
        least = max((_width(field.type) for field in schema), default=8)
        if not 0 <= file.metadata.num_rows <= room(len(content)) // least:
            raise ValueError("too many rows")
        for group in range(file.metadata.num_row_groups):
            if file.metadata.row_group(group).total_byte_size > room(len(content)):
                raise ValueError("too much is packed")
    return file


def column(file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    """A column whose texts, if any, are UTF-8."""
    with _arrow():
        found = file.read(columns=[name], use_threads=False).column(0)
        found.validate(full=_is_text(found.type))
    return found


def table(content: bytes) -> pa.Table:
    """A whole Parquet file, its texts and names fit to be shown.

    Raises:
        ValueError: It cannot be read, or takes more than `room`.
    """
    file, most = parquet_file(content), room(len(content))
    with _arrow():
        parts, size = [], 0
        for batch in file.iter_batches(use_threads=False):
            batch.validate(full=True)
            parts.append(batch)
            size += batch.nbytes
            if size > most:
                raise ValueError("too much is packed")
        found = pa.Table.from_batches(parts, file.schema_arrow)
        for at, field in enumerate(found.schema):
            found = found.set_column(at, printable(field.name), _spelled(found.column(at), most))
    return found


def _spelled(texts: pa.ChunkedArray, most: int) -> pa.ChunkedArray:
    """Coded texts as texts again, those that cannot be shown as escapes; others as they are."""
    if not pa.types.is_dictionary(texts.type):
        return texts
    parts = []
    for part in texts.chunks:
        words = part.dictionary
        longest = pc.max(pc.binary_length(words)).as_py() or 0
        if longest * len(part) > most:
            raise ValueError("too much is packed")
        if (
            pa.types.is_string(words.type)
            and pc.any(pc.match_substring_regex(words, _SHOWN_OTHERWISE)).as_py()
        ):
            shown = [None if word is None else printable(word) for word in words.to_pylist()]
            words = pa.array(shown, words.type)
        parts.append(words.take(part.indices))
    return pa.chunked_array(parts, texts.type.value_type)


def _is_text(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_dictionary)
    return any(is_one(kind) for is_one in kinds)


def _width(kind: pa.DataType) -> int:
    """Bytes of a value; of nested ones and texts at least those of their places."""
    try:
        return max(int(kind.byte_width), 1)
    except ValueError:
        return 4


@contextmanager
def _arrow() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, OverflowError, KeyError, TypeError) as error:
        raise ValueError("it cannot be read") from error


def check_places(path: Path) -> None:
    """A file of places, before a library opens it: what packs too much, or names other files.

    Raises:
        InputError: It is no file, or one of these.
    """
    try:
        with opened(path, links=True) as (file, size):
            heads = [file.read(_HEAD)]
    except OSError as error:
        raise unreadable(path, error) from None
    if path.suffix.lower() == ".zip" or heads[0][:4] == b"PK\3\4":
        heads += _packed_heads(path, size)
    elif heads[0][:2] == b"\x1f\x8b":
        heads.append(_unpacks(path, size))
    if any(_DRIVEN.search(head) for head in heads):
        raise InputError(
            "it names other files, or an address, and is not followed there.",
            file=str(path),
            remedy="Give the file that holds the places itself.",
        )


def _packed_heads(path: Path, size: int) -> list[bytes]:
    """The first bytes of all members of an archive."""
    try:
        with opened(path, links=True) as (file, _), zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS or sum(one.file_size for one in members) > room(size):
                raise _packs_too_much(path)
            found = []
            for member in members:
                with archive.open(member) as inside:
                    found.append(inside.read(_HEAD))
            return found
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError,
            RuntimeError, KeyError, IndexError, OverflowError):  # fmt: skip
        raise InputError("the archive is damaged.", file=str(path)) from None


def _unpacks(path: Path, size: int) -> bytes:
    """The first bytes of a file that is packed with gzip, all of which were tried."""
    left, machine, first = room(size), zlib.decompressobj(wbits=31), b""
    with opened(path, links=True) as (file, _):
        try:
            while piece := machine.unconsumed_tail or machine.unused_data or file.read(_PIECE):
                if machine.eof:  # a file may hold several
                    machine = zlib.decompressobj(wbits=31)
                text = machine.decompress(piece, _PIECE)
                first = first or text[:_HEAD]
                left -= len(text)
                if left < 0:
                    raise _packs_too_much(path)
        except zlib.error:
            return first  # whoever reads it says so
    return first


def _packs_too_much(path: Path) -> InputError:
    return InputError(
        f"it would unpack to more than {room(0) >> 20} MiB and {RATIO} times its size.",
        file=str(path),
        remedy="Unpack it yourself, if you trust it.",
    )
