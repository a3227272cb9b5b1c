"""`Ledger`: the durable record of every event ever charged against a data set.

A release reserves, draws, persists and commits (see `sfumato.privacy.transaction`). Each
step here is one transaction that holds the ledger alone: it checks the chain as far as this
process has not (`remembered`), decides, and appends. Nothing is ever changed or removed.

A `Reservation` is budget that is set aside, the key that goes with it, and what it allows. It is
the `Charger` of a release: each planned measurement may be taken once, exactly as planned.
Nothing is written when a charge is taken, because everything was charged when the reservation was
made.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from sfumato.errors import LedgerBroken, ReservationRefused, UsageError
from sfumato.model.arguments import checked
from sfumato.model.formats import FORMAT
from sfumato.privacy.events import USER_PERIOD, PrivacyEvent, Unit, UnitKind
from sfumato.privacy.ledger import chain, limits, records, remembered
from sfumato.privacy.ledger import database as tables
from sfumato.privacy.ledger.chain import START, Entry, Head, Keyring
from sfumato.privacy.ledger.claims import CODE, Cap, Claim
from sfumato.privacy.ledger.database import Database, data_folder, default_location
from sfumato.privacy.ledger.limits import Standing
from sfumato.privacy.ledger.records import Book, Charge, Kind, Status
from sfumato.privacy.ledger.remembered import Change


@dataclass(slots=True)
class Reservation:
    """An open reservation, new or resumed."""

    charge_row: Charge
    key: bytes = field(repr=False)
    ledger_id: str
    resumed: bool
    _then: Callable[[], Book] = field(repr=False)
    """Fetches the book as it was right after the reservation."""
    _standing: Standing | None = None
    _taken: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.charge_row.id

    @property
    def standing(self) -> Standing:
        """The spend right after it was made, for every unit: reckoned when it is asked for."""
        if self._standing is None:
            claim = self.charge_row.claim
            self._standing = limits.standing(self._then(), claim.dataset, claim.unit, claim.delta)
        return self._standing

    def charge(self, label: str, event: PrivacyEvent) -> None:
        """Accept a planned measurement, once; refuse anything else before noise is drawn."""
        planned = dict(self.charge_row.claim.events)
        if label not in planned:
            raise UsageError(f"The measurement {label!r} was not reserved.")
        if planned[label] != event:
            raise UsageError(f"The measurement {label!r} is not the one that was reserved.")
        if label in self._taken:
            raise UsageError(f"The measurement {label!r} was already taken.")
        self._taken.add(label)


KEY_VARIABLE = "SFUMATO_LEDGER_KEY"
"""Environment variable that names the file of the ledger's key."""


