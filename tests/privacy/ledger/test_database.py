"""Full disks, read-only ledgers and wrong addresses: clear words, and nothing spent."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sfumato.errors import LedgerError, SfumatoError, UsageError
from sfumato.privacy.ledger import Cap, Claim, Ledger
from sfumato.privacy.ledger.database import Database

Claims = Callable[..., Claim]


@pytest.fixture
def books(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "books" / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(rho=1.0))
    return ledger


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(path: Path) -> None:
    """Take all the room there is."""
    with path.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        assert os.fstatvfs(file.fileno()).f_bavail == 0


def test_a_full_disk_spends_nothing(small_disk: Path, claim: Claims) -> None:
    ledger = Ledger(small_disk / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(rho=1.0))
    filler = small_disk / "filler"
    fill(filler)
    with pytest.raises(LedgerError) as refused:
        ledger.reserve(claim())
    assert "full" in str(refused.value).lower() or "No space left" in str(refused.value)
    filler.unlink()
    assert ledger.book().charges == {}
    ledger.reserve(claim())
    assert len(ledger.book().charges) == 1


def test_a_limit_on_file_size_spends_nothing(books: Ledger, claim: Claims) -> None:
    """Works everywhere: the process may not grow any file past what the ledger holds now."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, resource.RLIM_INFINITY))
            books.reserve(claim())
        except LedgerError:
            code = 42
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 42
    assert books.book().charges == {}
    books.reserve(claim())


def test_a_read_only_ledger_spends_nothing(books: Ledger, claim: Claims) -> None:
    file = books.database.file
    read_only = Ledger(f"sqlite:///file:{file}?mode=ro&uri=true", key=books.keyring.path)
    assert read_only.book().charges == {}
    with pytest.raises(LedgerError, match="read-only") as refused:
        read_only.reserve(claim())
    assert "Nothing was changed" in str(refused.value)
    assert books.book().charges == {}


def test_a_read_only_file_system_spends_nothing(small_disk: Path, claim: Claims) -> None:
    ledger = Ledger(small_disk / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(rho=1.0))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(LedgerError):
        ledger.reserve(claim())
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert ledger.book().charges == {}


@pytest.mark.postgres
def test_a_read_only_server_spends_nothing(
    new_postgres: Callable[[], str], tmp_path: Path, claim: Claims
) -> None:
    ledger = Ledger(new_postgres(), key=tmp_path / "ledger.key")
    ledger.initialise()
    ledger.add_dataset("city", Cap(rho=1.0))
    name = ledger.database.url.database
    with ledger.database.writing() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(LedgerError, match="read-only"):
        ledger.reserve(claim())
    assert ledger.book().charges == {}


def test_a_file_that_is_no_ledger_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"not a database at all, but a text" * 100)
    (tmp_path / "ledger.key").write_text("00" * 32)
    with pytest.raises(LedgerError, match="no ledger at all"):
        Ledger(path).book()


@pytest.mark.parametrize("address", ["mysql://host/db", "://", "sqlite://"])
def test_an_address_that_is_neither_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="neither a file nor"):
        Database(address)


def test_a_server_that_does_not_answer_is_said_without_the_password(tmp_path: Path) -> None:
    (tmp_path / "ledger.key").write_text("00" * 32)
    ledger = Ledger(f"postgresql://me:secret@/x?host={tmp_path}", key=tmp_path / "ledger.key")
    with pytest.raises(SfumatoError, match="does not answer") as refused:
        ledger.book()
    assert "secret" not in str(refused.value)


def test_the_default_is_one_file_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ledger = Ledger()
    assert ledger.database.file == tmp_path / "sfumato" / "ledger.sqlite"
    assert ledger.keyring.path == tmp_path / "sfumato" / "ledger.key"
    server = Ledger("postgresql://someone@host/books")
    assert server.keyring.path.parent.parent == tmp_path / "sfumato"


def test_sqlite_writes_ahead_and_syncs_fully(books: Ledger) -> None:
    with books.database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
