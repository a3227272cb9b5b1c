"""What the rows say, read in order: data sets, caps, links and releases.

`read` folds a checked chain into a `Book`. Reading only the first n rows gives the book as
it stood then, which is how a rerun finds the very same cumulative spend for its manifest.

A `Cap` is the most that may ever be released about the people of a data set, for one unit. It is
stated as rho (zero-concentrated DP), as (epsilon, delta), or as both, which then both hold.
The cap bounds the composition of everything ever charged, over a person's whole life.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NoReturn

from sfumato.errors import LedgerBroken, UsageError
from sfumato.privacy.events import PrivacyEvent, Unit, UnitKind, event_from_json, event_to_json
from sfumato.privacy.ledger.accounts import Item, distance_as_charged, unit_as_charged
from sfumato.privacy.ledger.chain import Entry, Head, canonical


@dataclass(frozen=True, slots=True)
class Cap:
    """At least one of the two statements; an epsilon never without its delta."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.delta is None):
            raise UsageError(
                "A cap on epsilon needs its delta, and a delta its epsilon.",
                remedy="Give both, for example `cap_epsilon=2, cap_delta=1e-7`.",
            )
        if self.epsilon is None and self.rho is None:
            raise UsageError(
                "A data set needs a cap: how much may ever be released about its people.",
                remedy="Give `cap_epsilon` and `cap_delta`, or `cap_rho`.",
            )
        for value, what in ((self.epsilon, "epsilon"), (self.rho, "rho")):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"A cap on {what} must be finite and positive.")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise UsageError("The delta of a cap lies between 0 (pure) and 1.")

    def to_json(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cap:
        return cls(data["epsilon"], data["delta"], data["rho"])

    def __str__(self) -> str:
        parts = []
        if self.epsilon is not None:
            parts.append(f"epsilon {self.epsilon:g} at delta {self.delta:g}")
        if self.rho is not None:
            parts.append(f"rho {self.rho:g}")
        return " and ".join(parts)


ACCOUNTING = 2
"""The rule by which a new reservation is admitted. 1: every unit by its name, for itself alone.
2: every charge in every account, as `nesting` counts it."""
RECORDED = frozenset({"sfumato"})
"""Settings that are on record and do not keep a rerun from going on: the package's version."""


class Kind(StrEnum):
    """The kinds of rows. Nothing is ever taken back: a new row supersedes."""

    GENESIS = "genesis"
    DATASET = "dataset"
    CAP = "cap"
    LINK = "link"
    RESERVE = "reserve"
    COMMIT = "commit"
    ABANDON = "abandon"
    MIGRATE = "migrate"
    """From here on rows are of a newer schema; holds what older rows left unsaid."""
    BIND = "bind"
    """What an earlier version began was taken up with this input; no other will do from here on."""
    TRUST = "trust"
    """The holder introduced a machine, or accepted the ledger without the note of its head."""


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
    sums: tuple[str, ...] = ()
    """Labels of Gaussian noise on sums of clipped, non-negative contributions: see `nesting`."""
    radius_m: float | None = None
    """Locations: the radius for which Gaussian noise is charged."""
    least_m: float = 0.0
    """Locations: the lattice step, below which a distance costs no less."""
    read: str | None = None
    """The input as this version names it, where `fingerprint` is a name that an earlier one gave
    it. No part of the row: what stood for several inputs then is bound to the first that comes."""

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "name": self.name,
            "unit": str(self.unit),
            "delta": self.delta,
            "period": list(self.period),
            "events": [[label, event_to_json(event)] for label, event in self.events],
            "config": json.loads(canonical(self.config)),  # whoever gets it may change it
            "fingerprint": self.fingerprint,
            "out": self.out,
            "sums": list(self.sums),
            "distance": [self.radius_m, self.least_m],
        }

    def item(self, unit: Unit | None = None) -> Item:
        """The claim as accounts see it; `unit` where the ledger knows it better."""
        return Item(
            self.unit if unit is None else unit,
            self.period,
            tuple(event for _, event in self.events),
            tuple(label in self.sums for label, _ in self.events),
            self.radius_m,
            self.least_m,
        )

    def differences(self, other: Claim) -> list[str]:
        """What keeps a claim on record and another from being one release: settings, and the input.

        How exactly a unit is named is no part of it: a release that the first version began is
        named more fully by later ones, and its settings and period are compared.
        """
        keys = (self.config.keys() | other.config.keys()) - RECORDED
        found = sorted(k for k in keys if self.config.get(k) != other.config.get(k))
        if self.fingerprint != other.fingerprint:
            found.append("the events")
        if not found and (self.events, self.unit.kind, self.delta, self.period) != (
            other.events,
            other.unit.kind,
            other.delta,
            other.period,
        ):
            found.append("the planned measurements")
        return found

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Claim:
        start, end = data["period"]
        unit, config = Unit.parse(data["unit"]), data["config"]
        if "distance" in data:
            radius, least = data["distance"]
        else:
            radius, least = (
                distance_as_charged(config) if unit.kind is UnitKind.POINT else (None, 0)
            )
        return cls(
            data["dataset"],
            data["name"],
            unit,
            data["delta"],
            (start, end),
            tuple((label, event_from_json(event)) for label, event in data["events"]),
            config,
            data["fingerprint"],
            data["out"],
            tuple(data.get("sums", ())),
            radius,
            least,
        )