class Ledger:
    """A ledger at a file or a PostgreSQL address. Opening it reads nothing yet."""

    @checked
    def __init__(
        self,
        location: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
    ) -> None:
        self.database = Database(location if location is not None else default_location())
        self.keyring = Keyring(_key_path(self.database, key))

    def __repr__(self) -> str:
        return f"<Ledger {self.database}>"

    def initialise(self) -> None:
        """Make the ledger and its key where there is none; otherwise change nothing."""
        noted = self.keyring.noted()
        self.database.prepare()
        with self.database.writing() as connection:
            if tables.present(connection):
                return
            if noted is not None:
                raise LedgerBroken(
                    f"The ledger {self.database} is empty, but {self.keyring.path.parent} notes "
                    f"that it had {noted.length} rows.",
                    remedy="Restore the ledger from its newest copy; a new ledger needs a key of "
                    "its own (`ledger_key`).",
                )
            key = self.keyring.load() if self.keyring.exists() else self.keyring.create()
            tables.create(connection)
            facts = {
                "format": FORMAT,
                "ledger": secrets.token_hex(8),
                "key": chain.key_id(key),
            }
            rows = [{"name": name, "value": value} for name, value in facts.items()]
            connection.execute(insert(tables.about), rows)
            entry = remembered.append(connection, key, START, Kind.GENESIS, dict(facts))
        self.keyring.note(entry.head)

    def entries(self) -> list[Entry]:
        """All rows, read and checked now."""
        return remembered.all_rows(self.database, self.keyring)

    def book(self) -> Book:
        """What the rows add up to."""
        return remembered.look(self.database, self.keyring)

    def require_dataset(self, dataset: str) -> None:
        """Refuse a data set that nobody has named, before hours of reading rather than after."""
        _known(self.book(), [dataset])

    def require_room(self, claim: Claim, replan: limits.Replan | None = None) -> None:
        """Refuse what no cap has room for, before a record is read; `reserve` asks again.

        It follows from public facts and the ledger alone: the claim has no fingerprint yet. What
        was begun under its name is paid for, and goes on.

        Raises:
            UsageError: The data set is not in the ledger, or has no cap for the unit.
            BudgetRefused: It would pass a cap or an allowance.
        """
        book = self.book()
        _known(book, [claim.dataset])
        if book.find(claim.dataset, claim.name) is None:
            _admit(book, claim, replan)

    def fingerprint_key(self) -> bytes:
        """The key with which the input is fingerprinted: the ledger's, for this use alone."""
        self.database.require()
        return chain.subkey(self.keyring.load(), "input fingerprint")

    def add_dataset(self, dataset: str, cap: Cap, unit: Unit = USER_PERIOD) -> None:
        """Name a data set and cap what may ever be released about its people."""
        unit = unit.for_cap()
        _printable(dataset, "A data set", "Name whose people.")
        with Change(self.database, self.keyring) as change:
            if dataset in change.book.caps:
                if str(unit) in change.book.caps[dataset]:
                    raise UsageError(
                        f"The data set {dataset!r} has a cap for {unit} already.",
                        remedy="Replace it, on the record, with `Ledger.set_cap`, or with sfumato "
                        "ledger init and `replace_cap=True`.",
                    )
            else:
                change.append(Kind.DATASET, {"dataset": dataset})
            change.append(Kind.CAP, {"dataset": dataset, "unit": str(unit), "cap": cap.to_json()})

    def set_cap(self, dataset: str, cap: Cap, unit: Unit = USER_PERIOD) -> None:
        """Replace a cap. The old one stays on the record, as does everything spent."""
        unit = unit.for_cap()
        with Change(self.database, self.keyring) as change:
            _known(change.book, [dataset])
            change.append(Kind.CAP, {"dataset": dataset, "unit": str(unit), "cap": cap.to_json()})

    def set_allowance(self, dataset: str, analyst: str, cap: Cap, unit: Unit = USER_PERIOD) -> None:
        """Say what one analyst may have released about the people of a data set, or replace it.

        It binds beside the cap over everybody, which stays as it is: allowances may sum above it,
        and a refusal by the cap may then reveal what others spent. From the first allowance on, an
        analyst without one is refused; the holder's own releases, which name no analyst, are bound
        by the cap alone. Those of linked data sets bind together.

        Args:
            dataset: Whose people.
            analyst: Who asks, as claims name them (`Claim.analyst`).
            cap: The most that may be released for this analyst, by the filter that holds the cap.
            unit: The privacy unit that it holds for.

        Raises:
            UsageError: The data set is not in the ledger, or the name cannot be printed.

        Example:
            ledger.set_allowance("metro subscribers", "ann", Cap(epsilon=0.5, delta=1e-7))
        """
        _printable(analyst, "An analyst", "Name who asks.")
        unit = unit.for_cap()
        with Change(self.database, self.keyring) as change:
            _known(change.book, [dataset])
            of = {"dataset": dataset, "analyst": analyst, "unit": str(unit)}
            change.append(Kind.ALLOWANCE, {**of, "cap": cap.to_json()})

    def link(self, datasets: Iterable[str]) -> None:
        """Say that data sets hold the same people: they share the cap and their spends add."""
        names = sorted(set(datasets))
        if len(names) < 2:
            raise UsageError("Linking needs at least two different data sets.")
        with Change(self.database, self.keyring) as change:
            _known(change.book, names)
            change.append(Kind.LINK, {"datasets": names})

    def reserve(self, claim: Claim, replan: limits.Replan | None = None) -> Reservation | Charge:
        """Set the budget aside, or find the reservation this is a rerun of.

        Returns the `Charge` of a release that was committed before: nothing is paid again.
        Refuses a rerun whose configuration or input changed, since the same noise must
        never meet two different inputs. Which analyst asks makes no difference to a rerun: the
        one on record pays.
        """
        if claim.analyst is not None:
            _printable(claim.analyst, "An analyst", "Name who asks.")
        with Change(self.database, self.keyring) as change:
            _known(change.book, [claim.dataset])
            self.keyring.sweep(change.book.keyed)
            known = change.book.find(claim.dataset, claim.name)
            if known is not None:
                _same_release(known, claim)
                if known.status is Status.COMMITTED:
                    return known
                release, key, resumed = known.id, self.keyring.release_key(known.id), True
            else:
                _admit(change.book, claim, replan)
                release, resumed = secrets.token_hex(16), False
                key = self.keyring.new_release_key(release)
                change.append(Kind.RESERVE, {"release": release, "claim": claim.to_json()})
        return self._reservation(change.book, release, key, resumed)

    def kept(self, release: str) -> Reservation:
        """A published release as it was reserved, with the key that its holder kept.

        Raises:
            ReservationRefused: The key was not kept, or is not on this machine.
        """
        book = self.book()
        row = _charge(book, release)
        if not row.key_kept:
            raise ReservationRefused(f"The key of the release {row.claim.name!r} was not kept.")
        return self._reservation(book, release, self.keyring.release_key(release), True)

    def _reservation(self, book: Book, release: str, key: bytes, resumed: bool) -> Reservation:
        row = book.charges[release]
        then = (lambda: self._as_of(row)) if resumed else book.copy
        return Reservation(row, key, book.ledger_id, resumed, then)

    def _as_of(self, row: Charge) -> Book:
        """The book right after the reservation: its rerun quotes the same spend."""
        return records.read(self.entries()[: row.head.length])

    def note(self, release: str, content: Mapping[str, Any], *, expected: int) -> Charge:
        """Write down what an open reservation has answered, if nobody did so meanwhile.

        For sessions that answer question after question under one reservation: whoever has read
        `expected` notes appends the next one, and whoever comes second is told.

        Returns:
            The release as it stands now, with the note.

        Raises:
            ReservationRefused: The reservation is not open, or has another number of notes.
        """
        with Change(self.database, self.keyring) as change:
            row = _charge(change.book, release)
            if row.status is not Status.RESERVED:
                raise ReservationRefused(
                    f"The release {row.claim.name!r} of {row.claim.dataset!r} is {row.status}: "
                    "nothing can be noted for it."
                )
            if len(row.note_texts) != expected:
                raise ReservationRefused(
                    f"The release {row.claim.name!r} of {row.claim.dataset!r} has "
                    f"{len(row.note_texts)} notes, not {expected}: another process came first.",
                    remedy="Read them and decide again. Nothing was noted.",
                )
            change.append(Kind.NOTE, {"release": release, "content": dict(content)})
        return change.book.charges[release]

    def commit(
        self,
        release: str,
        files: Mapping[str, str],
        *,
        keep_key: bool = False,
        answer: Mapping[str, Any] | None = None,
    ) -> Charge:
        """Record that the output (name to SHA-256) is in place, and destroy the key.

        `answer` is an output that needs no file: it stands in the row, sealed with it, and
        `Charge.answer` gives it back. What was committed before stays as it was.

        Returns:
            The release on record, with the answer that was committed first.

        Raises:
            ReservationRefused: The release was abandoned.
        """
        with Change(self.database, self.keyring) as change:
            row = _charge(change.book, release)
            if row.status is Status.ABANDONED:
                raise ReservationRefused("This release was abandoned and cannot be committed.")
            if row.status is Status.RESERVED:
                content = {"release": release, "files": dict(files), "key_kept": keep_key}
                if answer is not None:
                    content["answer"] = dict(answer)
                change.append(Kind.COMMIT, content)
        self.keyring.unbind_output(release)
        if not change.book.charges[release].key_kept:
            self.keyring.destroy(release)
        return change.book.charges[release]

    def finish(self, release: str) -> None:
        """Destroy the key of a committed release, where a kill came between the two.

        Reserving does so for all; this is for whoever only reads what was committed.
        """
        if self.keyring.has_release_key(release):
            row = _charge(self.book(), release)
            if row.status is Status.COMMITTED and not row.key_kept:
                self.keyring.destroy(release)

    def abandon(self, release: str) -> Charge:
        """Give up an open reservation. It stays charged, and its key is destroyed."""
        with Change(self.database, self.keyring) as change:
            row = _charge(change.book, release)
            if row.status is Status.COMMITTED:
                raise UsageError("This release is published: it cannot be abandoned.")
            if row.status is Status.RESERVED:
                change.append(Kind.ABANDON, {"release": release})
        self.keyring.destroy(release)
        return change.book.charges[release]

    def trust(self) -> Head:
        """Accept the ledger as it stands where no head of it is noted, on the record.

        For a second machine that was given the key, and for one whose note was lost. The chain
        is checked; that no rows were cut off before cannot be, so it is the holder's word. A
        note that is there is never replaced. Returns the head that was accepted.
        """
        if self.keyring.noted() is not None:
            raise UsageError(
                f"{self.keyring.path.parent} knows this ledger already.",
                remedy="Run sfumato ledger verify. A ledger that is shorter than its note must be "
                "restored, not trusted.",
            )
        with Change(self.database, self.keyring, trusting=True) as change:
            found = change.head
            change.append(Kind.TRUST, {"rows": found.length})
        return found


