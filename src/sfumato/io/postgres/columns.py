"""The server's types as the reader knows them, and how a column is asked for.

A column is asked for in the type that a Parquet file of the same table would have: text for
everything that is text (also UUID and enumerations), whole numbers for `numeric(p, 0)` that fits
64 bits, double for other `numeric` coordinates. Domains are what they stand on.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.io.postgres.address import Table, quoted
from sfumato.io.schema import Column, literal

_TYPES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bytea": "BLOB",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "timestamp": "TIMESTAMP",
    "date": "DATE",
}
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "citext", "uuid"})
_DIGITS = 18


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """A column: its name, its type in the reader's words, and the expression that gives it."""

    name: str
    type: str
    expression: str

    @property
    def column(self) -> Column:
        return Column(self.name, self.type)

    @property
    def select(self) -> str:
        return f"{self.expression} AS {quoted(self.name)}"


def columns_sql(table: Table) -> str:
    """Asks for name, type, kind of type and type modifier of every column; nothing if no table."""
    return f"""
        WITH RECURSIVE known(place, name, kind, modifier) AS (
            SELECT attnum, attname::text, atttypid, atttypmod FROM pg_catalog.pg_attribute
            WHERE attrelid = to_regclass({literal(table.sql)})
              AND attnum > 0 AND NOT attisdropped
            UNION ALL
            SELECT place, name, typbasetype, CASE WHEN typtypmod >= 0 THEN typtypmod
                                                  ELSE modifier END
            FROM known JOIN pg_catalog.pg_type ON oid = kind WHERE typtype = 'd'
        )
        SELECT name, typname::text AS type, typtype::text AS kind, modifier
        FROM known JOIN pg_catalog.pg_type ON oid = kind WHERE typtype <> 'd' ORDER BY place
    """


def server_column(name: str, type: str, kind: str, modifier: int) -> ServerColumn:
    """What `columns_sql` says about a column, in the reader's words."""
    asked = quoted(name)
    if type in _TEXTS or kind == "e":
        return ServerColumn(name, "VARCHAR", f"{asked}::text")
    if type == "numeric":
        digits, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
        if modifier >= 4 and scale == 0 and digits <= _DIGITS:
            return ServerColumn(name, "BIGINT", f"{asked}::bigint")
        return ServerColumn(name, "DECIMAL", f"{asked}::double precision")
    return ServerColumn(name, _TYPES.get(type, type.upper()), asked)
