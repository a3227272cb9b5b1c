"""The sampling order: a keyed function of the user id's own bytes, the same on every engine.

Who is kept must not depend on the other users (dense codes would shift when one is removed),
on the order of rows, or on an engine's native hash. So:

* canonical text of an id: decimal for integers, itself for text, lower-case hex for binary;
* seed of a user: SHA-256 of `key in hex`, `:`, canonical text. Hex digits 1-15 are the seed of
  the first step (one visit in a slot), 16-30 of the second (which slots): two independent
  60-bit numbers, because one order used for both would tie the place to the kept slots;
* each splits into two 30-bit multipliers a, b, and the order value of item x is, modulo the
  Mersenne prime p = 2^31 - 1 (5 does not divide p - 1, so x^5 is a bijection),

      y = ((a + 1) (x + 1) + b)^5,   z = ((b + 1) y + a + s)^5,   order = (a + 1) z + b

  with x the place's row and s = `STRIDE` * (slot + 1) in the first step, so that orders in
  different slots are unrelated, and x the slot, s = 0 in the second. Every product stays
  below 2^62. Smallest order first, ties (there are none) by item.

The order is pseudo-random, not cryptographic: what is secret and unpredictable is the seed.
Privacy does not rest on it (the bound holds for every sample), unbiasedness does, and is
tested for several keys, single slots, pairs of slots and the two steps together.

It is written three times: in Python, as SQL, and compiled. The definition of a bounded count
(`tests/engine/reference.py`) is one SQL text; a `Dialect` holds the few places where DuckDB and
Spark spell the same thing differently, and nothing else does. Every expression is exact: integers
below 2^63, or one correctly rounded IEEE operation. The compiled pass `sampled` takes users
low..high of a block (offsets, sorted distinct cells), slots of a user being runs of equal
`cell >> bits`; it checks the bound on what it counted and returns the number of users above it,
which the caller turns into an error.

Seeds are made for the users whose sample depends on an order, and for no one else. A user with one
place in every slot and at most l slots is kept whole whatever the key, so most users of an ordinary
week are never hashed. The others' seeds come from the definition's own SQL, vectorised; rows come
back with their index because no order of rows is relied on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.grouping import Block
from sfumato.engine.partition import in_threads
from sfumato.model.compiled import compiled
from sfumato.model.events import UserEncoding


@dataclass(frozen=True, slots=True)
class Dialect:
    """Templates with `{}` for the operands."""

    name: str
    divide: str
    """Integer division of non-negative integers, rounded down."""
    sha256_hex: str
    """SHA-256 of a text's UTF-8 bytes as 64 lower-case hex digits."""
    hex_to_integer: str
    """15 hex digits as a 64-bit integer."""
    binary_to_hex: str
    """Bytes as lower-case hex digits."""
    text: str
    """Decimal text of an integer."""


DUCKDB = Dialect(
    name="duckdb",
    divide="({} // {})",
    sha256_hex="sha256({})",
    hex_to_integer="CAST('0x' || {} AS BIGINT)",
    binary_to_hex="lower(hex({}))",
    text="CAST({} AS VARCHAR)",
)
SPARK = Dialect(
    name="spark",
    divide="({} div {})",
    sha256_hex="sha2({}, 256)",
    hex_to_integer="CAST(conv({}, 16, 10) AS BIGINT)",
    binary_to_hex="lower(hex({}))",
    text="CAST({} AS STRING)",
)


PRIME = (1 << 31) - 1
HALF = 1 << 30
STRIDE = 1_000_003


def canonical_text(user: int | str | bytes) -> str:
    """The text whose bytes decide a user's sample."""
    return user.hex() if isinstance(user, bytes) else str(user)


def seeds(key: bytes, user: int | str | bytes) -> tuple[int, int]:
    """The two 60-bit seeds of one user: the definition that the engines' SQL agrees with."""
    digest = hashlib.sha256(f"{key.hex()}:{canonical_text(user)}".encode()).hexdigest()
    return int(digest[:15], 16), int(digest[15:30], 16)


