"""Seeds of the users whose sample depends on an order, and of no one else.

A user with one place in every slot and at most l slots is kept whole whatever the key, so most
users of an ordinary week are never hashed. The others' seeds come from the definition's own
SQL, vectorised; rows come back with their index because no order of rows is relied on.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.dialect import DUCKDB
from sfumato.engine.ids.tables import Ids
from sfumato.engine.intake.grouped import Block, in_threads
from sfumato.engine.order import HALF, seeds_sql
from sfumato.engine.sampling import kernels

_BATCH = 1 << 20


def _hashed(
    connection: duckdb.DuckDBPyConnection, ids: Ids, codes: NDArray[np.int64], key: bytes
) -> NDArray[np.int64]:
    """The two seeds of each code, one row a code."""
    seeds = np.zeros((codes.size, 2), np.int64)
    for start in range(0, codes.size, _BATCH):
        some = codes[start : start + _BATCH]
        index = np.arange(start, start + some.size, dtype=np.int64)
        connection.register("needed", pa.table({"i": index, "u": ids.of(some)}))
        sql = seeds_sql(key, ids.encoding, "needed", ("i",), DUCKDB)
        found = {
            name: np.asarray(column, np.int64)
            for name, column in connection.execute(sql).fetchnumpy().items()
        }
        for step in (1, 2):
            seeds[found["i"], step - 1] = found[f"a{step}"] * HALF + found[f"b{step}"]
        connection.unregister("needed")
    return seeds


def seeds_of(
    block: Block,
    ids: Ids,
    key: bytes,
    *,
    bits: int,
    limit: int,
    threads: int,
    connection: duckdb.DuckDBPyConnection,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Where each user's seeds stand (-1: not needed), and the seeds."""
    needed = np.zeros(block.users, np.bool_)
    rows = (block.cells, block.offsets, bits)
    in_threads(
        lambda low, high: kernels.needs_order(rows, low, high, limit, needed),
        block.users,
        threads,
    )
    users = np.flatnonzero(needed)
    seed_at = np.full(block.users, -1, np.int32)
    seed_at[users] = np.arange(users.size, dtype=np.int32)
    return seed_at, _hashed(connection, ids, block.codes(users), key)
