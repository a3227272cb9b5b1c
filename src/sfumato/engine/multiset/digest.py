"""`rows_digest`: the same rows, the same digest, in whatever order and files they come.

A database sends its rows in an order that may differ from one run to the next, and a release that
was interrupted must still recognise its input. Every row is hashed with a secret key and the
hashes are added up (the additive multiset hash of Clarke et al. 2003, over a keyed function
instead of a random oracle). One row more, less or other changes the sum except with probability
2^-128. The sum itself is never stored: it goes into the keyed fingerprint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.engine.multiset import kernels
from sfumato.io.arrow import bytes_of, validity

_ROWS = 1 << 16


def rows_digest(paths: Sequence[Path], columns: Sequence[str], key: bytes) -> bytes:
    """Number of rows and sum of their keyed hashes, over `columns` in this order; 24 bytes."""
    low, high = (np.uint64(part) for part in np.frombuffer(key[:16], "<u8"))
    total = np.zeros(2, np.uint64)
    rows = 0
    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:  # else all of it stays in memory
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(columns)):
                state = np.empty((batch.num_rows, 4), np.uint64)
                kernels.begin(state, low, high)
                for name in columns:
                    _take(state, batch.column(name))
                kernels.add_up(state, total)
                rows += batch.num_rows
    return rows.to_bytes(8, "little") + total.astype("<u8").tobytes()


def _take(state: Any, column: Any) -> None:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        words = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        words = column.cast(pa.float64())
    else:
        offsets, data = bytes_of(column)
        kernels.take_bytes(state, offsets.astype(np.int64), data, validity(column))
        return
    size = len(words)
    buffer = words.buffers()[1]
    values = np.frombuffer(buffer, np.uint64) if size else np.empty(0, np.uint64)
    kernels.take_words(state, values[words.offset : words.offset + size], validity(column))
