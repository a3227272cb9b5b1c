"""What the rows say, read in order: data sets, caps, links and releases.

`read` folds a checked chain into a `Book`. Reading only the first n rows gives the book as
it stood then, which is how a rerun finds the very same cumulative spend for its manifest.

A book holds its releases as text and makes objects of those that are asked for: objects of
ten thousand releases are many things for Python's collector to go through in the middle of a
question, and a fresh process would have to make them all before it could answer one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Any

from sfumato.errors import LedgerBroken
from sfumato.model.formats import FORMAT, current
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger.accounts import Item
from sfumato.privacy.ledger.chain import Entry, Head, canonical
from sfumato.privacy.ledger.claims import CODE, Cap, Claim, ReadOnly


class Kind(StrEnum):
    """The kinds of rows. Nothing is ever taken back: a new row supersedes."""

    GENESIS = "genesis"
    DATASET = "dataset"
    CAP = "cap"
    ALLOWANCE = "allowance"
    """What one analyst may have released about the people of a data set."""
    LINK = "link"
    RESERVE = "reserve"
    NOTE = "note"
    """What a reservation that answers question after question has answered so far."""
    COMMIT = "commit"
    ABANDON = "abandon"
    MIGRATE = "migrate"
    """From here on rows are of the next format."""
    RULES = "rules"
    """Something about these people was published by rules, without noise and without a bound."""
    TRUST = "trust"
    """The holder introduced a machine, or accepted the ledger without the note of its head."""


class Status(StrEnum):
    RESERVED = "reserved"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


@lru_cache(maxsize=1024)
def _claim(text: str) -> Claim:
    return Claim.from_json(json.loads(text, object_hook=ReadOnly))


@dataclass(frozen=True, slots=True)
class Charge:
    """One release in the ledger: what it claimed, and how it ended. Charged in every state."""

    id: str
    claim_text: str
    """What it claimed, as canonical JSON."""
    time: str
    head: Head
    """The chain's head right after the reservation: what the manifest quotes."""
    status: Status = Status.RESERVED
    key_kept: bool = False
    files_text: str = "{}"
    answer_text: str | None = None
    """The answer that its commit holds, as canonical JSON."""
    note_texts: tuple[str, ...] = ()
    """What was noted while it was open, as canonical JSON."""

    @property
    def claim(self) -> Claim:
        """What it claimed. Its settings cannot be changed: the process remembers them."""
        return _claim(self.claim_text)

    def differences(self, claim: Claim) -> list[str]:
        """What keeps it and a claim from being one release.

        Which code of others it was begun with has no part in it once it is committed: nothing is
        drawn any more.
        """
        over = {CODE} if self.status is Status.COMMITTED else set()
        return [what for what in self.claim.differences(claim) if what not in over]

    @property
    def files(self) -> dict[str, str]:
        """Name to SHA-256 of the files that were committed."""
        found: dict[str, str] = json.loads(self.files_text)
        return found

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """The answer that was committed with it, read anew: changing it changes no ledger."""
        return None if self.answer_text is None else _plain(self.answer_text)

    @property
    def notes(self) -> tuple[Mapping[str, Any], ...]:
        """What was noted for it, in order, read anew."""
        return tuple(_plain(text) for text in self.note_texts)

    def to_line(self) -> str:
        """All of it on one line: canonical JSON holds neither tabs nor ends of lines."""
        state = (self.status.value, "kept" if self.key_kept else "")
        where = (self.time, str(self.head.length), self.head.hash)
        said = (self.claim_text, self.files_text, self.answer_text or "", *self.note_texts)
        return "\t".join((self.id, *where, *state, *said))

    @classmethod
    def from_line(cls, line: str) -> Charge:
        name, time, length, seal, status, kept, claim, files, answer, *notes = line.split("\t")
        return cls(
            name,
            claim,
            time,
            Head(int(length), seal),
            Status(status),
            kept == "kept",
            files,
            answer or None,
            tuple(notes),
        )


