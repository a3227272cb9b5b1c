"""What a stream writes: a Parquet partition for each slot, and one line of NDJSON.

`slots/slot=00012/part-0.parquet` (zone_id, count) appears in one step; `stream.ndjson` grows by
a line a slot. Both are written from bytes that are already in the ledger's database, so
writing them again changes nothing. `places.json` names the zones in the order of the lines'
values; `README.txt` is the privacy statement in words and `stream.json` holds it for machines,
from the first slot on. `manifest.json`, with the digest of every file but the partitions, is
the same statement of a stream that is complete.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.model.errors import SfumatoError
from sfumato.privacy.manifest import MANIFEST_NAME
from sfumato.stream.contract import Publication, Values
from sfumato.stream.store import Standing

README = "README.txt"


def table_bytes(ids: NDArray[np.str_], values: Values) -> bytes:
    """The slot's partition as a Parquet file. Whole numbers are written as such."""
    whole = bool((values == np.rint(values)).all())
    column = pa.array(values.astype(np.int64) if whole else values)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"zone_id": pa.array(ids.tolist()), "count": column}), sink)
    return bytes(sink.getvalue())


def line_bytes(slot: int, start: str, end: str, publication: Publication, values: Values) -> bytes:
    """The slot as one line: when, whether it was measured anew, and the counts in order."""
    whole = bool((values == np.rint(values)).all())
    record: dict[str, Any] = {
        "slot": slot,
        "start": start,
        "end": end,
        "fresh": publication.fresh,
        "sd": None if not np.isfinite(publication.sd) else round(publication.sd, 6),
        "counts": (values.astype(np.int64) if whole else np.round(values, 3)).tolist(),
    }
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


class Outputs:
    """The folder of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, ids: NDArray[np.str_], statement: str) -> dict[str, str]:
        """Make the folder, its places and its plain words, and return their digests.

        The same bytes on every start.
        """
        made = {"places.json": _json({"zones": ids.tolist()}), README: statement.encode()}
        try:
            (self.folder / "slots").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(error) from error
        for name, content in made.items():
            self._put(name, content)
        return {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}

    def state(self, statement: dict[str, Any]) -> None:
        """The statement for machines, before the first slot leaves."""
        self._put("stream.json", _json(statement))

    def end(self, manifest: bytes) -> None:
        """The manifest of a stream whose last slot is out."""
        self._put(MANIFEST_NAME, manifest)

    def in_use(self) -> bool:
        """Whether lines of some stream are here."""
        return (self.folder / "stream.ndjson").exists()

    def check(self, standing: Standing) -> None:
        """Refuse to go on from a standing that is older than what was published.

        Files are written after the database, so they never hold more than it knows, unless the
        database was put back to an earlier copy. Going on from there would draw the noise of
        slots that are out already once more, for what may be other events.
        """
        path = self.folder / "stream.ndjson"
        with path.open("rb") if path.exists() else io.BytesIO() as file:
            file.seek(standing.offset)
            written = file.read(len(standing.line) + 1)
        if not standing.line.startswith(written):
            raise SfumatoError(
                f"{path} holds slots that the ledger's database does not know: the database was "
                "put back to an earlier copy, or the file belongs to another stream.",
                remedy="Restore the newest copy of the database. If there is none, give the stream "
                "up with sfumato ledger abandon: a published slot is never drawn again.",
            )

    def write(self, standing: Standing) -> None:
        """Write the last slot's output, whatever of it is there already."""
        if standing.next_slot == 0:
            return
        try:
            home = self.folder / "slots" / f"slot={standing.next_slot - 1:05d}"
            home.mkdir(exist_ok=True)
            self._replace(home / "part-0.parquet", standing.table)
            path = self.folder / "stream.ndjson"
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if os.fstat(handle).st_size < standing.offset:
                    raise SfumatoError(
                        f"{path} is shorter than it was: lines were cut off.",
                        remedy="Restore it from a copy; published slots cannot be made again.",
                    )
                os.ftruncate(handle, standing.offset)
                os.pwrite(handle, standing.line, standing.offset)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise self._failed(error) from error

    def digests(self) -> dict[str, str]:
        """SHA-256 of the files of the folder itself; the NDJSON holds every slot."""
        names = ("places.json", README, "stream.json", "stream.ndjson", MANIFEST_NAME)
        return {
            name: hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
            for name in names
            if (self.folder / name).exists()
        }

    def _put(self, name: str, content: bytes) -> None:
        try:
            self._replace(self.folder / name, content)
        except OSError as error:
            raise self._failed(error) from error

    def _replace(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".sfumato-{path.name}")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _failed(self, error: OSError) -> SfumatoError:
        return SfumatoError(
            f"{self.folder} could not be written: {error.strerror}.",
            remedy="Make room and run the same command with --resume: nothing is paid twice.",
        )


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"