def order_value(seed: int, item: int, shift: int = 0) -> int:
    """Order of one item under one seed, in plain integers."""
    a, b = divmod(seed, HALF)
    y = pow((a + 1) * (item + 1) + b, 5, PRIME)
    z = pow((b + 1) * y + a + shift, 5, PRIME)
    return ((a + 1) * z + b) % PRIME


def canonical_sql(column: str, user: UserEncoding, dialect: Dialect) -> str:
    """Canonical text of the id in `column`."""
    if user is UserEncoding.INTEGER:
        return dialect.text.format(column)
    if user is UserEncoding.BINARY:
        return dialect.binary_to_hex.format(column)
    return column


def seeds_sql(
    key: bytes, user: UserEncoding, relation: str, keep: tuple[str, ...], dialect: Dialect
) -> str:
    """Select `keep` and the multipliers a1, b1, a2, b2 of user `u` from a relation."""
    kept = ", ".join(keep)
    text = canonical_sql("u", user, dialect)
    digest = dialect.sha256_hex.format(f"'{key.hex()}:' || {text}")
    first, second = (
        dialect.hex_to_integer.format(f"substr(digest, {start}, 15)") for start in (1, 16)
    )
    halves = ", ".join(
        f"{dialect.divide.format(seed, HALF)} AS a{step}, {seed} % {HALF} AS b{step}"
        for step, seed in ((1, "seed1"), (2, "seed2"))
    )
    return (
        f"SELECT {kept}, {halves} FROM ("
        f"SELECT {kept}, {first} AS seed1, {second} AS seed2 FROM ("
        f"SELECT {kept}, {digest} AS digest FROM {relation}) AS d) AS s"
    )


def order_sql(item: str, shift: str, step: int, relation: str, keep: tuple[str, ...]) -> str:
    """Select `keep` and `turn`, the order of `item` in this step, from a relation."""
    kept = ", ".join(dict.fromkeys((*keep, f"a{step}", f"b{step}")))
    a, b = f"a{step}", f"b{step}"

    def power(base: str, inner: str) -> str:
        """y = x^5 by two squarings and a product, each reduced before the next."""
        level = f"SELECT {kept}, {base} AS x1 FROM {inner}"
        level = f"SELECT {kept}, x1, (x1 * x1) % {PRIME} AS x2 FROM ({level}) AS o1"
        level = f"SELECT {kept}, x1, (x2 * x2) % {PRIME} AS x4 FROM ({level}) AS o2"
        return f"SELECT {kept}, (x4 * x1) % {PRIME} AS y FROM ({level}) AS o3"

    inner = power(f"(({a} + 1) * (CAST({item} AS BIGINT) + 1) + {b}) % {PRIME}", relation)
    outer = power(f"(({b} + 1) * y + {a} + {shift}) % {PRIME}", f"({inner}) AS o4")
    last = f"(({a} + 1) * y + {b}) % {PRIME} AS turn"
    return f"SELECT {', '.join(keep)}, {last} FROM ({outer}) AS o5"


Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""
Rows = tuple[Array, Array, Int]
"""Cells, offsets of the users, and the bits of a cell that are its place."""

HALF_BITS = 30
SLOT_BITS = 21


@compiled
def _reduce(x: Int) -> Int:
    """x mod p for 0 <= x < 2^62 by shifts: 2^31 = 1 (mod p)."""
    x = (x & PRIME) + (x >> 31)
    x = (x & PRIME) + (x >> 31)
    return x - PRIME if x >= PRIME else x


@compiled
def _fifth(x: Int) -> Int:
    square = _reduce(x * x)
    return _reduce(_reduce(square * square) * x)


@compiled
def compiled_order_value(seed: Int, item: Int, shift: Int) -> Int:
    """Order of an item: see `sfumato.engine.sampling`."""
    a = seed >> HALF_BITS
    b = seed & ((1 << HALF_BITS) - 1)
    y = _fifth(_reduce((a + 1) * (item + 1) + b))
    z = _fifth(_reduce((b + 1) * y + a + shift))
    return _reduce((a + 1) * z + b)


