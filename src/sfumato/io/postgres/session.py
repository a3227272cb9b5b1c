"""A read-only, repeatable-read transaction, and Arrow batches out of it.

The driver is ADBC's for PostgreSQL: it wraps libpq, asks by `COPY … (FORMAT binary)` and hands
over Arrow batches, so no value becomes a Python object. All tables of an address are read in one
transaction and so at one moment; nothing is written on the server, not even a temporary table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from sfumato.io.postgres.address import Address, Table
from sfumato.io.postgres.columns import ServerColumn, columns_sql, server_column
from sfumato.io.postgres.encodings import check_encoding
from sfumato.io.postgres.failures import guarded, no_such_table
from sfumato.model.errors import UsageError

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
        found = [
            server_column(row["name"], row["type"], row["kind"], row["modifier"], self.encoding)
            for row in rows
        ]
        if not found:
            raise no_such_table(table.label)
        return found

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
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        driver = None
    if driver is None:
        raise UsageError(
            "Reading from PostgreSQL needs its driver.",
            remedy="Install it with pip install 'sfumato[postgres]'.",
        )
    return driver


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
