"""Writing: files that are whole or not there, scratch folders, places as GeoJSON and GeoParquet.

**Atomic files.** A file is written under a temporary name in the folder where it will stand,
readable by its owner alone, synced, given its final mode, renamed, and the folder is synced.
Whoever looks, at any instant, sees the old file or the new one. What a killed run leaves behind
starts with `.sfumato-` and is removed by `sweep_temporaries`.

**Scratch folders.** What an engine spills holds records, and must not outlive its run. A folder is
for its owner alone and goes when it is closed. A run that is killed cannot close it, so every
folder is locked by the process that made it, and whoever makes the next one removes those whose
lock is free. The kernel frees the lock of a dead process.

**Places** are written as GeoJSON and GeoParquet: seven decimals, outer rings counter-clockwise, ids
in order. The same places give the same bytes. GeoJSON follows RFC 7946; reading it back gives the
same ids and names, the same validity to a millisecond (GDAL keeps no more) and the same shapes to a
centimetre.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import io
import json
import os
import secrets
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.formats import FORMAT
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places

PREFIX = "sfumato-scratch-"


class Scratch(tempfile.TemporaryDirectory[str]):
    """A locked temporary folder; making one sweeps away what dead processes left behind."""

    _lock = -1

    def __init__(self) -> None:
        sweep()
        while True:
            super().__init__(prefix=PREFIX, ignore_cleanup_errors=True)
            # Another process may take it for a leftover until it is locked: then try again.
            try:
                self._lock = os.open(self.name, os.O_RDONLY)
            except FileNotFoundError:
                continue
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.path.exists(self.name):
                return
            self._unlock()

    def cleanup(self) -> None:
        super().cleanup()
        self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep() -> None:
    """Remove this user's scratch folders that no living process holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid != os.geteuid():
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


TEMPORARY = ".sfumato-"
_PRIVATE = 0o600
PARQUET: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
"""How our Parquet files are written: a bit that flips in a page is noticed by whoever checks."""
_LEVEL = 5
"""Of gzip: a stream's table of 1.2 million rows took 0.8 CPU-seconds and 1 % more bytes than at 6,
which took 1.35."""


def write_atomically(path: str | Path, writer: Callable[[Path], None], mode: int = 0o644) -> None:
    """Let `writer` fill a temporary file, then put it in place of `path` in one step."""
    target = Path(path)
    temporary = target.parent / f"{TEMPORARY}{secrets.token_hex(8)}{target.suffix}"
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
    except OSError as error:
        raise _cannot_write(target, error) from None
    try:
        with _reported(target):
            writer(temporary)
            os.chmod(temporary, _PRIVATE)  # a writer may have made the file anew
            _sync(temporary, os.O_RDWR)
            os.chmod(temporary, mode)
            os.replace(temporary, target)
            _sync(target.parent, os.O_RDONLY)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: str | Path, content: bytes, mode: int = 0o644) -> None:
    """Bytes as a file."""
    write_atomically(path, lambda temporary: _fill(temporary, content), mode)


def write_parquet(path: str | Path, table: pa.Table, mode: int = 0o644) -> None:
    """An Arrow table as Parquet (zstd), the same bytes for the same table."""
    write_parquet_parts(path, iter([table]), mode)


def write_parquet_parts(path: str | Path, tables: Iterator[pa.Table], mode: int = 0o644) -> None:
    """The same of tables that follow one another, one at least, so that no more than one is held:
    row groups end with each."""

    def fill(temporary: Path) -> None:
        first = next(tables)
        with pq.ParquetWriter(temporary, marked(first.schema), **PARQUET) as writer:
            writer.write_table(first)
            del first
            for table in tables:
                writer.write_table(table)

    write_atomically(path, fill, mode)


_MARK = b"sfumato"


def marked(schema: pa.Schema) -> pa.Schema:
    """A table's schema with the mark of the format (`model.formats`)."""
    return schema.with_metadata({**(schema.metadata or {}), _MARK: FORMAT.encode()})


def mark_of(schema: pa.Schema) -> str | None:
    """The mark of the format that a table bears."""
    mark = (schema.metadata or {}).get(_MARK)
    return None if mark is None else mark.decode("ascii", "replace")


def write_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]], mode: int = 0o644) -> None:
    """Arrays as a compressed `.npz` with the mark of the format. Its entries carry no time: the
    same arrays, the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in {"format": np.array(FORMAT), **arrays}.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, entry.getvalue(), compresslevel=9)
    write_bytes(path, content.getvalue(), mode)


def write_csv(path: str | Path, table: pa.Table, mode: int = 0o644) -> None:
    """An Arrow table as CSV in UTF-8 with a header, text quoted where it must be.

    A name that ends in `.gz` is compressed.
    """
    write_csv_parts(path, table.schema, lambda: iter([table]), mode)


def write_csv_parts(
    path: str | Path,
    schema: pa.Schema,
    tables: Callable[[], Iterator[pa.Table]],
    mode: int = 0o644,
) -> None:
    """The same of tables that follow one another, so that no more than one is held.

    The compressed form carries neither time nor name: the same tables, the same bytes.
    """
    options = pacsv.WriteOptions(quoting_style="needed")

    def fill(temporary: Path) -> None:
        with contextlib.ExitStack() as held:
            sink: Any = held.enter_context(temporary.open("wb"))
            if Path(path).suffix == ".gz":
                sink = gzip.GzipFile(
                    filename="", mode="wb", fileobj=sink, mtime=0, compresslevel=_LEVEL
                )
                held.enter_context(sink)
            writer = held.enter_context(pacsv.CSVWriter(sink, schema, write_options=options))
            for table in tables():
                writer.write_table(table)

    write_atomically(path, fill, mode)


@contextlib.contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """A place to write, which becomes `folder` in one step when all is written."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
    except OSError as error:
        raise SfumatoError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        yield place
        place.chmod(0o755)
        place.rename(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def sweep_temporaries(folder: str | Path) -> int:
    """Remove what killed runs left in a folder; says how many. Only plain files of ours."""
    removed = 0
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise _cannot_write(Path(folder), error) from None
    for entry in entries:
        if entry.name.startswith(TEMPORARY) and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)
            removed += 1
    return removed


