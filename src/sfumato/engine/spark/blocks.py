"""In a worker: the rows of whole users, grouped and packed, as rows of a small table.

Spark sends all rows of a user to one task. The task does what one machine does with all of them:
exact ids to codes, cells sorted, repeats dropped (`sfumato.engine.intake`). What it gives is a
table of *blocks*, some users each: ids, offsets and cells as plain bytes. It is what is kept for
the scheme's later questions: about a seventh of the rows' size, and no row order survives in it.

That every user is whole in one task is what the bound rests on, so it is not taken on trust:
each row carries the bucket of its user's hash, a task notes the buckets that it saw, and the
counting pass hands these on, so that a bucket seen in two tasks is found in the same job that
counted (`sfumato.engine.spark.source`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.ids.tables import ids_for
from sfumato.engine.intake.grouped import Block, Grouping
from sfumato.engine.spark.rows import TALLIES, add_tallies
from sfumato.io.arrow import numbers
from sfumato.model.events import UserEncoding

BUCKET_SHIFT = 44
"""A row's packed integer: bucket above, then slot, then place; negative for what was dropped."""
SCHEMA = (
    "buckets BINARY, tally BINARY, bits INT, width INT, offsets BINARY, cells BINARY, "
    "ids BINARY, ends BINARY"
)
_BLOCK_CELLS = 1 << 20
_MEMORY = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Intake:
    """What a worker needs to know. Public things only."""

    user: UserEncoding
    place_bits: int
    slot_bits: int


@dataclass(frozen=True, slots=True, eq=False)
class BlockIds:
    """The ids of one block's users."""

    encoding: UserEncoding
    column: Any

    def of(self, codes: NDArray[np.int64]) -> Any:
        return self.column.take(pa.array(codes))


def blocks(batches: Iterator[Any], intake: Intake) -> Iterator[Any]:
    """All rows of a task to blocks of users, with what the task saw in front."""
    cell_bits = intake.place_bits + intake.slot_bits
    grouping = Grouping(cell_bits, _MEMORY, 1)
    ids = ids_for(intake.user)
    seen: set[int] = set()
    tally = np.zeros(TALLIES, np.int64)
    mask = (np.int64(1) << BUCKET_SHIFT) - 1
    for batch in batches:
        packed = numbers(batch.column("packed"), np.int64)
        if packed.size == 0:
            continue
        inside = packed >= 0
        whole = bool(inside.all())
        if not whole:
            add_tallies(packed[~inside], _times(batch, ~inside), tally)
        bucket = (packed if whole else packed[inside]) >> BUCKET_SHIFT
        if bucket.size and bucket.min() == bucket.max():
            seen.add(int(bucket[0]))
        else:
            seen.update(np.unique(bucket).tolist())
        cells = packed & mask if whole else np.where(inside, packed & mask, np.int64(-1))
        room = np.empty(cells.size, grouping.dtype)
        grouping.add(ids.encode(batch.column("u"), cells, room), room)
    try:
        grouping.finish(ids.count)
        buckets = np.array(sorted(seen), np.int64).tobytes()
        yield _batch([_row(buckets=buckets, tally=tally.tobytes())])
        for block in grouping.blocks():
            for part in _parts(block):
                users = np.arange(part[0], part[1], dtype=np.int64)
                column = ids.of(block.codes(users))
                yield _batch([_packed(block, part, column, intake)])
    finally:
        grouping.close()


def _times(batch: Any, which: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows that each of these stands for: itself, or `n` where repeats were dropped before."""
    if "n" in batch.schema.names:
        found: NDArray[np.int64] = numbers(batch.column("n"), np.int64)[which]
        return found
    return np.ones(int(np.count_nonzero(which)), np.int64)


def unpacked(batch: Any, row: int, user: UserEncoding) -> tuple[Block, BlockIds, int]:
    """A block, its ids, and the bits of a cell that are its place."""

    def raw(name: str) -> Any:
        return batch.column(name)[row].as_buffer()

    dtype = np.int32 if batch.column("width")[row].as_py() == 4 else np.int64
    offsets = np.frombuffer(raw("offsets"), np.int64)
    cells = np.frombuffer(raw("cells"), dtype)
    count = offsets.size - 1
    if user is UserEncoding.INTEGER:
        column = pa.Array.from_buffers(pa.int64(), count, [None, raw("ids")])
    else:
        kind = pa.large_string() if user is UserEncoding.TEXT else pa.large_binary()
        column = pa.Array.from_buffers(kind, count, [None, raw("ends"), raw("ids")])
    return Block(offsets, cells), BlockIds(user, column), batch.column("bits")[row].as_py()


def _parts(block: Block) -> Iterator[tuple[int, int]]:
    """Ranges of users with about `_BLOCK_CELLS` cells each."""
    low = 0
    while low < block.users:
        limit = block.offsets[low] + _BLOCK_CELLS
        high = int(np.searchsorted(block.offsets, limit, side="right")) - 1
        high = min(max(high, low + 1), block.users)
        yield low, high
        low = high


def _packed(block: Block, part: tuple[int, int], column: Any, intake: Intake) -> dict[str, Any]:
    low, high = part
    begin, end = block.offsets[low], block.offsets[high]
    cells = block.cells[begin:end]
    ends = b""
    if intake.user is UserEncoding.INTEGER:
        data = numbers(column, np.int64).tobytes()
    else:
        _, starts, content = column.buffers()
        window = np.frombuffer(starts, np.int64)[column.offset : column.offset + len(column) + 1]
        data = b"" if content is None else content[int(window[0]) : int(window[-1])].to_pybytes()
        ends = (window - window[0]).tobytes()
    return _row(
        bits=intake.place_bits,
        width=cells.dtype.itemsize,
        offsets=(block.offsets[low : high + 1] - begin).tobytes(),
        cells=cells.tobytes(),
        ids=data,
        ends=ends,
    )


def _row(**given: Any) -> dict[str, Any]:
    return given


_ARROW = pa.schema(
    [
        ("buckets", pa.binary()),
        ("tally", pa.binary()),
        ("bits", pa.int32()),
        ("width", pa.int32()),
        ("offsets", pa.binary()),
        ("cells", pa.binary()),
        ("ids", pa.binary()),
        ("ends", pa.binary()),
    ]
)


def _batch(rows: list[dict[str, Any]]) -> Any:
    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in _ARROW]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
