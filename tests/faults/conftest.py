"""The process that forks runs to be killed, and the places they work in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.ledger import Cap, Ledger

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Makes the small release in a process of its own, killed where the command says."""
    program = Path(__file__).with_name("zygote.py")
    warm = tmp_path_factory.mktemp("warm")
    process = subprocess.Popen(
        [sys.executable, str(program), str(warm)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ready"]

    def run(place: Place, out: Path | None = None, **command: Any) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        where = {
            "ledger": place.ledger,
            "key": str(place.key),
            "out": str(place.out if out is None else out),
            "tmp": str(place.tmp),
        }
        process.stdin.write(json.dumps(where | command) + "\n")
        process.stdin.flush()
        found: dict[str, Any] = json.loads(process.stdout.readline())
        return found

    yield run
    process.stdin.close()
    process.wait()


@dataclass
class Place:
    """A ledger with room for one release, and where that release goes."""

    ledger: str
    key: Path
    out: Path
    tmp: Path
    copy_database: Callable[[str], str]

    def book(self) -> Ledger:
        return Ledger(self.ledger, key=self.key)

    def copied(self, to: Path) -> Place:
        """The same ledger at this moment, keys included, with an output folder elsewhere."""
        shutil.copytree(self.key.parent, to / "books")
        database = self.copy_database(self.ledger)
        if "://" not in database:
            database = str(to / "books" / Path(database).name)
        (to / "tmp").mkdir()
        return Place(
            database,
            to / "books" / self.key.name,
            to / "out" / self.out.name,
            to / "tmp",
            self.copy_database,
        )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes fresh ledgers on SQLite or on a real PostgreSQL server."""
    made = iter(range(10_000))

    def make() -> Place:
        home = tmp_path / f"place-{next(made)}"
        (home / "tmp").mkdir(parents=True)
        (home / "books").mkdir(mode=0o700)
        if request.param == "sqlite":
            address, copy = str(home / "books" / "ledger.sqlite"), lambda source: source
        else:
            new = request.getfixturevalue("new_postgres")
            address, copy = new(), new
        place = Place(
            address, home / "books" / "ledger.key", home / "out" / "day", home / "tmp", copy
        )
        place.book().initialise()
        place.book().add_dataset("city", Cap(epsilon=0.5, delta=1e-6))
        return place

    return make
