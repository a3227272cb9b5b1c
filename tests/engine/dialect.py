"""The sampling order as SQL, and the few places where DuckDB and Spark spell the same differently.

Every expression is exact: integers below 2^63, or one correctly rounded IEEE operation.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.engine.sampling import HALF, PRIME
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
