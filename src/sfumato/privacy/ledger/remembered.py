"""What a process remembers of a ledger, and the one transaction in which it changes it.

The first use of a ledger in a process reads every row, checks every seal and folds the rows into a
`Book`. Both stay in memory: the book, and the seal of every row. A later use reads

* the last row that is remembered, which must be there with the seal that is remembered,
* the rows after it, whose chain must begin with that seal, and
* `SLICE` of the older rows in turn, which must still have the seals that are remembered.

So a decision rests on rows whose seals were checked by *this* process, and on all of them: what is
altered in the database meanwhile is not read again. It is found by the next process, by `verify`,
and here when its turn comes, after at most rows / `SLICE` further uses; a ledger of up to `SLICE`
rows is checked whole at every use. A ledger that is shorter than what is remembered, or that does
not go on from it, is not used.

What this saves: with 10,000 rows each use takes 0.7 CPU-seconds without it, and a release uses the
ledger five times.

A change holds the ledger alone. What it adds is remembered once it is committed, and not before.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, insert, select, update

from sfumato.errors import LedgerBroken, LedgerError
from sfumato.model import formats
from sfumato.model.formats import FORMAT, OtherFormat
from sfumato.model.rounding import number_of
from sfumato.privacy.ledger import chain, records
from sfumato.privacy.ledger import database as tables
from sfumato.privacy.ledger.chain import START, Entry, Head, Keyring, canonical
from sfumato.privacy.ledger.database import Database
from sfumato.privacy.ledger.records import Book, Kind

SLICE = 128
"""Old rows that are looked at again at every use: about 2 ms of CPU. A release uses the ledger five
times, so that a process that makes one a minute has seen 20,000 rows again within half an hour."""
_MOST_LEDGERS = 8
"""Ledgers that a process remembers: 10,000 releases take about 40 MB."""


@dataclass(frozen=True, slots=True)
class Known:
    """A checked chain: the seals of its first `length` rows, and the book they add up to."""

    seals: list[str] = field(default_factory=list)
    """Only ever grows, and may be longer than `length`: other looks share it."""
    length: int = 0
    book: Book = field(default_factory=Book)

    @property
    def head(self) -> Head:
        return Head(self.length, self.seals[self.length - 1]) if self.length else START

    def begins_with(self, head: Head) -> bool:
        """Whether the chain once ended as `head` says and has only grown since."""
        return 0 < head.length <= self.length and self.seals[head.length - 1] == head.hash

    def grown(self, rows: Sequence[Entry]) -> Known:
        """With rows after it whose seals were checked."""
        if not rows:
            return self
        book = self.book.copy()
        records.extend(book, rows)
        return self.followed(rows, book)

    def followed(self, rows: Sequence[Entry], book: Book) -> Known:
        """With rows after it that are in the book already."""
        seals = self.seals if len(self.seals) == self.length else self.seals[: self.length]
        seals.extend(row.hash for row in rows)
        return Known(seals, self.length + len(rows), book)


class _Memory:
    """What is known of each ledger, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: dict[tuple[str, str], Known] = {}
        self.turn = int.from_bytes(os.urandom(4), "big")

    def keep(self, name: tuple[str, str], known: Known) -> None:
        before = self.known.pop(name, known)  # another thread may have looked later
        self.known[name] = known if before.length <= known.length else before
        while len(self.known) > _MOST_LEDGERS:
            del self.known[next(iter(self.known))]


_memory = _Memory()


def _after_fork() -> None:
    _memory.lock = threading.RLock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)


def forget() -> None:
    """Forget every ledger, as a fresh process has."""
    with _memory.lock:
        _memory.known.clear()


def look(database: Database, keyring: Keyring) -> Book:
    """The book as it stands now, checked; the caller's own copy."""
    database.require()
    noted = keyring.noted()  # before the rows: they may grow meanwhile, never shrink
    key = keyring.load()
    with database.reading() as connection:
        known = _checked(connection, database, key, noted, keyring)
    return known.book.copy()