def _same_release(known: Charge, claim: Claim) -> None:
    changed = known.differences(claim)
    if not changed:
        return
    if known.status is Status.COMMITTED:
        raise ReservationRefused(
            f"The release {claim.name!r} of {claim.dataset!r} is published already, and this is "
            f"another one (changed: {', '.join(changed)}).",
            remedy="Give it a `name` of its own: it is a new release and is charged again.",
        )
    code = known.claim.config.get(CODE)
    if changed == [CODE] and code:
        begun = f"{code['distribution']} {code['version']}"
        raise ReservationRefused(
            f"The release {claim.name!r} of {claim.dataset!r} was begun with code of "
            f"{begun}, which has changed since; the same noise must never meet two recipes.",
            remedy=f"Install {begun} as it was and run it again, or give it up with sfumato ledger "
            "abandon: it stays charged.",
        )
    raise ReservationRefused(
        f"The release {claim.name!r} of {claim.dataset!r} was begun with other settings or other "
        f"events (changed: {', '.join(changed)}); the same noise must never meet two inputs.",
        remedy="Run it as it was begun, or give it up with sfumato ledger abandon: it stays "
        "charged.",
    )


def cap_unit(unit: Unit) -> str:
    """How a cap that holds for this unit is usually written: for every clock and slot length."""
    if unit.kind is UnitKind.POINT and unit.radius_m is None:
        return "point:200m"
    return str(replace(unit, clock=None, slot_s=None))