class ReadOnly(dict[str, Any]):
    """Settings as they stand in a row. The process remembers them, so nobody may change them."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("What stands in the ledger cannot be changed.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse


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
    accounting: int = ACCOUNTING
    """The rule by which it was admitted, and under which it is finished."""


@dataclass(slots=True)
class Book:
    """The state that the rows add up to."""

    ledger_id: str = ""
    caps: dict[str, dict[str, Cap]] = field(default_factory=dict)
    """Data set to unit to cap; every data set has an entry, if only an empty one."""
    linked: dict[str, frozenset[str]] = field(default_factory=dict)
    """Data set to all data sets that hold the same people, itself included."""
    charges: dict[str, Charge] = field(default_factory=dict)
    schema: int = 1
    units: dict[str, Unit] = field(default_factory=dict)
    """Release to its unit, where a migration found what its own row left unsaid."""
    bound: dict[str, str] = field(default_factory=dict)
    """Release of an earlier version to the fingerprint with which it was taken up."""
    named: dict[tuple[str, str], str] = field(default_factory=dict)
    """Data set and name to the last release that took the name."""
    keyed: set[str] = field(default_factory=set)
    """Releases that need their key: open ones, and those of which it was to be kept."""
    tallies: dict[frozenset[str], Any] = field(default_factory=dict)
    """What `tally` has added up for data sets that are linked. Never changed, only replaced."""

    def copy(self) -> Book:
        """A book that rows can be added to while this one stays as it is."""
        return Book(
            self.ledger_id,
            {dataset: dict(caps) for dataset, caps in self.caps.items()},
            dict(self.linked),
            dict(self.charges),
            self.schema,
            dict(self.units),
            dict(self.bound),
            dict(self.named),
            set(self.keyed),
            dict(self.tallies),
        )

    def find(self, dataset: str, name: str) -> Charge | None:
        """The release of that name that is reserved or committed; abandoned names are free."""
        charge = self.charges.get(self.named.get((dataset, name), ""))
        return None if charge is None or charge.status is Status.ABANDONED else charge

    def about(self, dataset: str) -> list[Charge]:
        """Everything ever charged about these people, for whatever unit, linked data sets too."""
        group = self.linked[dataset]
        return [charge for charge in self.charges.values() if charge.claim.dataset in group]

    def unit_of(self, charge: Charge) -> Unit:
        """The unit of a charge with its clock or length of window, as far as that is known."""
        if charge.id in self.units:
            return self.units[charge.id]
        claim = charge.claim
        return unit_as_charged(claim.unit, claim.period, claim.config)

    def caps_of(self, dataset: str, unit: Unit | None = None) -> list[tuple[Unit, Cap]]:
        """Every cap that binds, with its unit; of one kind of unit where one is given."""
        return [
            (Unit.parse(name), cap)
            for one in sorted(self.linked[dataset])
            for name, cap in self.caps[one].items()
            if unit is None or Unit.parse(name).kind is unit.kind
        ]


def _apply(book: Book, entry: Entry, data: dict[str, Any]) -> None:
    match Kind(entry.kind):
        case Kind.GENESIS:
            book.ledger_id = data["ledger"]
            book.schema = int(data["schema"])
        case Kind.MIGRATE:
            book.schema = int(data["to"])
            book.units |= {name: Unit.parse(unit) for name, unit in data["units"].items()}
            book.tallies.clear()
        case Kind.BIND:
            book.bound[data["release"]] = data["fingerprint"]
        case Kind.TRUST:
            pass
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
            rule = data.get("accounting", 1)
            book.charges[data["release"]] = Charge(
                data["release"], claim, entry.time, entry.head, accounting=rule
            )
            book.named[claim.dataset, claim.name] = data["release"]
            book.keyed.add(data["release"])
        case Kind.COMMIT:
            book.charges[data["release"]] = replace(
                book.charges[data["release"]],
                status=Status.COMMITTED,
                files=data["files"],
                key_kept=data["key_kept"],
            )
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
