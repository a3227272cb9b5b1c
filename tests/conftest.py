"""A real PostgreSQL server for the tests that need one, and no trace of the user's own ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from tests.server import NoServer, Server

# Small matrices in many processes: threads of the linear algebra would only get in each
# other's way. Set before anything imports numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def _server() -> Iterator[Server]:
    """A server that lives as long as the tests."""
    try:
        made = Server()
    except NoServer as why:
        pytest.skip(str(why))
    with made as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(_server: Server) -> str:
    """Its socket folder."""
    return str(_server.home)


@pytest.fixture
def new_postgres(_server: Server) -> Iterator[Callable[..., str]]:
    """Makes an empty database, or a copy of another, and gives its address."""
    made: list[str] = []

    def make(template: str = "template1") -> str:
        made.append(_server.database(template))
        return made[-1]

    yield make
    for address in made:
        _server.drop(address)


@pytest.fixture(autouse=True)
def _no_home_ledger(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing a test does may touch the ledger of whoever runs it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data-home"))
    monkeypatch.delenv("SFUMATO_LEDGER_KEY", raising=False)


@pytest.fixture(autouse=True)
def _no_slow_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints does not depend on how busy the machine is that runs the tests."""
    monkeypatch.setattr("sfumato.cli.telling.PATIENCE_S", 600.0)


class DrawnBlocks:
    """Every block of random bits that was made: its key, labels and number, hashed."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def twice(self) -> int:
        """How many blocks were made more than once: bits that two numbers have in common."""
        return len(self.asked) - len(set(self.asked))


@pytest.fixture
def drawn_blocks(monkeypatch: pytest.MonkeyPatch) -> DrawnBlocks:
    """Listens to the hash behind all keyed noise, whoever asks it under whatever label."""
    from sfumato.privacy.noise import bits as stream

    heard, real = DrawnBlocks(), stream.hashlib.shake_256

    class Listening:
        @staticmethod
        def shake_256(data: bytes) -> object:
            heard.asked.append(data)
            return real(data)

    monkeypatch.setattr(stream, "hashlib", Listening)
    return heard