def _printable(name: str, what: str, remedy: str) -> None:
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise UsageError(f"{what} needs a printable name.", remedy=remedy)


def _known(book: Book, datasets: Iterable[str]) -> None:
    for dataset in datasets:
        if dataset not in book.caps:
            raise UsageError(
                f"The ledger knows no data set {dataset!r}.",
                remedy="Name it, with a cap, before its first use: with sfumato ledger init, or "
                "with `Ledger.add_dataset`.",
            )


def _admit(book: Book, claim: Claim, replan: limits.Replan | None) -> None:
    """Refuse a new claim for whose unit there is no cap, or that would pass one."""
    if not book.caps_of(claim.dataset, claim.unit):
        raise UsageError(
            f"The data set {claim.dataset!r} has no cap for the unit {claim.unit}.",
            remedy=f"Set one for the unit {cap_unit(claim.unit)} with sfumato ledger init, or "
            "with `Ledger.add_dataset`.",
        )
    limits.check(book, claim, replan)


def _charge(book: Book, release: str) -> Charge:
    if release not in book.charges:
        raise UsageError(f"The ledger knows no release {release!r}.")
    return book.charges[release]


def _key_path(database: Database, key: str | os.PathLike[str] | None) -> Path:
    given = key if key is not None else os.environ.get(KEY_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    if database.file is not None:
        return database.file.with_suffix(".key")
    address = database.url.set(username=None, password=None).render_as_string()
    server = hashlib.sha256(address.encode()).hexdigest()[:16]
    return data_folder() / f"postgresql-{server}" / "ledger.key"
