"""Exact tables from ids to dense codes, for integers and for bytes.

Codes follow the order of arrival and mean nothing: no count and no sample depends on them.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.ids import kernels
from sfumato.io.arrow import bytes_of, numbers
from sfumato.model.events import UserEncoding

_LOAD = 0.7
_FIRST = 1 << 12


def _capacity(entries: int) -> int:
    size = _FIRST
    while entries > _LOAD * size:
        size *= 2
    return size


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    if needed <= array.size:
        return array
    larger = np.zeros(max(needed, array.size + array.size // 2), array.dtype)
    larger[: array.size] = array
    return larger


class IntegerIds:
    """64-bit integers."""

    encoding = UserEncoding.INTEGER

    def __init__(self) -> None:
        self._seed = np.uint64(secrets.randbits(64))
        self._table = np.zeros(2 * _FIRST, np.int64)
        self._ids = np.zeros(_FIRST, np.int64)
        self.count = 0

    def _make_room(self, more: int) -> None:
        self._ids = _grown(self._ids, self.count + more)
        size = _capacity(self.count + more)
        if 2 * size > self._table.size:
            self._table = np.zeros(2 * size, np.int64)
            kernels.enter_integers(self._ids, 0, self.count, self._table, self._seed)

    def encode(self, column: Any, cells: NDArray[np.int64], packed: NDArray[Any]) -> NDArray[Any]:
        """Codes of the rows whose cell is not negative; their cells go to `packed`."""
        codes = np.empty(cells.size, np.int32)
        self._make_room(cells.size)
        rows, self.count = kernels.code_integers(
            numbers(column, np.int64),
            cells,
            self._table,
            self._ids,
            self.count,
            self._seed,
            codes,
            packed,
        )
        return codes[:rows]

    def lookup(self, column: Any, valid: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of a column, -1 where unknown; nothing is entered."""
        found = np.empty(len(column), np.int32)
        kernels.find_integers(numbers(column, np.int64), valid, self._table, self._seed, found)
        return found

    def of(self, codes: NDArray[np.int64]) -> Any:
        """The ids of codes, as an Arrow array."""
        return pa.array(self._ids[codes])


class ByteIds:
    """Texts or binary strings, compared byte by byte."""

    def __init__(self, encoding: UserEncoding) -> None:
        self.encoding = encoding
        self._seed = np.uint64(secrets.randbits(64))
        self._table = np.zeros(2 * _FIRST, np.int64)
        self._starts = np.zeros(_FIRST + 1, np.int64)
        self._arena = np.zeros(1 << 16, np.uint8)
        self.count = 0

    def _make_room(self, more: int, more_bytes: int) -> None:
        self._starts = _grown(self._starts, self.count + more + 1)
        self._arena = _grown(self._arena, int(self._starts[self.count]) + more_bytes)
        size = _capacity(self.count + more)
        if 2 * size > self._table.size:
            self._table = np.zeros(2 * size, np.int64)
            kernels.enter_bytes(self._starts, self.count, self._arena, self._table, self._seed)

    def encode(self, column: Any, cells: NDArray[np.int64], packed: NDArray[Any]) -> NDArray[Any]:
        """Codes of the rows whose cell is not negative; their cells go to `packed`."""
        offsets, data = bytes_of(column)
        kept = np.diff(offsets)[cells >= 0]
        # The reader has dropped longer ids (`sfumato.io.rows`), so this is a fault of the program.
        assert int(kept.max(initial=0)) < 1 << kernels.LENGTH_BITS
        codes = np.empty(cells.size, np.int32)
        self._make_room(cells.size, int(offsets[-1] - offsets[0]))
        rows, self.count = kernels.code_texts(
            offsets,
            data,
            cells,
            self._table,
            self._arena,
            self._starts,
            self.count,
            self._seed,
            codes,
            packed,
        )
        return codes[:rows]

    def lookup(self, column: Any, valid: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Codes of a column, -1 where unknown; nothing is entered."""
        offsets, data = bytes_of(column)
        found = np.empty(len(column), np.int32)
        kernels.find_texts(offsets, data, valid, self._table, self._arena, self._seed, found)
        return found

    def of(self, codes: NDArray[np.int64]) -> Any:
        """The ids of codes, as an Arrow array."""
        ends = pa.py_buffer(self._starts[: self.count + 1])
        whole = pa.Array.from_buffers(
            pa.large_string() if self.encoding is UserEncoding.TEXT else pa.large_binary(),
            self.count,
            [None, ends, pa.py_buffer(self._arena)],
        )
        return whole.take(pa.array(codes))


Ids = IntegerIds | ByteIds


def ids_for(encoding: UserEncoding) -> Ids:
    """An empty table for ids held as `encoding`."""
    return IntegerIds() if encoding is UserEncoding.INTEGER else ByteIds(encoding)
