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

No library draws a sample per user that is the same on every engine: their hashes and random numbers
differ between versions and engines, and follow rows or codes instead of the id.

The order is pseudo-random, not cryptographic: what is secret and unpredictable is the seed.
Privacy does not rest on it (the bound holds for every sample), unbiasedness does, and is
tested for several keys, single slots, pairs of slots and the two steps together.

It is written three times: in Python, compiled, and as SQL where the tests define a bounded count
(`tests/engine/reference.py`). The compiled pass `sampled` takes users low..high of a block
(offsets, sorted distinct cells), slots of a user being runs of equal `cell >> bits`; it checks the
bound on what it counted and returns the number of users above it, which the caller turns into an
error.

Seeds are made for the users whose sample depends on an order, and for no one else. A user with one
place in every slot and at most l slots is kept whole whatever the key, so most users of an ordinary
week are never hashed. Two million ids that all need an order take 1.0 to 1.6 CPU-seconds.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.grouping import Block
from sfumato.engine.partition import in_threads
from sfumato.io.rows import as_bytes, hex_digits
from sfumato.model.compiled import compiled, inlined
from sfumato.model.events import UserEncoding

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


Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""
Rows = tuple[Array, Array, Int]
"""Cells, offsets of the users, and the bits of a cell that are its place."""

HALF_BITS = 30
SLOT_BITS = 21
STEPS = 64
STEP_BITS = SLOT_BITS + 31 - 6
"""A turn has 31 bits: the highest six say its step."""


@inlined
def _folded(x: Int) -> Int:
    """What is x modulo p, and at most p + 2, for 0 <= x < 2^63: 2^31 is 1, so bits are added.

    Its square is below 2^63 again, so only the last of several products need be below p.
    """
    x = (x & PRIME) + (x >> 31)
    return (x & PRIME) + (x >> 31)


@inlined
def _fifth(x: Int) -> Int:
    square = _folded(x * x)
    return _folded(_folded(square * square) * x)


@compiled
def compiled_order_value(seed: Int, item: Int, shift: Int) -> Int:
    """Order of an item: see `sfumato.engine.sampling`. Without a branch, so for several at once."""
    a = seed >> HALF_BITS
    b = seed & ((1 << HALF_BITS) - 1)
    y = _fifth(_folded((a + 1) * (item + 1) + b))
    z = _fifth(_folded((b + 1) * y + a + shift))
    x = _folded((a + 1) * z + b)
    return x - (PRIME & ((PRIME - 1 - x) >> 63))


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
def first_of(ranked: Array, count: Int, limit: Int, steps: Array, close: Array) -> None:
    """The `limit` smallest of `count` come first, in any order.

    Turns are as good as random, so that few share their highest bits: all below the step in which
    the limit falls are kept, and only those within it are sorted.
    """
    steps[:] = 0
    for n in range(np.uintp(count)):
        steps[np.uintp(ranked[n] >> STEP_BITS)] += 1
    step, below = np.int64(0), np.int64(0)
    while below + steps[np.uintp(step)] <= limit:
        below += steps[np.uintp(step)]
        step += 1
    kept, within = np.uintp(0), np.uintp(0)
    for n in range(np.uintp(count)):
        value = ranked[n]
        here = value >> STEP_BITS
        ranked[kept] = value
        close[within] = value
        kept += np.uintp(here < step)
        within += np.uintp(here == step)
    if within > np.uintp(STEPS):  # thousands of slots
        close[: np.int64(within)].sort()
    for n in range(np.uintp(1), within):
        value, at = close[n], np.uintp(n)
        while at > 0 and close[at - np.uintp(1)] > value:
            close[at] = close[at - np.uintp(1)]
            at -= np.uintp(1)
        close[at] = value
    for n in range(np.uintp(limit) - kept):
        ranked[kept + n] = close[n]


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
    close = np.empty(slots_out, np.int64)
    steps = np.empty(STEPS, np.int64)
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
            for n in range(np.uintp(count)):
                ranked[n] |= compiled_order_value(second, ranked[n], 0) << SLOT_BITS
            first_of(ranked, count, limit, steps, close)
        for n in range(min(count, limit)):
            slot = ranked[n] & ((1 << SLOT_BITS) - 1)
            if chosen[slot] < 0:  # a slot met twice: the user's cells were not sorted
                above += 1
                break
            out[chosen[slot], slot] += 1
            chosen[slot] = -1
    return above


def seeds_of_ids(ids: Any, user: UserEncoding, key: bytes) -> NDArray[np.int64]:
    """The two seeds of each id of an Arrow array."""
    texts = ids
    if user is UserEncoding.INTEGER:
        texts = ids.cast(pa.string())
    elif user is UserEncoding.BINARY:
        texts = hex_digits(ids)
    key_text = f"{key.hex()}:".encode()
    values = as_bytes(texts).to_numpy(zero_copy_only=False)
    digests = b"".join([hashlib.sha256(key_text + value).digest() for value in values])
    words = np.frombuffer(digests, ">u8").reshape(-1, 4).astype(np.uint64)
    first, second = words[:, 0], words[:, 1]
    low = ((first & np.uint64(15)) << np.uint64(56)) | (second >> np.uint64(8))
    return np.stack([first >> np.uint64(4), low], axis=1).astype(np.int64)


def seeds_of(
    block: Block, user: UserEncoding, key: bytes, *, bits: int, limit: int, threads: int
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
    return seed_at, seeds_of_ids(block.ids(users), user, key)
