"""Columns of a PostgreSQL table: their types, their encodings, and the transaction that reads them.

A column is asked for as it is stored, or by an expression that no value can make fail: one row must
not stop the others, so nothing is converted on the server that has values without a result. What a
value means is judged on our side, by `sfumato.io.rows`, as for files.

========================  =========================================================================
text, enumerations, UUID  their text; in a database that is not UTF-8, its bytes as they are stored
                          (see below). Above a megabyte: nothing
`bytea`                   as it is; above a megabyte: nothing
`numeric`, up to 18       64-bit integers; `NaN`: nothing
digits, no fraction
other `numeric`           its text: a double would overflow; as a time, to nine decimals
timestamps                as they are; infinite ones, and those that Arrow cannot count in
                          microseconds, as an instant outside every period
numbers                   as they are
========================  =========================================================================

Domains are what they stand on. Other types keep the server's name, which no rule knows.

**Texts of a database that is not UTF-8.** A server that converts to UTF-8 stops at the first value
that has no letters there (byte 81 in Windows-1252, any odd byte in SQL_ASCII), and with it
everybody's rows. So texts of such databases travel as the bytes that are stored, and each is
converted here by itself; one that cannot be is missing. SQL_ASCII says nothing about its bytes:
they are taken for UTF-8, which `sfumato.io.rows` judges. From a UTF-8 database texts come as they
are and are judged there too.

**The transaction** is read-only and repeatable-read, and gives Arrow batches. The driver is ADBC's
for PostgreSQL: it wraps libpq, asks by `COPY … (FORMAT binary)` and hands over Arrow batches, so no
value becomes a Python object. All tables of an address are read in one transaction and so at one
moment; nothing is written on the server, not even a temporary table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.errors import InputError
from sfumato.io.columns import NUMBER_TEXT
from sfumato.io.postgres.connect import Address, Table, guarded, no_such_table
from sfumato.io.rows import LONGEST_VALUE
from sfumato.io.tables import Column, literal, quoted
from sfumato.model.extras import optional

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
        return ServerColumn(name, NUMBER_TEXT, f"{asked}::text")
    return ServerColumn(name, _TYPES.get(type, type), asked)


def _short(text: str) -> str:
    """Nothing instead of a value that is too long to be read; the server need not unpack it."""
    return f"CASE WHEN octet_length({text}) <= {LONGEST_VALUE} THEN {text} END"


SQL_ASCII = "SQL_ASCII"
_CODECS = {
    **{
        f"LATIN{n}": f"iso8859-{part}"
        for n, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)
    },
    **{f"ISO_8859_{n}": f"iso8859-{n}" for n in (5, 6, 7, 8)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, *range(1250, 1259))},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "EUC_CN": "gb2312",
    "EUC_JIS_2004": "euc_jis_2004",
}


def check_encoding(encoding: str, label: str) -> None:
    """Refuse a database whose texts we cannot convert."""
    if encoding not in (UTF8, SQL_ASCII) and encoding not in _CODECS:
        raise InputError(
            f"the database is in the encoding {encoding}, which is not read.",
            file=label,
            remedy="Read a copy of it in UTF8.",
        )


def as_utf8(column: Any, encoding: str) -> Any:
    """The bytes of texts in UTF-8; a value that is no text of the encoding is missing."""
    if encoding in (UTF8, SQL_ASCII):
        return column
    coded = column.dictionary_encode()
    texts = [_converted(value, _CODECS[encoding]) for value in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.binary()).take(coded.indices)


def _converted(value: bytes, codec: str) -> bytes | None:
    try:
        return value.decode(codec).encode()
    except UnicodeError:
        return None


_BATCH_BYTES = 8 << 20
_BATCH_OPTION = "adbc.postgresql.batch_size_hint_bytes"
_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    # LOCAL: behind a pool of connections the next user must not find our settings.
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL TimeZone = 'UTC'",
    # libpq prints notices on standard error, and a function may put a record into one.
    "SET LOCAL client_min_messages = error",
)


class Session:
    """An open transaction. Every failure leaves as an `InputError` that names the table alone."""

    def __init__(self, connection: Any, label: str) -> None:
        self._connection = connection
        self._label = label
        self._encoding: str | None = None

    def columns(self, table: Table) -> list[ServerColumn]:
        """The columns of a table or view, in its own order."""
        rows = self.rows(columns_sql(table), table.label)
        check_encoding(self.encoding, table.label)
        columns = [
            server_column(row["name"], row["type"], row["kind"], row["modifier"], self.encoding)
            for row in rows
        ]
        if not columns:
            raise no_such_table(table.label)
        return columns

    @property
    def encoding(self) -> str:
        """What the database's texts are written in."""
        if self._encoding is None:
            (row,) = self.rows("SELECT pg_catalog.getdatabaseencoding()::text AS name")
            self._encoding = str(row["name"])
        return self._encoding

    def rows(self, sql: str, label: str | None = None) -> list[dict[str, Any]]:
        """A small answer whole."""
        return [row for batch in self.batches(sql, label) for row in batch.to_pylist()]

    def batches(self, sql: str, label: str | None = None) -> Iterator[Any]:
        """The answer as Arrow batches of bounded size; the first one is never missing.

        An answer without rows is one empty batch, so that its schema is known.
        """
        name = label or self._label
        cursor = guarded(name, self._connection.cursor)
        try:
            reader = guarded(name, lambda: _ask(cursor, sql))
            batch = guarded(name, lambda: _next(reader))
            yield pa.RecordBatch.from_pylist([], reader.schema) if batch is None else batch
            while batch is not None:
                batch = guarded(name, lambda: _next(reader))
                if batch is not None:
                    yield batch
        finally:
            _quietly(cursor)


@contextmanager
def open_session(address: Address) -> Iterator[Session]:
    """Connect and begin; whatever happens, the transaction is left without a trace."""
    driver = _driver()
    label = address.label
    connection = guarded(
        label, lambda: driver.connect(address.connection, autocommit=True), connecting=True
    )
    try:
        guarded(label, lambda: _run(connection, *_BEGIN))
        yield Session(connection, label)
        guarded(label, lambda: _run(connection, "COMMIT"))
    finally:
        _quietly(connection)


def _driver() -> Any:
    return optional("adbc_driver_postgresql.dbapi", "Reading from PostgreSQL")


def _run(connection: Any, *commands: str) -> None:
    with connection.cursor() as cursor:
        for command in commands:
            cursor.execute(command)


def _ask(cursor: Any, sql: str) -> Any:
    cursor.adbc_statement.set_options(**{_BATCH_OPTION: str(_BATCH_BYTES)})
    cursor.execute(sql)
    return cursor.fetch_record_batch()


def _next(reader: Any) -> Any:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _quietly(thing: Any) -> None:
    """Close; a connection that is gone already has nothing left to say."""
    try:
        thing.close()
    except Exception:
        return
