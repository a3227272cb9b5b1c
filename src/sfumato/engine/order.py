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
"""

from __future__ import annotations

import hashlib

from sfumato.engine.dialect import Dialect
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
