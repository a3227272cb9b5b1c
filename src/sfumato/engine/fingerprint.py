"""A keyed fingerprint of the input: the same bytes, the same text, and nothing to guess from.

A reservation is bound to the data it was made for, so that the same noise never meets two
inputs. The digest is keyed (BLAKE2b, 256 bits, the key hashed first so that any length is
safe): whoever reads the ledger without the key cannot test a guess about the records.

Files count by content and not by name, each with its length before it, in the order of their
paths; tables by the bytes of their Arrow stream; rows that come in no particular order (out of a
database) by a digest of the multiset they are. Columns' meaning enters as well: the same
file read with another user column is another input.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa

from sfumato.engine.multiset.digest import rows_digest
from sfumato.model.events import Events, FileSource
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

_PIECE = 1 << 22


class _Sink:
    """A file object that only hashes."""

    closed = False

    def __init__(self, digest: hashlib.blake2b) -> None:
        self._digest = digest

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self._digest.update(view)
        return view.nbytes

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _file(digest: hashlib.blake2b, path: Path) -> None:
    digest.update(path.stat().st_size.to_bytes(8, "little"))
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)


def fingerprint(
    events: Events, places: Places, grid: TimeGrid, key: bytes, progress: Progress | None = None
) -> str:
    """64 hex digits over the records, what their columns mean, the places and the grid."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=32)
    columns = events.columns
    meaning = (
        *(columns.user, columns.time, columns.place, columns.lon, columns.lat),
        *(repr(columns.degrees_scale), str(events.time), str(events.user), events.tz),
        *(places.fingerprint(), grid.fingerprint(), str(events.time_is_text)),
    )
    digest.update(repr(("sfumato-input/1", *meaning)).encode())
    if isinstance(events.source, FileSource) and events.source.unordered:
        # The columns' names are in their meaning: what counts here is the rows.
        used = (columns.user, columns.time, columns.place, columns.lon, columns.lat)
        secret = hashlib.sha256(b"sfumato-rows/1" + key).digest()
        names = [name for name in used if name is not None]
        if progress is not None:
            progress("fingerprint of the input", -1.0)
        digest.update(b"rows" + rows_digest(events.source.paths, names, secret))
    elif isinstance(events.source, FileSource):
        # How a CSV file is cut into fields is part of what its bytes mean.
        digest.update(repr((str(events.source.format), events.source.csv)).encode())
        paths = sorted(events.source.paths)
        for done, path in enumerate(paths):
            if progress is not None:
                progress("fingerprint of the input", done / len(paths))
            _file(digest, path)
    else:
        table = events.source.table.combine_chunks()
        with pa.ipc.new_stream(pa.PythonFile(_Sink(digest), mode="w"), table.schema) as stream:
            stream.write_table(table)
    return digest.hexdigest()