def all_rows(database: Database, keyring: Keyring) -> list[Entry]:
    """Every row, read and checked now."""
    database.require()
    noted, key = keyring.noted(), keyring.load()
    with database.reading() as connection:
        rows = load(connection, database)
    check(key, rows, noted, keyring)
    return rows


def _checked(
    connection: Connection,
    database: Database,
    key: bytes,
    noted: Head | None,
    keyring: Keyring | None,
) -> Known:
    """What is known once the rows that are new, and those whose turn it is, are checked."""
    name = _name(database, key)
    with _memory.lock:
        before = None if keyring is None else _memory.known.get(name)
        known = None if before is None else _caught_up(connection, database, key, before)
        if known is None:
            rows = load(connection, database)
            check(key, rows, noted, keyring)
            known = Known().grown(rows)
            if before is not None and not known.begins_with(before.head):
                raise _broken(_shorter(known.length, before.length))
        elif noted is not None and not known.begins_with(noted):
            raise _broken(_shorter(known.length, noted.length))
        elif keyring is not None:
            _require_note(noted, known.length, keyring)
        _memory.keep(name, known)
        return known


def _caught_up(
    connection: Connection, database: Database, key: bytes, known: Known
) -> Known | None:
    """What is known with the rows that came since; None where a look at all rows must tell more."""
    _facts(connection, database)
    rows = _rows(connection, _FROM, first=known.length)
    new = rows[1:]
    if not rows or rows[0].head != known.head:
        return None
    if chain.first_break(key, new, known.head) is not None:
        return None
    turn, take = _memory.turn % known.length, min(SLICE, known.length)
    wanted = sorted((turn + k) % known.length + 1 for k in range(take))
    past = turn + take - known.length  # how far the turn goes on from the first row
    old = _rows(connection, _TO, first=1, last=past) if past > 0 else []
    old += _rows(connection, _TO, first=turn + 1, last=min(turn + take, known.length))
    if [(row.seq, row.hash) for row in old] != [(n, known.seals[n - 1]) for n in wanted]:
        return None
    if not all(chain.is_sealed(key, row) for row in old):
        return None
    _memory.turn = turn + take
    return known.grown(new)


class Change:
    """One transaction alone with the ledger: its book, checked, and an append."""

    def __init__(self, database: Database, keyring: Keyring, *, trusting: bool = False) -> None:
        self._database = database
        self._keyring = keyring
        self._trusting = trusting
        self._transaction = database.writing()
        self._added: list[Entry] = []
        self.book = Book()
        self.head = START

    def __enter__(self) -> Change:
        self._database.require()
        noted = self._keyring.noted()
        self._key = self._keyring.load()
        self._connection = self._transaction.__enter__()
        try:
            keyring = None if self._trusting else self._keyring
            self._known = _checked(self._connection, self._database, self._key, noted, keyring)
            self.book, self.head = self._known.book.copy(), self._known.head
            if noted is None and self.head.length == 1:
                # Before a second row: from then on a missing note is a fault.
                self._keyring.note(self.head)
            if self.book.format != FORMAT:
                self._migrate()
        except BaseException as error:
            self._transaction.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def _migrate(self) -> None:
        """Append the row from which on the ledger is of today's format.

        Rows before it are turned by `model.formats.STEPS` whenever they are read. Older programs
        refuse the ledger from here on.
        """
        self.append(Kind.MIGRATE, {"from": self.book.format, "to": FORMAT})
        name = tables.about.c.name
        self._connection.execute(update(tables.about).where(name == "format").values(value=FORMAT))

    def append(self, kind: Kind, payload: dict[str, Any]) -> None:
        entry = append(self._connection, self._key, self.head, kind, payload)
        records.extend(self.book, [entry])
        self._added.append(entry)
        self.head = entry.head

    def __exit__(self, *error: Any) -> None:
        self._transaction.__exit__(*error)
        if error[0] is not None:
            return
        self._keyring.note(self.head)
        name = _name(self._database, self._key)
        with _memory.lock:
            _memory.keep(name, self._known.followed(self._added, self.book))


