"""The process that forks runs to be killed, and the databases their ledgers are in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faults.storm import SQLITE, Run, Store
from tests.faults.storm import zygote as forking


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with forking(tmp_path_factory.mktemp("warm")) as run:
        yield run


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> Store:
    """SQLite, or a real PostgreSQL server."""
    if request.param == "sqlite":
        return SQLITE
    new = request.getfixturevalue("new_postgres")
    return Store("PostgreSQL", lambda copy: str(new(*([copy] if copy else []))))
