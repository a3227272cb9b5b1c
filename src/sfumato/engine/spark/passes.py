"""In a worker: the compiled pass over blocks of users, the very one that one machine runs.

Each task adds its users to one dense array and gives what is not zero as (cell, n). A row with
a negative cell is no count: -1 - b says that the task saw bucket b of the users' hashes, and the
driver makes sure that no bucket was seen twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.answers import BoundBroken
from sfumato.engine.connection import open_connection
from sfumato.engine.ids.tables import Ids
from sfumato.engine.order import STRIDE
from sfumato.engine.sampling.kernels import sampled
from sfumato.engine.sampling.seeding import seeds_of
from sfumato.engine.spark.blocks import unpacked
from sfumato.engine.tally import kernels
from sfumato.model.events import UserEncoding

SCHEMA = "cell BIGINT, n BIGINT"
_KERNELS: dict[str, Callable[..., int]] = {
    "weighted": kernels.weighted,
    "place_totals": kernels.place_totals,
    "slot_totals": kernels.slot_totals,
    "capped_total": kernels.capped_total,
    "exact": kernels.exact,
}
_OUT = 1 << 16
_HASHING = 256 << 20


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
    with ExitStack() as stack:
        connection: Any = None
        if question.kernel == "sampled":  # the only one that hashes
            connection = stack.enter_context(open_connection(threads=1, memory_limit=_HASHING))
        for batch in batches:
            for row in range(batch.num_rows):
                if batch.column("buckets")[row].is_valid:
                    raw = batch.column("buckets")[row].as_buffer()
                    buckets.append(np.frombuffer(raw, np.int64))
                    continue
                block, ids, bits = unpacked(batch, row, user)
                rows = (block.cells, block.offsets, bits)
                if question.kernel == "sampled":
                    limit, key = question.arguments
                    seeds = seeds_of(
                        block,
                        cast(Ids, ids),
                        key,
                        bits=bits,
                        limit=limit,
                        threads=1,
                        connection=connection,
                    )
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
