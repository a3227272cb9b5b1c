"""The tables, and the triggers that keep rows from being changed by accident.

One table of rows that only grows, and one of facts about the ledger itself. The triggers
stop slips, not attackers; the chain is what shows an attack.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    text,
)

SCHEMA_VERSION = 2

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
    """Whether the tables are there."""
    return inspect(connection).has_table(entries.name)


def create(connection: Connection) -> None:
    """Make the tables and their guards, inside the caller's transaction."""
    metadata.create_all(connection)
    if connection.dialect.name == "sqlite":
        statements = tuple(_SQLITE_GUARD.format(action=a) for a in ("UPDATE", "DELETE"))
    else:
        statements = _POSTGRES_GUARD
    for statement in statements:
        connection.execute(text(statement))