def _plain(text: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


class Charges(MutableMapping[str, Charge]):
    """Releases by their id, in the order of the ledger."""

    __slots__ = ("lines",)

    def __init__(self, lines: dict[str, str] | None = None) -> None:
        self.lines = {} if lines is None else lines

    def __getitem__(self, release: str) -> Charge:
        return Charge.from_line(self.lines[release])

    def __setitem__(self, release: str, charge: Charge) -> None:
        self.lines[release] = charge.to_line()

    def __delitem__(self, release: str) -> None:
        del self.lines[release]

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, release: object) -> bool:
        return release in self.lines

    def copy(self) -> Charges:
        """Releases that can be added to while these stay as they are."""
        return Charges(dict(self.lines))

    def since(self, number: int) -> Iterator[Charge]:
        """All but the first so many."""
        return (Charge.from_line(line) for line in islice(self.lines.values(), number, None))


@dataclass(slots=True)
class Book:
    """The state that the rows add up to."""

    ledger_id: str = ""
    caps: dict[str, dict[str, Cap]] = field(default_factory=dict)
    """Data set to unit to cap; every data set has an entry, if only an empty one."""
    linked: dict[str, frozenset[str]] = field(default_factory=dict)
    """Data set to all data sets that hold the same people, itself included."""
    charges: Charges = field(default_factory=Charges)
    format: str = FORMAT
    """The mark of the rows that come next."""
    named: dict[tuple[str, str], str] = field(default_factory=dict)
    """Data set and name to the last release that took the name."""
    keyed: set[str] = field(default_factory=set)
    """Releases that need their key: open ones, and those of which it was to be kept."""
    tallies: dict[tuple[frozenset[str], str | None], Any] = field(default_factory=dict)
    """What `tally` has added up for data sets that are linked, over all analysts (None) and for
    single ones. Never changed, only replaced."""
    allowances: dict[str, dict[str, dict[str, Cap]]] = field(default_factory=dict)
    """Data set to analyst to unit to cap."""
    answered: dict[str, list[str]] = field(default_factory=dict)
    """Data set to the committed releases that hold an answer, in the order of their commits."""
    asked: dict[str, list[str]] = field(default_factory=dict)
    """Analyst to the releases that were charged for that one, in their order."""

    by_rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Data set to what was published by rules about its people, as its rows say, with the row's
    number and time."""

    def copy(self) -> Book:
        """A book that rows can be added to while this one stays as it is."""
        return Book(
            self.ledger_id,
            {dataset: dict(caps) for dataset, caps in self.caps.items()},
            dict(self.linked),
            self.charges.copy(),
            self.format,
            dict(self.named),
            set(self.keyed),
            dict(self.tallies),
            {
                dataset: {analyst: dict(caps) for analyst, caps in of.items()}
                for dataset, of in self.allowances.items()
            },
            {dataset: list(releases) for dataset, releases in self.answered.items()},
            {analyst: list(releases) for analyst, releases in self.asked.items()},
            {dataset: list(rows) for dataset, rows in self.by_rules.items()},
        )

    def find(self, dataset: str, name: str) -> Charge | None:
        """The release of that name that is reserved or committed; abandoned names are free."""
        charge = self.charges.get(self.named.get((dataset, name), ""))
        return None if charge is None or charge.status is Status.ABANDONED else charge

    def about(self, dataset: str) -> list[Charge]:
        """Everything ever charged about these people, for whatever unit, linked data sets too."""
        group = self.linked[dataset]
        return [charge for charge in self.charges.values() if charge.claim.dataset in group]

    def rules_about(self, dataset: str) -> list[dict[str, Any]]:
        """What was published by rules about these people, linked data sets too, in order."""
        found = [row for one in self.linked[dataset] for row in self.by_rules.get(one, ())]
        return sorted(found, key=lambda row: int(row["row"]))

    def items(self, charges: Iterable[Charge], group: frozenset[str]) -> list[tuple[Item, float]]:
        """Charges about these people as accounts see them, with their deltas."""
        found = []
        for charge in charges:
            claim = charge.claim
            if claim.dataset in group:
                found.append((claim.item(), claim.delta))
        return found

    def caps_of(self, dataset: str, unit: Unit | None = None) -> list[tuple[Unit, Cap]]:
        """Every cap that binds, with its unit; of one kind of unit where one is given."""
        return [
            (Unit.parse(name), cap)
            for one in sorted(self.linked[dataset])
            for name, cap in self.caps[one].items()
            if unit is None or Unit.parse(name).kind is unit.kind
        ]

    def has_allowances(self, dataset: str) -> bool:
        """Whether analysts need an allowance here: one was given about these people to somebody."""
        return any(self.allowances.get(one) for one in self.linked[dataset])

    def allowances_of(
        self, dataset: str, analyst: str, unit: Unit | None = None
    ) -> list[tuple[Unit, Cap]]:
        """Every allowance of an analyst that binds, linked data sets too; of one kind of unit."""
        return [
            (Unit.parse(name), cap)
            for one in sorted(self.linked[dataset])
            for name, cap in self.allowances.get(one, {}).get(analyst, {}).items()
            if unit is None or Unit.parse(name).kind is unit.kind
        ]


def _apply(book: Book, entry: Entry, data: dict[str, Any]) -> None:
    kind = entry.kind
    if kind not in (Kind.GENESIS, Kind.MIGRATE):  # which hold the mark and are of every format
        kind, data = current("ledger", book.format, (kind, data))
    match Kind(kind):
        case Kind.GENESIS:
            book.ledger_id = data["ledger"]
            book.format = data["format"]
        case Kind.MIGRATE:
            book.format = data["to"]
        case Kind.TRUST:
            pass
        case Kind.RULES:
            own = book.by_rules.setdefault(data["dataset"], [])
            own.append({**data, "row": entry.seq, "time": entry.time})
        case Kind.DATASET:
            book.caps[data["dataset"]] = {}
            book.linked[data["dataset"]] = frozenset({data["dataset"]})
        case Kind.CAP:
            book.caps[data["dataset"]][data["unit"]] = Cap.from_json(data["cap"])
        case Kind.ALLOWANCE:
            of = book.allowances.setdefault(data["dataset"], {})
            of.setdefault(data["analyst"], {})[data["unit"]] = Cap.from_json(data["cap"])
        case Kind.LINK:
            group = frozenset().union(*(book.linked[name] for name in data["datasets"]))
            for name in group:
                book.linked[name] = group
            book.tallies = {of: sums for of, sums in book.tallies.items() if not of[0] & group}
        case Kind.RESERVE:
            claim, release = data["claim"], data["release"]
            book.charges[release] = Charge(release, canonical(claim), entry.time, entry.head)
            book.named[claim["dataset"], claim["name"]] = release
            book.keyed.add(release)
            if claim["analyst"] is not None:
                book.asked.setdefault(claim["analyst"], []).append(release)
        case Kind.NOTE:
            row = book.charges[data["release"]]
            book.charges[row.id] = replace(
                row, note_texts=(*row.note_texts, canonical(data["content"]))
            )
        case Kind.COMMIT:
            row = book.charges[data["release"]]
            book.charges[row.id] = replace(
                row,
                status=Status.COMMITTED,
                files_text=canonical(data["files"]),
                key_kept=bool(data["key_kept"]),
                answer_text=canonical(data["answer"]) if "answer" in data else None,
            )
            if "answer" in data:
                book.answered.setdefault(row.claim.dataset, []).append(row.id)
            if not data["key_kept"]:
                book.keyed.discard(data["release"])
        case Kind.ABANDON:
            book.charges[data["release"]] = replace(
                book.charges[data["release"]], status=Status.ABANDONED
            )
            book.keyed.discard(data["release"])


def extend(book: Book, entries: Sequence[Entry]) -> None:
    """Add rows to the book. The chain was checked before."""
    for entry in entries:
        try:
            _apply(book, entry, json.loads(entry.payload, object_hook=ReadOnly))
        except (KeyError, ValueError) as error:
            raise LedgerBroken(
                f"Row {entry.seq} of the ledger cannot be read by this version.",
                remedy="Use the version of sfumato that wrote it, or a newer one.",
            ) from error


def read(entries: Sequence[Entry]) -> Book:
    """The book after these rows."""
    book = Book()
    extend(book, entries)
    return book
