"""A real PostgreSQL server for the tests that need one, and no trace of the user's own ledger."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Small matrices in many processes: threads of the linear algebra would only get in each
# other's way. Set before anything imports numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _programs() -> Path | None:
    """The folder that holds initdb and pg_ctl, the newest version first."""
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    config = shutil.which("pg_config")
    if config:
        told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        places.insert(0, told.stdout.strip())
    on_path = shutil.which("initdb")
    if on_path:
        places.append(str(Path(on_path).parent))
    for place in places:
        if all((Path(place) / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return Path(place)
    return None


def _fast_folder() -> str:
    """In memory where there is room: making and removing a database is 300 small files each."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    return memory if roomy else "/tmp"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The socket folder of a server that lives as long as the tests."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's server programs (initdb, pg_ctl) are not installed")
    prefix: list[str] = []
    home = Path(tempfile.mkdtemp(prefix="sfumato-pg-", dir=_fast_folder()))
    if os.geteuid() == 0:
        # The server refuses to run as root.
        known = subprocess.run(["id", "postgres"], capture_output=True, check=False)
        if known.returncode or not shutil.which("runuser"):
            shutil.rmtree(home)
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        prefix = ["runuser", "-u", "postgres", "--"]
        shutil.chown(home, "postgres")

    def run(*command: str) -> None:
        subprocess.run([*prefix, *command], check=True, capture_output=True, cwd=home)

    data = home / "data"
    settings = f"-k {home} -c listen_addresses='' -c fsync=off -c max_connections=80"
    try:
        run(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "-N")
        log = str(home / "log")
        run(str(programs / "pg_ctl"), "-D", str(data), "-o", settings, "-l", log, "-w", "start")
        try:
            yield str(home)
        finally:
            run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def new_postgres(postgres_server: str) -> Iterator[Callable[..., str]]:
    """Makes an empty database, or a copy of another, and gives its address."""
    import psycopg

    made: list[str] = []

    def order(command: str, name: str, rest: str) -> None:
        address = f"host={postgres_server} user=postgres dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'{command} DATABASE "{name}" {rest}')

    def make(template: str = "template1") -> str:
        made.append(f"ledger_{uuid.uuid4().hex[:12]}")
        source = template.split("://postgres@/")[-1].split("?")[0]
        order("CREATE", made[-1], f'TEMPLATE "{source}"')
        return f"postgresql://postgres@/{made[-1]}?host={postgres_server}"

    yield make
    for name in made:
        order("DROP", name, "WITH (FORCE)")


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
