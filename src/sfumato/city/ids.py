"""Pseudonyms: a keyed permutation of the users, so that ids are distinct and tell no order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.city.plan import IdKind

_HALF = np.uint64((1 << 31) - 1)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: a bijection of 64-bit words that scatters them."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def integer_ids(users: NDArray[np.int64], key: int) -> NDArray[np.int64]:
    """A keyed Feistel permutation of the 62-bit integers: distinct, positive, unordered."""
    word = users.astype(np.uint64)
    left, right = word >> np.uint64(31), word & _HALF
    for turn in range(4):
        subkey = mix64(mix64(np.array([key], dtype=np.uint64)) + np.uint64(turn))
        left, right = right, left ^ (mix64(right ^ subkey) & _HALF)
    return ((left << np.uint64(31)) | right).astype(np.int64)


def id_array(users: NDArray[np.int64], key: int, kind: IdKind) -> pa.Array:
    """Ids of the users with these numbers: integers, 16 bytes, or their 32 hex digits."""
    whole = integer_ids(users, key)
    if kind is IdKind.INTEGER:
        return pa.array(whole, pa.int64())
    # The first word is a bijection of the integer id, so 128-bit ids are distinct as well.
    first = mix64(whole.astype(np.uint64))
    second = mix64(first + np.uint64(0x9E3779B97F4A7C15))
    raw = np.column_stack([first, second]).astype(">u8").view(np.uint8).reshape(-1, 16)
    if kind is IdKind.BINARY:
        return _fixed(raw, pa.binary())
    digits = np.empty((len(raw), 32), dtype=np.uint8)
    digits[:, 0::2] = _HEX[raw >> 4]
    digits[:, 1::2] = _HEX[raw & 15]
    return _fixed(digits, pa.string())


def _fixed(content: NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    n, width = content.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(kind, n, buffers)
