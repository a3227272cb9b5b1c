"""The compiled loops of the multiset digest: SipHash-2-4 (Aumasson & Bernstein 2012) over rows.

A row is a sequence of 64-bit words. Its state stands in four columns of an array, so that a table
is taken in column by column; two 64-bit words come out of each row and are added up modulo 2^64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

U64 = np.uint64
_MISSING, _WORD, _BYTES = U64(0), U64(1), U64(2)


@njit(cache=True, inline="always")
def _left(x: Any, by: int) -> Any:
    return (x << U64(by)) | (x >> U64(64 - by))


@njit(cache=True)
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _left(v1, 13) ^ v0
    v0 = _left(v0, 32)
    v2 = v2 + v3
    v3 = _left(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _left(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _left(v1, 17) ^ v2
    v2 = _left(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True)
def _absorb(state: NDArray[np.uint64], row: int, word: Any) -> None:
    v0, v1, v2, v3 = state[row, 0], state[row, 1], state[row, 2], state[row, 3] ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    state[row, 0], state[row, 1], state[row, 2], state[row, 3] = v0 ^ word, v1, v2, v3


@njit(cache=True)
def begin(state: NDArray[np.uint64], low: Any, high: Any) -> None:
    """The state of every row before its first word, from a key of two words."""
    for row in range(state.shape[0]):
        state[row, 0] = U64(0x736F6D6570736575) ^ low
        state[row, 1] = U64(0x646F72616E646F6D) ^ high
        state[row, 2] = U64(0x6C7967656E657261) ^ low
        state[row, 3] = U64(0x7465646279746573) ^ high


@njit(cache=True)
def take_words(
    state: NDArray[np.uint64], words: NDArray[np.uint64], valid: NDArray[np.bool_]
) -> None:
    """A column of fixed width; `valid` is empty where no value is missing."""
    for row in range(state.shape[0]):
        if valid.size and not valid[row]:
            _absorb(state, row, _MISSING)
        else:
            _absorb(state, row, _WORD)
            _absorb(state, row, words[row])


@njit(cache=True)
def take_bytes(
    state: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    valid: NDArray[np.bool_],
) -> None:
    """A column of texts or bytes: the length first, so that no two values run together."""
    for row in range(state.shape[0]):
        if valid.size and not valid[row]:
            _absorb(state, row, _MISSING)
            continue
        first, last = offsets[row], offsets[row + 1]
        _absorb(state, row, (U64(last - first) << U64(2)) | _BYTES)
        for at in range(first, last, 8):
            word = U64(0)
            for k in range(min(8, last - at)):
                word |= U64(data[at + k]) << U64(8 * k)
            _absorb(state, row, word)


@njit(cache=True)
def add_up(state: NDArray[np.uint64], total: NDArray[np.uint64]) -> None:
    """Two words out of each row, added to `total`."""
    for row in range(state.shape[0]):
        v0, v1, v2, v3 = state[row, 0], state[row, 1], state[row, 2], state[row, 3]
        v2 ^= U64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        total[0] += v0 ^ v1 ^ v2 ^ v3
        v1 ^= U64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        total[1] += v0 ^ v1 ^ v2 ^ v3
