"""Rows on their way to the task of their user: many in one parcel instead of one by one.

Spark moves rows as objects: each is written from Arrow into a row, hashed, sorted into its
partition, and written into Arrow again on the other side. For two numbers a row that costs more
than counting them. So a worker sorts the rows that it judged by the task they belong to and gives
one row for each task and some hundred thousand records: the ids and cells of all of them as plain
bytes. What Spark exchanges are a few parcels, addressed so that each task gets its own.

Who belongs where is a hash of the id's own bytes, the same on every worker. The address of task k
is a number that Spark's partitioning sends to task k; were it sent elsewhere, tasks would be uneven
and nothing else: that a user's rows met in one task is checked by what the tasks saw (`blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.spark.rows import Recipe, judged_cells
from sfumato.engine.spark.xxhash import U64, of_bytes
from sfumato.io.values import bytes_of, numbers
from sfumato.model.compiled import compiled
from sfumato.model.events import UserEncoding

SCHEMA = "address INT, cells BINARY, ids BINARY, sizes BINARY, tally BINARY"
ROWS = 1 << 18
"""Records that a worker sorts at once, 4 MB: of 14 tasks each then gets 300 kB in a parcel."""
_GOLDEN, _MIX = U64(0x9E3779B97F4A7C15), U64(0xBF58476D1CE4E5B9)
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Addresses:
    """Where parcels go: a number for each task, which Spark sends to that task."""

    of_task: Array

    @classmethod
    def of(cls, tasks: int) -> Addresses:
        found = np.full(tasks, -1, np.int32)
        left, label = tasks, 0
        while left:
            task = murmur3(label) % tasks
            if found[task] < 0:
                found[task] = label
                left -= 1
            label += 1
        return cls(found)


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an INT (Appleby's MurmurHash3, 32 bits), by which it sends rows to tasks."""
    mask = 0xFFFFFFFF

    def turned(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = turned(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (turned(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


@compiled
def _hashes(ends: Array, data: Array, found: Array) -> None:
    for row in range(found.size):
        found[row] = of_bytes(data, ends[row], ends[row + 1], U64(42))


def tasks_of(users: Any, tasks: int) -> NDArray[np.uint16]:
    """The task of each user, by the id's own bytes."""
    if pa.types.is_integer(users.type):
        hashed = numbers(users, np.int64).view(U64) * _GOLDEN
        hashed = (hashed ^ (hashed >> U64(29))) * _MIX
    else:
        ends, data = bytes_of(users)
        hashed = np.empty(len(users), U64)
        _hashes(ends.astype(np.int64), data, hashed)
    return np.asarray(((hashed >> U64(32)) * U64(tasks)) >> U64(32), dtype=np.uint16)


def parcels(batches: Iterator[Any], recipe: Recipe, to: Addresses) -> Iterator[Any]:
    """In a worker: the judged rows, sorted into parcels, and what became of the others."""
    users: list[Any] = []
    cells: list[Array] = []
    held = 0
    for user, cell in judged_cells(batches, recipe):
        if user is None:  # the last word: what was dropped
            yield _batch(to.of_task[:1], tally=[cell.tobytes()])
            continue
        users.append(user)
        cells.append(cell)
        held += cell.size
        if held >= ROWS:
            yield _sorted(users, cells, recipe, to)
            users, cells, held = [], [], 0
    if held:
        yield _sorted(users, cells, recipe, to)


def _sorted(users: list[Any], cells: list[Array], recipe: Recipe, to: Addresses) -> Any:
    """One row a task; the columns are slices of what was sorted, and nothing is copied twice."""
    user, cell = pa.concat_arrays(users), np.concatenate(cells)
    task = tasks_of(user, to.of_task.size)
    order = np.argsort(task, kind="stable")  # a radix sort
    there, counts = np.unique(task, return_counts=True)
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    wide = recipe.dtype.itemsize
    moved = cell[order].astype(recipe.dtype)
    if recipe.held is UserEncoding.INTEGER:
        data: Any = numbers(user, np.int64)[order]
        ids, sizes = _slices(data, 8 * ends), pa.nulls(there.size, pa.binary())
    else:
        taken = user.take(pa.array(order))
        edges, _ = bytes_of(taken)
        data = taken.buffers()[2]
        ids = _slices(pa.py_buffer(b"") if data is None else data, edges[ends].astype(np.int32))
        sizes = _slices(np.diff(edges).astype(np.int32), 4 * ends)
    return _batch(to.of_task[there], cells=_slices(moved, wide * ends), ids=ids, sizes=sizes)


def _slices(data: Any, ends: Array) -> Any:
    """A binary column whose values follow one another in the data."""
    content = pa.py_buffer(data)
    return pa.Array.from_buffers(
        pa.binary(), ends.size - 1, [None, pa.py_buffer(ends.astype(np.int32)), content]
    )


_ARROW = pa.schema(
    [
        ("address", pa.int32()),
        ("cells", pa.binary()),
        ("ids", pa.binary()),
        ("sizes", pa.binary()),
        ("tally", pa.binary()),
    ]
)


def _batch(address: Array, **columns: Any) -> Any:
    rows = [pa.array(address, pa.int32())]
    for field in list(_ARROW)[1:]:
        given = columns.get(field.name)
        rows.append(
            pa.nulls(address.size, pa.binary()) if given is None else pa.array(given, pa.binary())
        )
    return pa.RecordBatch.from_arrays(rows, schema=_ARROW)


def opened(batch: Any, row: int, user: UserEncoding, dtype: Any) -> tuple[Any, Array] | None:
    """Users and cells of a parcel; nothing where it holds a tally."""
    if not batch.column("cells")[row].is_valid:
        return None
    cells = np.frombuffer(batch.column("cells")[row].as_buffer(), dtype)
    ids = batch.column("ids")[row].as_buffer()
    if user is UserEncoding.INTEGER:
        return pa.Array.from_buffers(pa.int64(), cells.size, [None, ids]), cells
    sizes = np.frombuffer(batch.column("sizes")[row].as_buffer(), np.int32)
    ends = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), cells.size, [None, pa.py_buffer(ends), ids]), cells
