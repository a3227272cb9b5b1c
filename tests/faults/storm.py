"""Strikes runs of a command until they finish, and holds what is left against what must hold.

A *siege* is one release, stream, question or ledger: it is struck several times, then left to
finish. What must hold then: its bytes and numbers are those of an undisturbed run *with the same
key* (made from a copy of ledger and keys taken while the reservation was open); the ledger has
charged it once and verifies; its key, its private state and all temporary files are gone. A run
that is not killed but cannot go on, because the disk is full or the server gone, says so in an
error of ours.

Where strikes hit: the first one of each siege at a point (see `zygote`) at which no run was struck
yet, the later ones at such points of a run that takes something up, at any point, or by the clock.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import inspect, text
from tests.faults.commands import COMMANDS, book_of, is_open, prepared

from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.views import verify

Run = Callable[[Any], Any]
EACH = 4
"""Strikes to a siege."""
PRIVATE_TABLES = ("sfumato_streams", "sfumato_stream_parts")
ROLLING_TABLE = "sfumato_rolling"


@dataclass(frozen=True)
class Store:
    """Where ledgers are kept: gives the address of an empty database or of a copy, removes one."""

    name: str
    new: Callable[[str | None], str | None]
    drop: Callable[[str], None] = lambda _address: None


SQLITE = Store("SQLite", lambda _copy: None)
"""A file in the place itself."""


@contextmanager
def zygote(warm: Path) -> Iterator[Run]:
    """Sends orders, one or a list that runs at once, to a warm process."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("zygote.py")), str(warm)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    writer, reader = process.stdin, process.stdout
    assert json.loads(reader.readline())["ready"]

    def run(order: Any) -> Any:
        writer.write(json.dumps(order) + "\n")
        writer.flush()
        return json.loads(reader.readline())

    try:
        yield run
    finally:
        writer.close()
        process.wait()


@dataclass
class Place:
    """A ledger and a folder for what it pays for."""

    home: Path
    entry: str
    database: str | None

    def made(self) -> Place:
        (self.home / "tmp").mkdir(parents=True)
        (self.home / "books").mkdir(mode=0o700)
        prepared(self.order(), COMMANDS[self.entry])
        return self

    @property
    def out(self) -> Path:
        return self.home / "out" / "day"

    def order(self, **more: Any) -> dict[str, Any]:
        books = self.home / "books"
        return {
            "entry": self.entry,
            "ledger": self.database or str(books / "ledger.sqlite"),
            "key": str(books / "ledger.key"),
            "out": str(self.out),
            "tmp": str(self.home / "tmp"),
            **more,
        }

    def book(self) -> Ledger:
        return book_of(self.order())

    def copied(self, home: Path, database: str | None) -> Place:
        """The same ledger and keys at this moment; what is public already comes along."""
        twin = Place(home, self.entry, database)
        shutil.copytree(self.home / "books", home / "books")
        (home / "tmp").mkdir()
        if COMMANDS[self.entry].grows and self.out.exists():
            shutil.copytree(self.out, twin.out)
        return twin

    def files(self) -> dict[str, bytes]:
        """What readers see. The export of a ledger has its times and seals in it."""
        return {
            str(path.relative_to(self.out.parent)): path.read_bytes()
            for path in sorted(self.out.parent.rglob("*"))
            if (path.is_file() and path.suffix != ".ndjson") or path.name == "stream.ndjson"
        }

    def rolling(self) -> Counter[tuple[Any, ...]]:
        """What was noted for rolling budgets: once for each report, however often it was drawn."""
        with self.book().database.reading() as connection:
            if not inspect(connection).has_table(ROLLING_TABLE):
                return Counter()
            rows = connection.execute(text(f"SELECT hour, units FROM {ROLLING_TABLE}")).all()
        return Counter(tuple(row) for row in rows)

    def left(self) -> list[str]:
        """Anything that should not be there once all is finished."""
        books = self.home / "books"
        paths = [
            *(self.home / "tmp").rglob("*"),
            *(books / "ledger.keys").glob("*"),
            *self.home.rglob(".sfumato-*"),
            *(p for p in self.out.parent.glob("*") if not p.name.startswith(self.out.name)),
        ]
        # A half-written note of the head, no secret, is taken up by whoever writes the ledger next.
        half = books / ".sfumato-ledger.head"
        found = [str(path.relative_to(self.home)) for path in paths if path != half]
        with self.book().database.reading() as connection:
            for table in PRIVATE_TABLES:
                if inspect(connection).has_table(table):
                    rows = connection.execute(text(f"SELECT count(*) FROM {table}")).scalar()
                    found += [f"{rows} rows of {table}"] if rows else []
        return found


@dataclass
class Tally:
    """What was done, where it hit, and what was wrong."""

    strikes: int = 0
    """Kills, crashes, full disks or jumps of the clock that came while the command ran."""
    sieges: int = 0
    compared: int = 0
    """Sieges whose bytes were compared with those of an undisturbed run with the same key."""
    sites: set[str] = field(default_factory=set)
    by_clock: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.strikes += other.strikes
        self.sieges += other.sieges
        self.compared += other.compared
        self.by_clock += other.by_clock
        self.sites |= other.sites
        self.wrong += other.wrong


Weather = Callable[[Place, random.Random], dict[str, Any]]
"""What else an order says: a crash of the server, a limit, a clock; nothing is a kill."""
DURABLE = frozenset(
    ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "commit", "flock", "chmod")
)
"""Calls that leave a lasting mark: the instants between them are where order matters."""
KILL: Weather = lambda _place, _rng: {}  # noqa: E731


