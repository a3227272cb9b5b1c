"""Writing files that are either whole or not there.

A file is written under a temporary name in the folder where it will stand, readable by its
owner alone, synced, given its final mode, renamed, and the folder is synced. Whoever looks, at
any instant, sees the old file or the new one. What a killed run leaves behind starts with
`.sfumato-` and is removed by `sweep_temporaries`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from sfumato.model.errors import SfumatoError, UsageError

TEMPORARY = ".sfumato-"
_PRIVATE = 0o600


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
    write_atomically(path, lambda t: pq.write_table(table, t, compression="zstd"), mode)


def write_csv(path: str | Path, table: pa.Table, mode: int = 0o644) -> None:
    """An Arrow table as CSV in UTF-8 with a header, text quoted where it must be."""
    options = pacsv.WriteOptions(quoting_style="needed")
    write_atomically(path, lambda t: pacsv.write_csv(table, t, options), mode)


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
    if number in (errno.EISDIR, errno.ENOTDIR):
        return UsageError(f"{target}: a folder stands where a file should, or the reverse.")
    reason = os.strerror(number) if number else "output error"
    return SfumatoError(f"{target}: it cannot be written ({reason}).")
