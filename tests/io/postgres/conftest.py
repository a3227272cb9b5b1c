"""A bureau's database: a real server, a clerk with a password who may read, and loud secrets."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

PASSWORD = "Pa55-of-the-clerk"
CLERK = "clerk_of_bureau"


@dataclass(frozen=True)
class Bureau:
    """A database, as its owner (`run`, `load`) and as the clerk (`address`) sees it."""

    owner: str
    host: str
    name: str

    def run(self, *commands: str) -> None:
        with psycopg.connect(self.owner, autocommit=True) as connection:
            for command in commands:
                connection.execute(command)  # type: ignore[call-overload]

    def ask(self, query: str) -> list[Any]:
        with psycopg.connect(self.owner) as connection:
            return list(connection.execute(query).fetchall())  # type: ignore[call-overload]

    def load(self, table: pa.Table, schema: str, name: str) -> None:
        """Make a table of an Arrow table."""
        import adbc_driver_postgresql.dbapi as adbc

        with adbc.connect(self.owner, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="replace", db_schema_name=schema)

    def address(self, table: str, password: str = PASSWORD, name: str | None = None) -> str:
        user = f"{CLERK}:{password}"
        return f"postgresql://{user}@/{name or self.name}/{table}?host={self.host}"

    def secrets(self) -> tuple[str, ...]:
        """What must never be seen anywhere."""
        return PASSWORD, CLERK, self.host, self.name


@pytest.fixture(scope="session")
def _bureau(postgres_server: str) -> Bureau:
    """One database for all these tests, with a clerk whose password is asked for."""
    root = f"postgresql://postgres@/postgres?host={postgres_server}"
    with psycopg.connect(root, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bureau_of_calls")
        connection.execute(f"CREATE ROLE {CLERK} LOGIN PASSWORD '{PASSWORD}'")
        rules = Path(postgres_server) / "data" / "pg_hba.conf"
        rules.write_text(f"local all {CLERK} scram-sha-256\n" + rules.read_text())
        connection.execute("SELECT pg_reload_conf()")
    owner = root.replace("/postgres?", "/bureau_of_calls?")
    return Bureau(owner, postgres_server, "bureau_of_calls")


@pytest.fixture
def bureau(_bureau: Bureau) -> Bureau:
    """The database with an empty schema `events`, of which the clerk may read everything."""
    _bureau.run(
        "DROP SCHEMA IF EXISTS events CASCADE",
        "CREATE SCHEMA events",
        f"GRANT USAGE ON SCHEMA events TO {CLERK}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA events GRANT SELECT ON TABLES TO {CLERK}",
    )
    return _bureau


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Where snapshots go, and what is left there; at the end that must be nothing."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))

    def left() -> list[str]:
        return glob.glob(f"{place}/**/*", recursive=True)

    yield left
    assert left() == []
