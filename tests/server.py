"""A real PostgreSQL server for the tests that need one; it can be crashed and started again."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

SETTINGS = "-c listen_addresses='' -c fsync=off -c max_connections=80"
CRASHES = ("SIGKILL to the server", "SIGQUIT to the server", "SIGKILL to a backend")
"""All at once and unasked; an immediate shutdown; one process, after which the rest start anew."""


class NoServer(Exception):
    """Why there can be none on this machine."""


def programs() -> Path:
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
    raise NoServer("PostgreSQL's server programs (initdb, pg_ctl) are not installed")


def _fast_folder() -> str:
    """In memory where there is room: making and removing a database is 300 small files each."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    return memory if roomy else "/tmp"


class Server:
    """A server of its own on a socket in `home`, for the time of a `with`."""

    def __init__(self, home: Path | None = None) -> None:
        self._programs = programs()
        self._prefix: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            known = subprocess.run(["id", "postgres"], capture_output=True, check=False)
            if known.returncode or not shutil.which("runuser"):
                raise NoServer("PostgreSQL does not run as root, and there is no user postgres")
            self._prefix = ["runuser", "-u", "postgres", "--"]
        self.home = home or Path(tempfile.mkdtemp(prefix="sfumato-pg-", dir=_fast_folder()))
        self.home.mkdir(exist_ok=True)
        if self._prefix:
            shutil.chown(self.home, "postgres")

    def __enter__(self) -> Server:
        # Small segments of its log: a server whose disk is full needs no large disk for it.
        small = ("--wal-segsize=1", "-A", "trust", "-U", "postgres", "-N")
        try:
            self._run("initdb", "-D", str(self._data), *small)
            self.start()
        except BaseException:
            shutil.rmtree(self.home, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.pid() is not None:
                self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.home / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.home)

    def start(self) -> None:
        """Start it, after a crash too: it recovers first."""
        log = ("-l", str(self.home / "log"), "-w")
        self._run(
            "pg_ctl", "-D", str(self._data), "-o", f"-k {self.home} {SETTINGS}", *log, "start"
        )

    def pid(self) -> int | None:
        """The number of its first process, while that lives."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            return None if state == "Z" else pid
        except (OSError, ValueError):
            return None

    def up(self) -> None:
        """Wait until it takes connections again; start it where it is gone."""
        import psycopg

        until = time.monotonic() + 60
        while True:
            if self.pid() is None:
                self.start()
            try:
                psycopg.connect(self._address()).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _address(self, name: str = "postgres") -> str:
        return f"host={self.home} user=postgres dbname={name}"

    def _order(self, command: str) -> None:
        import psycopg

        with psycopg.connect(self._address(), autocommit=True) as connection:
            connection.execute(command.encode())

    def database(self, template: str = "template1") -> str:
        """An empty database, or a copy of another: its address."""
        name = f"ledger_{uuid.uuid4().hex[:12]}"
        self._order(f'CREATE DATABASE "{name}" TEMPLATE "{_name(template)}"')
        return f"postgresql://postgres@/{name}?host={self.home}"

    def drop(self, address: str) -> None:
        self._order(f'DROP DATABASE "{_name(address)}" WITH (FORCE)')


def _name(address: str) -> str:
    return address.split("://postgres@/")[-1].split("?")[0]


def crash(pid: int, how: str) -> None:
    """Crash the server whose first process this is, and see it happen."""
    processes = [pid, *_children(pid)]
    if how == "SIGKILL to a backend":
        backends = [one for one in processes[1:] if b"ledger_" in _title(one)]
        struck = backends or processes[1:2]
        for one in struck:
            os.kill(one, signal.SIGKILL)
    else:
        struck = processes
        os.kill(pid, getattr(signal, how.split(" ", 1)[0]))
    until = time.monotonic() + 5
    while any(Path(f"/proc/{one}").exists() for one in struck) and time.monotonic() < until:
        time.sleep(0.002)


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def _title(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