def append(
    connection: Connection, key: bytes, before: Head, kind: Kind, payload: dict[str, Any]
) -> Entry:
    """Seal a row and write it after the head."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    entry = chain.seal(key, before.length + 1, kind.value, time, canonical(payload), before.hash)
    connection.execute(_INSERT, {name: getattr(entry, name) for name in _NAMES})
    return entry


_INSERT, _NAMES = insert(tables.entries), tuple(tables.entries.c.keys())
_ABOUT = select(tables.about)


def load(connection: Connection, database: Database) -> list[Entry]:
    """All rows as they stand, unchecked."""
    if not tables.present(connection):
        raise LedgerError(
            f"There is no ledger in {database} yet.",
            remedy="Make one with sfumato ledger init, or with `Ledger.initialise`.",
        )
    _facts(connection, database)
    return _rows(connection)


def _facts(connection: Connection, database: Database) -> None:
    """Refuse a ledger of a format that this version cannot read."""
    facts = {row.name: row.value for row in connection.execute(_ABOUT)}
    try:
        formats.steps("ledger", facts.get("format"))
    except OtherFormat as other:
        raise LedgerError(
            f"The ledger {database} cannot be read: {other.problem}",
            remedy=other.remedy
            if other.newer
            else "Make a new one with sfumato ledger init, its caps lowered by what this one has "
            "charged.",
        ) from None


_seq = tables.entries.c.seq
_ALL = select(tables.entries).order_by(_seq)
_FROM = _ALL.where(_seq >= bindparam("first"))
_TO = _FROM.where(_seq <= bindparam("last"))  # one range a time: SQLite goes through all for two


def _rows(connection: Connection, which: Select[Any] = _ALL, **places: int) -> list[Entry]:
    return [Entry(seq, *map(str, row)) for seq, *row in connection.execute(which, places).all()]


def check(
    key: bytes, entries: Sequence[Entry], noted: Head | None, keyring: Keyring | None = None
) -> None:
    """Refuse to work with rows that were tampered with.

    Without `keyring` a missing note of the head is not looked for.
    """
    found = chain.first_break(key, entries) if entries else "there are no rows at all"
    if found is None and noted is not None and not chain.is_prefix(noted, entries):
        found = _shorter(len(entries), noted.length)
    if found is not None:
        raise _broken(found)
    if keyring is not None:
        _require_note(noted, len(entries), keyring)


def introduced(noted: Head | None, length: int, keyring: Keyring) -> bool:
    """Whether this machine has a note of the head, which only a first row may lack.

    Asked again because the first note may have come between the two looks.
    """
    return noted is not None or length <= 1 or keyring.noted() is not None


def _require_note(noted: Head | None, length: int, keyring: Keyring) -> None:
    if not introduced(noted, length, keyring):
        raise LedgerBroken(
            f"There is no note of this ledger's head beside {keyring.path}, and the ledger has "
            f"{number_of(length, 'rows')}: an older copy of it could not be told from it.",
            remedy="Put the file back from a copy. On a machine that is new to this ledger, or if "
            "the file is lost for good, compare the ledger with the newest manifests (sfumato "
            "ledger verify, with their folders) and then accept it with sfumato ledger trust.",
        )


def _broken(what: str) -> LedgerBroken:
    return LedgerBroken(
        f"The ledger does not hold together: {what}.",
        remedy="Restore it from its newest copy, with the key that belongs to it, and run "
        "sfumato ledger verify. Nothing can be released until then.",
    )


def _shorter(length: int, seen: int) -> str:
    return f"it has {length} rows, but {seen} were seen before: rows were cut off"


def _name(database: Database, key: bytes) -> tuple[str, str]:
    return database.url.render_as_string(), hashlib.sha256(key).hexdigest()
