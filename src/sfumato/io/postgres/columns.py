"""The server's types as the reader knows them, and how a column is asked for.

A column is asked for as it is stored, or by an expression that no value can make fail: one row must
not stop the others, so nothing is converted on the server that has values without a result. What a
value means is judged here, by `sfumato.io.rows`, as for files.

========================  =========================================================================
text, enumerations, UUID  their text; in a database that is not UTF-8, its bytes as they are stored
                          (`sfumato.io.postgres.encodings`). Above a megabyte: nothing
`bytea`                   as it is; above a megabyte: nothing
`numeric`, up to 18       64-bit integers; `NaN`: nothing
digits, no fraction
other `numeric`           its text: a double would overflow
timestamps                as they are; infinite ones, and those that Arrow cannot count in
                          microseconds, as an instant outside every period
numbers                   as they are
========================  =========================================================================

Domains are what they stand on. Other types keep the server's name, which no rule knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.io.postgres.address import Table, quoted
from sfumato.io.rows import LONGEST_VALUE
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
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "citext", "json"})
_DIGITS = 18
_FIRST, _LAST = "4000-01-01 00:00:00 BC", "290000-01-01 00:00:00"
"""Before and after every period that has a date; Arrow's microseconds reach that far."""
UTF8 = "UTF8"


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """A column: its name, its type in the reader's words, and the expression that gives it.

    `encoded`: the expression gives the bytes of a text in the database's encoding.
    """

    name: str
    type: str
    expression: str
    encoded: bool = False

    @property
    def column(self) -> Column:
        return Column(self.name, self.type)


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


def server_column(
    name: str, type: str, kind: str, modifier: int, encoding: str = UTF8
) -> ServerColumn:
    """What `columns_sql` says about a column, in the reader's words."""
    asked = quoted(name)
    if type in _TEXTS or kind == "e":
        if encoding == UTF8:
            return ServerColumn(name, "VARCHAR", _short(f"{asked}::text"))
        # To its own encoding, so that nothing is converted and nothing can be refused.
        raw = f"pg_catalog.convert_to({_short(f'{asked}::text')}, {literal(encoding)})"
        return ServerColumn(name, "VARCHAR", raw, encoded=True)
    if type == "uuid":
        return ServerColumn(name, "VARCHAR", f"{asked}::text")
    if type == "bytea":
        return ServerColumn(name, "BLOB", _short(asked))
    if type in ("timestamptz", "timestamp"):
        first, last = (f"{type} {literal(edge)}" for edge in (_FIRST, _LAST))
        return ServerColumn(
            name,
            _TYPES[type],
            f"CASE WHEN {asked} < {first} THEN {first} WHEN {asked} > {last} THEN {last} "
            f"ELSE {asked} END",
        )
    if type == "numeric":
        digits, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
        if modifier >= 4 and scale == 0 and digits <= _DIGITS:
            # The server puts NaN above all numbers.
            whole = f"CASE WHEN abs({asked}) < 1e{_DIGITS} THEN {asked}::bigint END"
            return ServerColumn(name, "BIGINT", whole)
        return ServerColumn(name, "DECIMAL", f"{asked}::text")
    return ServerColumn(name, _TYPES.get(type, type), asked)


def _short(text: str) -> str:
    """Nothing instead of a value that is too long to be read; the server need not unpack it."""
    return f"CASE WHEN octet_length({text}) <= {LONGEST_VALUE} THEN {text} END"
