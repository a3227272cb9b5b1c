"""Rows of a table as a Parquet file in a scratch folder: the engine reads it as any other file.

Once read, the rows cannot change under a release, and asking for several margins or for the
fingerprint does not ask the server again. The file holds the columns that play a part and the rows
that can count, nothing else; the folder is for its owner alone, and is removed with the run, or by
the next run where this one is killed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.model.errors import InputError
from sfumato.model.source import Progress

_COMPRESSION = "lz4"


def write_snapshot(
    path: Path, batches: Iterable[Any], label: str, progress: Progress | None = None
) -> None:
    """Batches to a file, a row group each: never more than one of them in memory."""
    try:
        return _write(path, batches, progress)
    except (OSError, pa.ArrowException):
        pass  # what the writer says may quote a value
    raise InputError(
        "its rows could not be put in the temporary folder.",
        file=label,
        remedy="Point TMPDIR to a disk with more room.",
    )


def _write(path: Path, batches: Iterable[Any], progress: Progress | None) -> None:
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            if writer is None:
                writer = pq.ParquetWriter(path, batch.schema, compression=_COMPRESSION)
            if batch.num_rows:
                writer.write_batch(batch)
            if progress is not None:
                progress("reading the database", -1.0)
    finally:
        if writer is not None:
            writer.close()
