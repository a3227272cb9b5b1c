"""The few places where engines spell the same thing differently.

The definition (`sfumato.engine.definition`) is one SQL text; what differs between DuckDB and
Spark stands here and nowhere else. Every expression is exact: integers below 2^63, or one
correctly rounded IEEE operation.
"""

from __future__ import annotations

from dataclasses import dataclass


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
