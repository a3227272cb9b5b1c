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


def numbers(column: Any, dtype: type[np.int64] | type[np.float64]) -> NDArray[Any]:
    """Values of a fixed-width column; what stands at a null is arbitrary."""
    size = len(column)
    if size == 0:
        return np.empty(0, dtype)
    values = np.frombuffer(column.buffers()[1], dtype=dtype)
    return values[column.offset : column.offset + size]


def texts(column: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Offsets and bytes of a text or binary column."""
    kind = column.type
    if not any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_binary,
            pa.types.is_large_string,
            pa.types.is_large_binary,
        )
    ):
        column = column.cast(pa.large_binary())
        kind = column.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    size = len(column)
    if size == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = column.buffers()
    positions = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    window = positions[column.offset : column.offset + size + 1]
    if data is None or data.size == 0:
        return window, np.empty(0, np.uint8)
    return window, np.frombuffer(data, dtype=np.uint8)
