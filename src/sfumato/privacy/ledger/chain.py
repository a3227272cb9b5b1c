"""The chain: every row is sealed with a key that the database does not hold.

The seal of row n is an HMAC-SHA256 over its number, kind, time, payload and the seal of
row n - 1. Whoever can write the database but not read the key can neither change, remove,
insert nor reorder a row without breaking every seal from there on. Rows cut off at the end
leave a chain that is whole but too short; a *head* (length and last seal) noted elsewhere,
in a manifest or beside the key, shows that.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.privacy.ledger.canonical import canonical

ORIGIN = "0" * 64
"""What stands before the first row."""


@dataclass(frozen=True, slots=True)
class Head:
    """How long the chain was at some moment, and its last seal then."""

    length: int
    hash: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One row as stored. `payload` is canonical JSON."""

    seq: int
    kind: str
    time: str
    payload: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        """The head of the chain that ends with this row."""
        return Head(self.seq, self.hash)


def subkey(key: bytes, purpose: str) -> bytes:
    """A key for one purpose alone, so that no use of the ledger's key helps another."""
    return hmac.new(key, f"sfumato ledger/1|{purpose}".encode(), hashlib.sha256).digest()


def key_id(key: bytes) -> str:
    """A name for the key that tells nothing about it: shows that another key was given."""
    return subkey(key, "key id").hex()[:16]


def seal(key: bytes, seq: int, kind: str, time: str, payload: str, previous: str) -> Entry:
    """The row, sealed."""
    text = canonical(["entry/1", seq, kind, time, payload, previous])
    mark = hmac.new(subkey(key, "chain"), text.encode(), hashlib.sha256).hexdigest()
    return Entry(seq, kind, time, payload, previous, mark)


def first_break(key: bytes, entries: Sequence[Entry]) -> str | None:
    """What is wrong with the first row that does not belong, or `None` for a whole chain."""
    previous = ORIGIN
    for place, entry in enumerate(entries, start=1):
        if entry.seq != place:
            return f"row {place} is missing: the next row found is number {entry.seq}"
        if entry.previous != previous:
            return f"row {place} does not follow row {place - 1}: rows were removed or reordered"
        right = seal(key, entry.seq, entry.kind, entry.time, entry.payload, entry.previous)
        if not hmac.compare_digest(right.hash, entry.hash):
            return f"row {place} was edited, or sealed with another key"
        previous = entry.hash
    return None


def is_prefix(head: Head, entries: Sequence[Entry]) -> bool:
    """Whether the chain once ended as `head` says and has only grown since."""
    return 0 < head.length <= len(entries) and entries[head.length - 1].hash == head.hash
