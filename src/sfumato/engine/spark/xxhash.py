"""xxHash64 as Spark's function of this name has it: numbers of files and names of inputs, computed
without Spark.

Collet's algorithm; a row is hashed value by value, each result the seed of the next, beginning
with 42; a missing value leaves the hash as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled, inlined

U64 = np.uint64
_P1, _P2 = U64(0x9E3779B185EBCA87), U64(0xC2B2AE3D27D4EB4F)
_P3, _P4, _P5 = U64(0x165667B19E3779F9), U64(0x85EBCA77C2B2AE63), U64(0x27D4EB2F165667C5)
SEED = U64(42)
"""What every row is hashed with first, where nothing else is said."""
_LOW = U64(0xFFFFFFFF)
Array = NDArray[Any]


@inlined
def _left(x: Any, by: int) -> Any:
    return (x << U64(by)) | (x >> U64(64 - by))


@inlined
def _mixed(h: Any) -> Any:
    h = (h ^ (h >> U64(33))) * _P2
    h = (h ^ (h >> U64(29))) * _P3
    return h ^ (h >> U64(32))


@inlined
def _round(acc: Any, word: Any) -> Any:
    return _left(acc + word * _P2, 31) * _P1


@inlined
def of_int(value: Any, seed: Any) -> Any:
    h = (seed + _P5 + U64(4)) ^ ((value & _LOW) * _P1)
    return _mixed(_left(h, 23) * _P2 + _P3)


@inlined
def of_long(value: Any, seed: Any) -> Any:
    h = (seed + _P5 + U64(8)) ^ _round(U64(0), value)
    return _mixed(_left(h, 27) * _P1 + _P4)


@compiled
def _word(data: Array, at: Any, size: Any) -> Any:
    found = U64(0)
    for k in range(size):
        found |= U64(data[at + k]) << U64(8 * k)
    return found


@compiled
def of_bytes(data: Array, at: Any, stop: Any, seed: Any) -> Any:
    """xxHash64 of some bytes."""
    size = U64(stop - at)
    if stop - at >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while stop - at >= 32:
            a = _round(a, _word(data, at, 8))
            b = _round(b, _word(data, at + 8, 8))
            c = _round(c, _word(data, at + 16, 8))
            d = _round(d, _word(data, at + 24, 8))
            at += 32
        h = _left(a, 1) + _left(b, 7) + _left(c, 12) + _left(d, 18)
        for lane in (a, b, c, d):
            h = (h ^ _round(U64(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += size
    while stop - at >= 8:
        h = _left(h ^ _round(U64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if stop - at >= 4:
        h = _left(h ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        h = _left(h ^ (U64(data[at]) * _P5), 11) * _P1
        at += 1
    return _mixed(h)


def of_text(text: str) -> int:
    """What Spark's `xxhash64` gives for a text."""
    data = np.frombuffer(text.encode(), np.uint8)
    return int(np.array([of_bytes(data, 0, data.size, SEED)], U64).view(np.int64)[0])
