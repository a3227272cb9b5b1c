"""What the rows say, read in order: data sets, caps, links and releases.

`read` folds a checked chain into a `Book`. Reading only the first n rows gives the book as
it stood then, which is how a rerun finds the very same cumulative spend for its manifest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sfumato.privacy.events import PrivacyEvent, event_from_json, event_to_json
from sfumato.privacy.ledger.caps import Cap
from sfumato.privacy.ledger.chain import Entry, Head
from sfumato.privacy.ledger.errors import LedgerBroken
from sfumato.privacy.units import Unit


class Kind(StrEnum):
    """The kinds of rows. Nothing is ever taken back: a new row supersedes."""

    GENESIS = "genesis"
    DATASET = "dataset"
    CAP = "cap"
    LINK = "link"
    RESERVE = "reserve"
    COMMIT = "commit"
    ABANDON = "abandon"


class Status(StrEnum):
    RESERVED = "reserved"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a release binds when it reserves. The whole of it stands in the ledger's row.

    `period` is the first instant and the first instant after, in epoch microseconds.
    `config` is everything that shapes the output; `fingerprint` is keyed, so that the row
    tells nothing about the input to someone without the ledger's key.
    """

    dataset: str
    name: str
    unit: Unit
    delta: float
    period: tuple[int, int]
    events: tuple[tuple[str, PrivacyEvent], ...]
    config: dict[str, Any]
    fingerprint: str
    out: str

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "name": self.name,
            "unit": str(self.unit),
            "delta": self.delta,
            "period": list(self.period),
            "events": [[label, event_to_json(event)] for label, event in self.events],
            "config": self.config,
            "fingerprint": self.fingerprint,
            "out": self.out,
        }

    def differences(self, other: Claim) -> list[str]:
        """What keeps the two from being one release: settings by name, and the input."""
        keys = self.config.keys() | other.config.keys()
        found = sorted(k for k in keys if self.config.get(k) != other.config.get(k))
        if self.fingerprint != other.fingerprint:
            found.append("the events")
        if not found and (self.events, self.unit, self.delta, self.period) != (
            other.events,
            other.unit,
            other.delta,
            other.period,
        ):
            found.append("the planned measurements")
        return found

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Claim:
        start, end = data["period"]
        return cls(
            data["dataset"],
            data["name"],
            Unit.parse(data["unit"]),
            data["delta"],
            (start, end),
            tuple((label, event_from_json(event)) for label, event in data["events"]),
            data["config"],
            data["fingerprint"],
            data["out"],
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """One release in the ledger: what it claimed, and how it ended. Charged in every state."""

    id: str
    claim: Claim
    time: str
    head: Head
    """The chain's head right after the reservation: what the manifest quotes."""
    status: Status = Status.RESERVED
    files: dict[str, str] = field(default_factory=dict)
    key_kept: bool = False


@dataclass(slots=True)
class Book:
    """The state that the rows add up to."""

    ledger_id: str = ""
    caps: dict[str, dict[str, Cap]] = field(default_factory=dict)
    """Data set to unit to cap; every data set has an entry, if only an empty one."""
    linked: dict[str, frozenset[str]] = field(default_factory=dict)
    """Data set to all data sets that hold the same people, itself included."""
    charges: dict[str, Charge] = field(default_factory=dict)

    def find(self, dataset: str, name: str) -> Charge | None:
        """The release of that name that is reserved or committed; abandoned names are free."""
        for charge in self.charges.values():
            if (
                charge.claim.dataset == dataset
                and charge.claim.name == name
                and charge.status is not Status.ABANDONED
            ):
                return charge
        return None

    def about(self, dataset: str, unit: Unit) -> list[Charge]:
        """Everything ever charged about these people, for that unit, linked data sets too."""
        group = self.linked[dataset]
        return [
            charge
            for charge in self.charges.values()
            if charge.claim.dataset in group and charge.claim.unit == unit
        ]

    def caps_of(self, dataset: str, unit: Unit) -> list[Cap]:
        """Every cap that binds: all of them hold, so the smallest does."""
        group = sorted(self.linked[dataset])
        return [self.caps[name][str(unit)] for name in group if str(unit) in self.caps[name]]

    def units_of(self, dataset: str) -> list[str]:
        """Units with a cap or a charge, in a fixed order."""
        group = self.linked[dataset]
        units = {unit for name in group for unit in self.caps[name]}
        units |= {str(c.claim.unit) for c in self.charges.values() if c.claim.dataset in group}
        return sorted(units)


def _apply(book: Book, entry: Entry, data: dict[str, Any]) -> None:
    match Kind(entry.kind):
        case Kind.GENESIS:
            book.ledger_id = data["ledger"]
        case Kind.DATASET:
            book.caps[data["dataset"]] = {}
            book.linked[data["dataset"]] = frozenset({data["dataset"]})
        case Kind.CAP:
            book.caps[data["dataset"]][data["unit"]] = Cap.from_json(data["cap"])
        case Kind.LINK:
            group = frozenset().union(*(book.linked[name] for name in data["datasets"]))
            for name in group:
                book.linked[name] = group
        case Kind.RESERVE:
            claim = Claim.from_json(data["claim"])
            book.charges[data["release"]] = Charge(data["release"], claim, entry.time, entry.head)
        case Kind.COMMIT:
            book.charges[data["release"]] = replace(
                book.charges[data["release"]],
                status=Status.COMMITTED,
                files=data["files"],
                key_kept=data["key_kept"],
            )
        case Kind.ABANDON:
            book.charges[data["release"]] = replace(
                book.charges[data["release"]], status=Status.ABANDONED
            )


def read(entries: Sequence[Entry]) -> Book:
    """The book after these rows. The chain was checked before."""
    book = Book()
    for entry in entries:
        try:
            _apply(book, entry, json.loads(entry.payload))
        except (KeyError, ValueError) as error:
            raise LedgerBroken(
                f"Row {entry.seq} of the ledger cannot be read by this version.",
                remedy="Use the version of sfumato that wrote it, or a newer one.",
            ) from error
    return book
