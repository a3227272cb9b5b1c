"""Arrow columns as the plain arrays the compiled loops read, without a copy where possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_ALL_VALID = np.empty(0, np.bool_)


def validity(column: Any) -> NDArray[np.bool_]:
    """True where the column has a value; empty where it has one everywhere."""
    if column.null_count == 0:
        return _ALL_VALID
    mask: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def numbers(column: Any, dtype: Any) -> NDArray[Any]:
    """Values of a fixed-width column; what stands at a null is arbitrary."""
    size = len(column)
    if size == 0 or column.buffers()[1] is None:
        return np.zeros(size, dtype)
    values = np.frombuffer(column.buffers()[1], dtype=dtype)
    return values[column.offset : column.offset + size]


def bytes_of(column: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Offsets and bytes of a text or binary column; what stands at a null is arbitrary."""
    kind = column.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        column = column.cast(pa.large_binary())
        wide = True
    size = len(column)
    if size == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = column.buffers()
    if offsets is None or offsets.size == 0:  # all missing
        return np.zeros(size + 1, np.int64), np.empty(0, np.uint8)
    positions = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    window = positions[column.offset : column.offset + size + 1]
    if data is None or data.size == 0:
        return window, np.empty(0, np.uint8)
    return window, np.frombuffer(data, dtype=np.uint8)


def without_rows(column: Any, gone: NDArray[np.bool_]) -> Any:
    """The column with nulls where `gone` is true."""
    if not gone.any():
        return column
    valid = ~gone
    there = validity(column)
    if there.size:
        valid &= there
    if column.offset:  # a bitmap of our own needs a column that begins with its buffers
        column = pa.concat_arrays([column])
        if column.offset:
            column = column.take(pa.array(np.arange(len(column))))
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(column.type, len(column), [mask, *column.buffers()[1:]])