_LONGEST_NAME = "x" * 64
"""Longer than any name that is written into a folder of ours."""


def folder_to_fill(out: str | os.PathLike[str]) -> Path:
    """A folder for output, whether or not it is there, before anything is read or spent.

    Raises:
        UsageError: No file system could hold it, or ledgers and manifests could not name it.
    """
    text = os.fspath(out)
    if not text:
        raise UsageError("The name of the output is empty.", remedy="Name a folder with `out`.")
    folder = Path(text).absolute()
    try:
        str(folder).encode()
        (folder / _LONGEST_NAME).lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except UnicodeEncodeError:
        raise UsageError(
            "The name of the output is not UTF-8.", remedy="Choose another `out`."
        ) from None
    except ValueError:
        raise UsageError("A path cannot contain a zero byte.") from None
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return folder


def make_folder(out: Path) -> Path:
    """The folder, made if need be.

    Raises:
        InputError: It cannot be made, or a file is in its place.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a name may be none that a file can have
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise InputError(
            "the folder cannot be made.",
            file=str(out),
            remedy=f"Choose another `out` ({reason}).",
        ) from None
    return out


def not_there_yet(out: str | os.PathLike[str]) -> Path:
    """A folder to make.

    Raises:
        UsageError: Something is there.
    """
    folder = folder_to_fill(out)
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} exists.", remedy="Choose another `out`, or remove it.")
    return folder


def _fill(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)


def _sync(path: Path, how: int) -> None:
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems refuse to sync a folder; the file itself is already safe.
        if not (stat.S_ISDIR(os.fstat(handle).st_mode) and error.errno == errno.EINVAL):
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def _reported(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _cannot_write(target, error) from None


def _cannot_write(target: Path, error: OSError) -> SfumatoError:
    number = error.errno or 0
    if number in (errno.ENOSPC, errno.EDQUOT):
        return SfumatoError(
            f"{target}: the disk is full; nothing was written.",
            remedy="Make room and run again.",
        )
    if number == errno.ENOENT:
        return UsageError(
            f"{target}: its folder does not exist.", remedy="Make the folder or choose another."
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UsageError(f"{target}: no permission to write there.")
    if number == errno.ENAMETOOLONG:
        return UsageError(f"{target}: the name is too long.", remedy="Choose a shorter one.")
    if number in (errno.EISDIR, errno.ENOTDIR):
        return UsageError(f"{target}: a folder stands where a file should, or the reverse.")
    reason = os.strerror(number) if number else "output error"
    return SfumatoError(f"{target}: it cannot be written ({reason}).")


DECIMALS = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Extra = Mapping[str, Sequence[str]]
"""Further public properties, one text for each place in the order of the places."""


def write_places(
    path: str | Path, places: Places, mode: int = 0o644, extra: Extra | None = None
) -> None:
    """Write towers or zones as a GeoJSON file, atomically."""
    write_bytes(path, geojson(places, extra), mode)


def write_places_parquet(
    path: str | Path, places: Places, mode: int = 0o644, extra: Extra | None = None
) -> None:
    """Write towers or zones as a GeoParquet file (WGS84, zstd), atomically."""
    columns: dict[str, Any] = {
        _key(places): places.ids.astype(object),
        "name": places.names.astype(object),
        **{name: list(values) for name, values in (extra or {}).items()},
    }
    frame = geopandas.GeoDataFrame(columns, geometry=_outlines(places), crs="OGC:CRS84")
    write_atomically(
        path, lambda temporary: frame.to_parquet(temporary, index=False, **PARQUET), mode
    )


def _key(places: Places) -> str:
    return "tower_id" if places.kind is PlaceKind.TOWERS else "zone_id"


def _outlines(places: Places) -> NDArray[np.object_]:
    rounded = shapely.transform(places.geometry, lambda points: np.round(points, DECIMALS))
    return np.asarray(shapely.orient_polygons(rounded), dtype=object)


def geojson(places: Places, extra: Extra | None = None) -> bytes:
    """Towers or zones as the bytes of a GeoJSON file."""
    shapes = shapely.to_geojson(_outlines(places))
    key = _key(places)
    lines = []
    for k, shape in enumerate(shapes):
        properties: dict[str, Any] = {key: str(places.ids[k])}
        if places.names[k] != places.ids[k]:
            properties["name"] = str(places.names[k])
        for name, value, always in (
            ("valid_from", int(places.valid_from[k]), ALWAYS_FROM),
            ("valid_to", int(places.valid_to[k]), ALWAYS_TO),
        ):
            if value != always:
                properties[name] = (_EPOCH + timedelta(microseconds=value)).isoformat()
        properties |= {name: values[k] for name, values in (extra or {}).items()}
        text = json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
        lines.append(f'{{"type":"Feature","properties":{text},"geometry":{shape}}}')
    body = ",\n".join(lines)
    return f'{{"type":"FeatureCollection","features":[\n{body}\n]}}\n'.encode()
