"""Where the rows are kept: a SQLite file by default, PostgreSQL for teams.

Every change runs alone: SQLite takes its write lock before the first read (`BEGIN
IMMEDIATE`), PostgreSQL an advisory lock, so what the filter saw is what the new row
follows. A change that returned is on the disk (`synchronous=FULL`, `synchronous_commit`).
Connections are opened for one transaction and closed after it; nothing outlives a fork.

There is one table of rows that only grows, and one of facts about the ledger itself. Triggers keep
rows from being changed by accident: they stop slips, not attackers; the chain is what shows an
attack.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sfumato.errors import LedgerError, UsageError
from sfumato.model.extras import optional

metadata = MetaData()

about = Table(
    "sfumato_ledger",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

entries = Table(
    "sfumato_entries",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("time", String(32), nullable=False),
    Column("payload", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)

_SQLITE_GUARD = """
CREATE TRIGGER sfumato_no_{action} BEFORE {action} ON sfumato_entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
"""

_POSTGRES_GUARD = (
    """
CREATE FUNCTION sfumato_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$
""",
    """
CREATE TRIGGER sfumato_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sfumato_entries
FOR EACH STATEMENT EXECUTE FUNCTION sfumato_append_only()
""",
)


def present(connection: Connection) -> bool:
    """Whether the tables are there; a view of that name, which may have no end, is none."""
    return entries.name in inspect(connection).get_table_names()


def create(connection: Connection) -> None:
    """Make the tables and their guards, inside the caller's transaction."""
    metadata.create_all(connection)
    if connection.dialect.name == "sqlite":
        statements = tuple(_SQLITE_GUARD.format(action=a) for a in ("UPDATE", "DELETE"))
    else:
        statements = _POSTGRES_GUARD
    for statement in statements:
        connection.execute(text(statement))


WAIT_SECONDS = 120
"""How long a change waits for another process before it gives up."""
_ADVISORY_LOCK = 0x5F0A70
"""Any number that no other program takes in the same database."""


def data_folder() -> Path:
    """Where this user's ledger and keys live unless said otherwise."""
    return Path(platformdirs.user_data_path("sfumato"))


def default_location() -> str:
    return str(data_folder() / "ledger.sqlite")


class Database:
    """A SQLite file or a PostgreSQL database, opened for one transaction at a time."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.url = _parse(os.fspath(location))
        self._engine = _engine(self.url)

    @property
    def file(self) -> Path | None:
        """The SQLite file, `None` for a server."""
        if self.url.get_backend_name() != "sqlite":
            return None
        return Path((self.url.database or "").removeprefix("file:"))

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)

    def prepare(self) -> None:
        """Make the file, readable by its owner alone, in a folder that is too."""
        if self.file is None:
            return
        try:
            missing = [p for p in (self.file.parent, *self.file.parent.parents) if not p.exists()]
            for folder in reversed(missing):
                folder.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise _explain(self, error) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look."""
        with self._connection(write=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One change, alone, on the disk when this returns; rolled back if anything raises."""
        with self._connection(write=True) as connection:
            yield connection

    def require(self) -> None:
        """Say so plainly where there is no file at all."""
        if self.file is not None and not self.file.is_file():
            raise LedgerError(
                f"There is no ledger at {self.file}.",
                remedy="Make one with sfumato ledger init, or with `Ledger.initialise`; or name "
                "the right one with `ledger`.",
            )

    @contextmanager
    def _connection(self, *, write: bool) -> Iterator[Connection]:
        self.require()
        try:
            with (
                self._engine.connect().execution_options(sfumato_write=write) as connection,
                connection.begin(),
            ):
                yield connection
        except SQLAlchemyError as error:
            raise _explain(self, error) from error


_CONNECTION_STRING = re.compile(
    r"(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=", re.IGNORECASE
)
"""libpq's other form, `host=… password=…`: as a file's name it would stand in every message."""


def _parse(location: str) -> URL:
    if "://" not in location and location and not _CONNECTION_STRING.search(location):
        try:
            location.encode()
            path = Path(location).expanduser().absolute()
            path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long, no text, nobody's home
            raise UsageError("The ledger's name is not that of a file.") from None
        return URL.create("sqlite+pysqlite", database=str(path))
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):  # a port that is no number
        url = URL.create("unknown")
    if url.get_backend_name() in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        return url.set(drivername="sqlite+pysqlite")
    raise UsageError(
        "The ledger's address is neither a file nor a PostgreSQL database.",
        remedy="Write `ledger='path/to/ledger.sqlite'` or `ledger='postgresql://user@host/name'`.",
    )


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        optional("psycopg", "A ledger in PostgreSQL")
        engine = create_engine(
            url,
            poolclass=NullPool,
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": 15, "application_name": "sfumato"},
        )
        event.listen(engine, "begin", _begin_postgres)
        return engine
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": WAIT_SECONDS})
    event.listen(engine, "connect", _connect_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _connect_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("sfumato_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _begin_postgres(connection: Connection) -> None:
    if connection.get_execution_options().get("sfumato_write", False):
        connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout TO '{WAIT_SECONDS}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


_REASONS = (
    (("disk is full", "no space left", "file too large"), "the disk is full", "Make room"),
    (
        ("readonly", "read-only", "permission denied"),
        "it cannot be written: it is read-only",
        "Ask for write permission, or copy nothing: a copied ledger forgets what the other spends",
    ),
    (
        ("is locked", "lock timeout", "lock_timeout"),
        f"another process held it for more than {WAIT_SECONDS} seconds",
        "Wait for that process to finish",
    ),
    (("disk i/o error",), "the disk reported an error", "Check the disk and the space left on it"),
    (
        ("unable to open",),
        "it cannot be opened",
        "Check that its folder exists and that you may write there",
    ),
    (
        ("not a database", "malformed"),
        "the file is damaged or no ledger at all",
        "Restore it from the newest copy and run sfumato ledger verify",
    ),
    (
        ("connection failed", "connection refused", "connection is bad", "closed the connection"),
        "the server does not answer",
        "Check that it runs and that the address is right",
    ),
    (("append-only",), "rows cannot be changed", "Nothing takes back what was charged"),
)


def _explain(database: Database, error: Exception) -> LedgerError:
    """The error in words. The driver's own text may hold a payload, so it is not shown."""
    raw = str(error.orig if isinstance(error, DBAPIError) else error).lower()
    unknown = ((), f"the database said {type(error).__name__}", "Look into the database's own log")
    known = (r for r in _REASONS if any(needle in raw for needle in r[0]))
    _, reason, remedy = next(known, unknown)
    return LedgerError(
        f"The ledger {database} could not be used: {reason}. Nothing was changed by this step.",
        remedy=f"{remedy}, then run the same command again: what was paid is not paid twice.",
    )
