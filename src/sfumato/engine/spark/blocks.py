"""What runs in a Spark worker: users' rows packed into blocks, and the pass that counts them.

Spark sends all rows of a user to one task. The task does what one machine does with all of them:
exact ids to codes, cells sorted, repeats dropped (`sfumato.engine.intake`). What it gives is a
table of *blocks*, some users each: ids, offsets and cells as plain bytes. It is what is kept for
the scheme's later questions: about a seventh of the rows' size, and no row order survives in it.

A question is the compiled pass over blocks of users, the very one that one machine runs. Each task
adds its users to one dense array and gives what is not zero as (cell, n).

That every user is whole in one task is what the bound rests on, so it is not taken on trust:
each row or parcel carries the bucket of its users' hash (a parcel: its address), and a task notes
those that it saw. The
counting pass hands these on as rows with a negative cell, which are no counts: -1 - b says that the
task saw bucket b. So a bucket seen in two tasks is found by the driver in the same job that counted
(`sfumato.engine.spark.source`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine import tally as kernels
from sfumato.engine.base import BoundBroken
from sfumato.engine.grouping import Block, Grouping
from sfumato.engine.sampling import STRIDE, sampled, seeds_of
from sfumato.engine.spark.parcels import opened
from sfumato.engine.spark.rows import TALLIES, add_tallies
from sfumato.io.values import numbers
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


def blocks(batches: Iterator[Any], intake: Intake) -> Iterator[Any]:
    """All rows of a task to blocks of users, with what the task saw in front."""
    cell_bits = intake.place_bits + intake.slot_bits
    grouping = Grouping(intake.user, cell_bits, _MEMORY, 1)
    seen: set[int] = set()
    tally = np.zeros(TALLIES, np.int64)
    mask = (np.int64(1) << BUCKET_SHIFT) - 1
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if "address" in batch.schema.names:
            for row in range(batch.num_rows):
                found = opened(batch, row, intake.user, grouping.dtype)
                if found is None:
                    told = np.frombuffer(batch.column("tally")[row].as_buffer(), np.int64)
                    add_tallies(told, np.ones(told.size, np.int64), tally)
                else:
                    seen.add(batch.column("address")[row].as_py())
                    grouping.add(*found)
            continue
        packed = numbers(batch.column("packed"), np.int64)
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
        grouping.add(batch.column("u"), cells.astype(grouping.dtype))
    try:
        grouping.finish()
        buckets = np.array(sorted(seen), np.int64).tobytes()
        yield _batch([_row(buckets=buckets, tally=tally.tobytes())])
        for block in grouping.blocks():
            for part in _parts(block):
                column = block.ids(np.arange(*part, dtype=np.int64))
                yield _batch([_packed(block, part, column, intake)])
    finally:
        grouping.close()


def _times(batch: Any, which: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows that each of these stands for: itself, or `n` where repeats were dropped before."""
    if "n" in batch.schema.names:
        times: NDArray[np.int64] = numbers(batch.column("n"), np.int64)[which]
        return times
    return np.ones(int(np.count_nonzero(which)), np.int64)


def unpacked(batch: Any, row: int, user: UserEncoding) -> tuple[Block, int]:
    """A block, and the bits of a cell that are its place."""

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
    block = Block(offsets, cells, lambda users: column.take(pa.array(users)))
    return block, batch.column("bits")[row].as_py()


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


SUMS_SCHEMA = "cell BIGINT, n BIGINT"
_KERNELS: dict[str, Callable[..., int]] = {
    "weighted": kernels.weighted,
    "place_totals": kernels.place_totals,
    "slot_totals": kernels.slot_totals,
    "capped_total": kernels.capped_total,
    "ladder": kernels.ladder,
    "lives": kernels.lives,
    "capped_answer": kernels.capped_answer,
    "answers": kernels.answers,
    "exact": kernels.exact,
}
_OUT = 1 << 16


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Question:
    """What is asked: a compiled pass, its arguments, and the shape of the answer.

    For `sampled` the arguments are the limit and the key, which never appears in a plan's text.
    """

    kernel: str
    shape: tuple[int, ...]
    arguments: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"<question {self.kernel}>"


def counted(batches: Iterator[Any], question: Question, user: UserEncoding) -> Iterator[Any]:
    """The blocks of a task to (cell, n)."""
    total = np.zeros(question.shape, np.int64)
    buckets: list[NDArray[np.int64]] = []
    above = 0
    for batch in batches:
        for row in range(batch.num_rows):
            if batch.column("buckets")[row].is_valid:
                raw = batch.column("buckets")[row].as_buffer()
                buckets.append(np.frombuffer(raw, np.int64))
                continue
            block, bits = unpacked(batch, row, user)
            rows = (block.cells, block.offsets, bits)
            if question.kernel == "sampled":
                limit, key = question.arguments
                seeds = seeds_of(block, user, key, bits=bits, limit=limit, threads=1)
                above += sampled(rows, 0, block.users, limit, *seeds, STRIDE, total)
            else:
                kernel = _KERNELS[question.kernel]
                above += kernel(rows, 0, block.users, *question.arguments, total)
    if above:
        raise BoundBroken
    flat = total.ravel()
    cells = np.flatnonzero(flat)
    seen = np.concatenate([np.empty(0, np.int64), *buckets])
    every = np.concatenate([-1 - seen, cells])
    numbers = np.concatenate([np.ones(seen.size, np.int64), flat[cells]])
    for start in range(0, every.size, _OUT):
        part = slice(start, start + _OUT)
        columns = [pa.array(every[part]), pa.array(numbers[part])]
        yield pa.RecordBatch.from_arrays(columns, names=["cell", "n"])
