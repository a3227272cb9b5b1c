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

It is written three times: in Python, compiled, and as SQL where the tests define a bounded count
(`tests/engine/reference.py`). The compiled pass `sampled` takes users low..high of a block
(offsets, sorted distinct cells), slots of a user being runs of equal `cell >> bits`; it checks the
bound on what it counted and returns the number of users above it, which the caller turns into an
error.

Seeds are made for the users whose sample depends on an order, and for no one else. A user with one
place in every slot and at most l slots is kept whole whatever the key, so most users of an ordinary
week are never hashed. The others' are hashed here, compiled (FIPS 180-4): what stands before every
text is taken in once, which is the first of two blocks for most ids.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.grouping import Block
from sfumato.engine.partition import in_threads
from sfumato.io.rows import hex_digits
from sfumato.io.values import bytes_of
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


def _roots(count: int, power: int) -> NDArray[np.uint32]:
    """First 32 bits behind the point of the roots of the first primes: SHA-256's constants."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, int(n**0.5) + 1))]
    found = []
    for prime in primes[:count]:
        whole, root = prime << (32 * power), 0
        for bit in reversed(range(36)):
            if (root | 1 << bit) ** power <= whole:
                root |= 1 << bit
        found.append(root & 0xFFFFFFFF)
    return np.array(found, np.uint32)


_FIRST, _ROUNDS = _roots(8, 2), _roots(64, 3)
"""The state at the beginning, and a number for each round."""


@inlined
def _right(x: Int, by: Int) -> Int:
    return np.uint32((x >> np.uint32(by)) | (x << np.uint32(32 - by)))


@compiled
def compress(state: Array, block: Array, rounds: Array, words: Array) -> None:
    """Take 64 bytes into a state of SHA-256; `words` is room for 64."""
    for t in range(16):
        word = np.uint32(0)
        for k in range(4):
            word = np.uint32((word << np.uint32(8)) | block[4 * t + k])
        words[t] = word
    for t in range(16, 64):
        x, y = words[t - 15], words[t - 2]
        x = _right(x, 7) ^ _right(x, 18) ^ (x >> np.uint32(3))
        y = _right(y, 17) ^ _right(y, 19) ^ (y >> np.uint32(10))
        words[t] = np.uint32(words[t - 16] + x + words[t - 7] + y)
    a, b, c, d = state[0], state[1], state[2], state[3]
    e, f, g, h = state[4], state[5], state[6], state[7]
    for t in range(64):
        turned = _right(e, 6) ^ _right(e, 11) ^ _right(e, 25)
        one = np.uint32(h + turned + ((e & f) ^ (~e & g)) + rounds[t] + words[t])
        turned = _right(a, 2) ^ _right(a, 13) ^ _right(a, 22)
        two = np.uint32(turned + ((a & b) ^ (a & c) ^ (b & c)))
        h, g, f, e = g, f, e, np.uint32(d + one)
        d, c, b, a = c, b, a, np.uint32(one + two)
    for k, value in enumerate((a, b, c, d, e, f, g, h)):
        state[k] = np.uint32(state[k] + value)


@compiled
def hash_seeds(
    prefix: Array, offsets: Array, data: Array, first: Array, rounds: Array, out: Array
) -> None:
    """The two seeds of each text: the first 30 hex digits of SHA-256 of `prefix` and the text."""
    begin = first.copy()
    block = np.zeros(64, np.uint8)
    words = np.empty(64, np.uint32)
    whole = prefix.size // 64 * 64
    for at in range(0, whole, 64):
        compress(begin, prefix[at : at + 64], rounds, words)
    rest = prefix.size - whole
    state = np.empty(8, np.uint32)
    for i in range(offsets.size - 1):
        state[:] = begin
        held = rest
        block[:rest] = prefix[whole:]
        for at in range(offsets[i], offsets[i + 1]):
            block[held] = data[at]
            held += 1
            if held == 64:
                compress(state, block, rounds, words)
                held = 0
        block[held] = 0x80
        block[held + 1 :] = 0
        if held >= 56:
            compress(state, block, rounds, words)
            block[:] = 0
        bits = np.uint64(8) * np.uint64(prefix.size + offsets[i + 1] - offsets[i])
        for k in range(8):
            block[63 - k] = np.uint8(bits >> np.uint64(8 * k))
        compress(state, block, rounds, words)
        high = (np.int64(state[0]) << 32) | np.int64(state[1])
        low = (np.int64(state[2]) << 32) | np.int64(state[3])
        out[i, 0] = (high >> 4) & ((1 << 60) - 1)
        out[i, 1] = ((high & 15) << 56) | ((low >> 8) & ((1 << 56) - 1))


def seeds_of_ids(ids: Any, user: UserEncoding, key: bytes) -> NDArray[np.int64]:
    """The two seeds of each id of an Arrow array."""
    texts = ids
    if user is UserEncoding.INTEGER:
        texts = ids.cast(pa.string())
    elif user is UserEncoding.BINARY:
        texts = hex_digits(ids)
    offsets, data = bytes_of(texts)
    seeds = np.empty((len(ids), 2), np.int64)
    prefix = np.frombuffer(f"{key.hex()}:".encode(), np.uint8)
    hash_seeds(prefix, offsets, data, _FIRST, _ROUNDS, seeds)
    return seeds


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