@compiled
def needs_order(rows: Rows, low: Int, high: Int, limit: Int, needed: Array) -> None:
    """Mark users with several places in a slot or more than `limit` slots."""
    cells, offsets, bits = rows
    for user in range(low, high):
        slots = 0
        previous = np.int64(-1)
        several = False
        for i in range(offsets[user], offsets[user + 1]):
            slot = np.int64(cells[i]) >> bits
            if slot == previous:
                several = True
            else:
                slots += 1
                previous = slot
        needed[user] = several or slots > limit


@compiled
def sampled(
    rows: Rows,
    low: Int,
    high: Int,
    limit: Int,
    seed_at: Array,
    seeds: Array,
    stride: Int,
    out: Array,
) -> Int:
    """One visit a slot, at most `limit` slots a user. Others than `needs_order` count whole."""
    cells, offsets, bits = rows
    mask = (np.int64(1) << bits) - 1
    slots_out = out.shape[1]
    chosen = np.empty(slots_out, np.int64)
    ranked = np.empty(slots_out, np.int64)
    above = 0
    for user in range(low, high):
        begin, end = offsets[user], offsets[user + 1]
        at = seed_at[user]
        if at < 0:
            previous = np.int64(-1)
            if end - begin > limit:
                above += 1
                continue
            for i in range(begin, end):
                slot = np.int64(cells[i]) >> bits
                if slot == previous:
                    above += 1
                    break
                out[np.int64(cells[i]) & mask, slot] += 1
                previous = slot
            continue
        first, second = seeds[at, 0], seeds[at, 1]
        count = 0
        i = begin
        while i < end:
            slot = np.int64(cells[i]) >> bits
            best = np.int64(cells[i]) & mask
            j = i + 1
            if j < end and np.int64(cells[j]) >> bits == slot:
                shift = stride * (slot + 1)
                lowest = compiled_order_value(first, best, shift)
                while j < end and np.int64(cells[j]) >> bits == slot:
                    place = np.int64(cells[j]) & mask
                    turn = compiled_order_value(first, place, shift)
                    if turn < lowest:  # equal turns: the lower place, met first, stays
                        best, lowest = place, turn
                    j += 1
            chosen[slot] = best
            # Turn and slot in one integer: 31 + 21 bits, so equal turns fall to the slot.
            ranked[count] = slot
            count += 1
            i = j
        if count > limit:
            for n in range(count):
                ranked[n] |= compiled_order_value(second, ranked[n], 0) << SLOT_BITS
            ranked[:count].sort()
        for n in range(min(count, limit)):
            slot = ranked[n] & ((1 << SLOT_BITS) - 1)
            if chosen[slot] < 0:  # a slot met twice: the user's cells were not sorted
                above += 1
                break
            out[chosen[slot], slot] += 1
            chosen[slot] = -1
    return above


_BATCH = 1 << 20


def _hashed(
    connection: duckdb.DuckDBPyConnection,
    block: Block,
    user: UserEncoding,
    users: NDArray[np.int64],
    key: bytes,
) -> NDArray[np.int64]:
    """The two seeds of each user, one row a user."""
    seeds = np.zeros((users.size, 2), np.int64)
    for start in range(0, users.size, _BATCH):
        some = users[start : start + _BATCH]
        index = np.arange(start, start + some.size, dtype=np.int64)
        connection.register("needed", pa.table({"i": index, "u": block.ids(some)}))
        sql = seeds_sql(key, user, "needed", ("i",), DUCKDB)
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
    user: UserEncoding,
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
        lambda low, high: needs_order(rows, low, high, limit, needed),
        block.users,
        threads,
    )
    users = np.flatnonzero(needed)
    seed_at = np.full(block.users, -1, np.int32)
    seed_at[users] = np.arange(users.size, dtype=np.int32)
    return seed_at, _hashed(connection, block, user, users, key)