_surveyed: dict[tuple[str, str], tuple[int, Any, float, Counter[str], Counter[str]]] = {}


class Storm:
    """Sieges of one command on one kind of database."""

    def __init__(
        self,
        run: Run,
        entry: str,
        home: Path,
        store: Store,
        seed: int,
        weather: Weather = KILL,
        after: Callable[[Place], None] = lambda _place: None,
    ) -> None:
        self.run, self.entry, self.home, self.store = run, entry, home, store
        self.rng, self.weather, self.after = random.Random(f"{seed} {entry}"), weather, after
        self.made = 0
        self.tally = Tally()
        home.mkdir(parents=True, exist_ok=True)
        self._survey()
        self._due, self._due_later = self._shuffled(self.first), self._shuffled(self.later)

    def fresh(self) -> Place:
        self.made += 1
        return Place(self.home / str(self.made), self.entry, self.store.new(None)).made()

    def _survey(self) -> None:
        """The points of a run that begins, and of one that takes something up: found once."""
        known = _surveyed.get((self.entry, self.store.name))
        if known is not None:
            self.points, self.values, self.seconds, self.first, self.later = known
            return
        place = self.fresh()
        whole = self.run(place.order(count=True))
        assert "error" not in whole, whole["trace"]
        self.points: int = whole["points"]
        self.values = whole.get("values")
        plain = self.run(self.fresh().order())
        self.seconds: float = plain["seconds"]
        begun = self.fresh()
        self.run(begun.order(point=self.points * 4 // 5))
        again = self.run(begun.order(count=True))
        assert "error" not in again, again["trace"]
        self.first, self.later = Counter(whole["names"]), Counter(again["names"])
        found = (self.points, self.values, self.seconds, self.first, self.later)
        _surveyed[self.entry, self.store.name] = found

    def _shuffled(self, names: Counter[str]) -> list[str]:
        """In the order in which they are taken from the end: lasting steps first."""
        found = sorted(names)
        self.rng.shuffle(found)
        return sorted(found, key=lambda name: name.rsplit(" ", 1)[-1] in DURABLE)

    def aim(self, number: int, reserved: bool) -> dict[str, Any]:
        """Where the next strike hits; late, until there is something to compare."""
        due, names = (self._due, self.first) if number == 0 else (self._due_later, self.later)
        if number and not reserved:
            return {"point": self.rng.randint(self.points // 2, self.points * 9 // 10)}
        if due and (number == 0 or self.rng.random() < 0.5):
            site = due.pop()
            return {"site": site, "nth": self.rng.randint(1, names[site])}
        if self.rng.random() < 0.5:
            return {"after": self.rng.uniform(0, self.seconds)}
        return {"point": self.rng.randint(1, self.points)}

    def strike(self, place: Place, where: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.run(place.order(**where, **self.weather(place, self.rng)))
        self.after(place)
        hit = "site" in found or found["killed"] or "error" in found
        self.tally.strikes += hit
        self.tally.by_clock += hit and "site" not in found
        self.tally.sites |= {found["site"]} if "site" in found else set()
        if "error" in found and not found["ours"]:
            self.tally.wrong.append(f"{found.get('site')}: {found['error']}\n{found['trace']}")
        return found

    def siege(self, strikes: int = EACH) -> None:
        """Strike one of them, let it finish, and look at it."""
        place, reference = self.fresh(), None
        for number in range(strikes):
            found = self.strike(place, self.aim(number, reference is not None))
            reference = reference or self.undisturbed(place)
            if not found["killed"] and "error" not in found:
                break
        self.tally.sieges += 1
        self.tally.compared += reference is not None
        self.tally.wrong += self.judged(place, reference)
        self.cleared(place)

    def undisturbed(self, place: Place) -> tuple[Any, ...] | None:
        """What a run without strikes makes of the open reservation, if there is one: same key."""
        if COMMANDS[self.entry].cap is None:
            return self.values, {}, Counter()  # the same for every key
        if not is_open(place.order()):
            return None
        address = self.store.new(place.database)
        twin = place.copied(self.home / f"{place.home.name}-twin", address)
        found = self.run(twin.order())
        if "error" in found:
            self.tally.wrong.append(f"undisturbed: {found['error']}")
        made = (found.get("values"), twin.files(), twin.rolling())
        self.cleared(twin)
        return made

    def judged(self, place: Place, reference: tuple[Any, ...] | None) -> list[str]:
        """What does not hold of a siege that ended; nothing, if all is well."""
        command = COMMANDS[self.entry]
        final = self.run(place.order())
        if "error" in final:
            return [f"lost: {final['error']}\n{final['trace']}"]
        wrong = []
        made = (final.get("values"), place.files(), place.rolling())
        if reference is not None and made != reference:
            names = [n for n, data in reference[1].items() if made[1].get(n) != data]
            wrong.append(f"bytes: other than undisturbed ({', '.join(names) or 'answers'})")
        again = self.run(place.order())
        if "error" in again or (again.get("values"), place.files(), place.rolling()) != made:
            wrong.append("bytes: a run after the end changed something")
        kinds = Counter(row.kind for row in place.book().entries())
        if any(kinds[kind] != count for kind, count in command.rows.items()):
            wrong.append(f"paid: the ledger has {dict(kinds)}")
        report = verify(place.book(), place.out.parent if place.out.parent.exists() else None)
        wrong += [f"ledger: {finding}" for finding in (*report.findings, *report.notes)]
        wrong += [f"left: {name}" for name in place.left()]
        return wrong

    def cleared(self, place: Place) -> None:
        shutil.rmtree(place.home)
        if place.database is not None:
            self.store.drop(place.database)
