"""Where a stream stands, in the ledger's database: next slot, last output, sealed state.

A slot is one transaction: the output of the slot and the state after it appear together or
not at all, and nothing is shown to anyone before the transaction is on the disk. So a slot
that was interrupted before is drawn again, unseen, and one that was interrupted after is only
written out again. Parts of the state that did not change are not written again.

A sealed index says which slot, output and parts belong together. A part put back from an
earlier slot, a meter that forgot what was spent say, is noticed, and the stream does not go on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Integer, LargeBinary, MetaData, String, Table, delete, insert, select

from sfumato.errors import SfumatoError
from sfumato.model.formats import FORMAT, OtherFormat, current
from sfumato.privacy.ledger import Ledger
from sfumato.streams.vault import altered, packed, seal, unpacked, unseal

metadata = MetaData()

streams = Table(
    "sfumato_streams",
    metadata,
    Column("release", String(64), primary_key=True),
    Column("next_slot", Integer, nullable=False),
    Column("table_bytes", LargeBinary, nullable=False),
    Column("line_bytes", LargeBinary, nullable=False),
    Column("line_offset", Integer, nullable=False),
)

parts = Table(
    "sfumato_stream_parts",
    metadata,
    Column("release", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """The slot to come, and the output of the slot before it."""

    next_slot: int = 0
    table: bytes = b""
    line: bytes = b""
    offset: int = 0
    """Length of the NDJSON file before the last line."""


_INDEX = "index"


def _standing(row: Any) -> Standing:
    return Standing(row.next_slot, bytes(row.table_bytes), bytes(row.line_bytes), row.line_offset)


def _index(standing: Standing, digests: Mapping[str, bytes]) -> dict[str, Any]:
    """What belongs together: the slot, its output, and every part of the state but this one."""
    output = hashlib.sha256(standing.table + standing.line).hexdigest()
    parts = {name: digest.hex() for name, digest in sorted(digests.items()) if name != _INDEX}
    return {"next": standing.next_slot, "at": standing.offset, "out": output, "parts": parts}


def chained(head: bytes, line: bytes) -> bytes:
    """The hash of the lines so far with one more: a change to any of them changes it."""
    return hashlib.sha256(head + line).digest()


_FORMAT = "format"


class Store:
    """The rows of one stream."""

    def __init__(self, ledger: Ledger, release: str, key: bytes) -> None:
        self._database = ledger.database
        self._release = release
        self._key = key
        self._digests: dict[str, bytes] = {}
        with self._database.writing() as connection:
            metadata.create_all(connection, checkfirst=True)

    def load(self) -> tuple[Standing, dict[str, Any]]:
        """Where the stream stands, and the state after the last slot."""
        with self._database.reading() as connection:
            row = connection.execute(
                select(streams).where(streams.c.release == self._release)
            ).one_or_none()
            found = connection.execute(
                select(parts.c.name, parts.c.sealed).where(parts.c.release == self._release)
            ).all()
        plain = {name: unseal(bytes(sealed), self._key) for name, sealed in found}
        if row is None and not plain:
            return Standing(), {}
        standing = Standing() if row is None else _standing(row)
        self._digests = {name: hashlib.sha256(data).digest() for name, data in plain.items()}
        index = plain.pop(_INDEX, b"")
        if index != packed(_index(standing, self._digests)):
            raise altered()
        state = {name: unpacked(data) for name, data in plain.items()}
        mark = state.pop(_FORMAT, {}).get("mark")
        try:
            state = current("stream", mark, state)
        except OtherFormat as other:
            raise SfumatoError(
                f"This stream cannot go on: {other.problem}",
                remedy=other.remedy
                if other.newer
                else "Give it up with sfumato ledger abandon and begin another: it stays charged.",
            ) from None
        return standing, state

    def save(self, standing: Standing, state: Mapping[str, Any]) -> None:
        """One slot: its output and the state after it, together and on the disk."""
        named = {**state, _FORMAT: {"mark": FORMAT}}
        plain = {name: packed(value) for name, value in named.items()}
        digests = {name: hashlib.sha256(data).digest() for name, data in plain.items()}
        plain[_INDEX] = packed(_index(standing, digests))
        digests[_INDEX] = hashlib.sha256(plain[_INDEX]).digest()
        changed = [name for name in plain if digests[name] != self._digests.get(name)]
        gone = [name for name in self._digests if name not in plain]
        with self._database.writing() as connection:
            own = streams.c.release == self._release
            connection.execute(delete(streams).where(own))
            connection.execute(
                insert(streams).values(
                    release=self._release,
                    next_slot=standing.next_slot,
                    table_bytes=standing.table,
                    line_bytes=standing.line,
                    line_offset=standing.offset,
                )
            )
            if changed or gone:
                connection.execute(
                    delete(parts).where(
                        parts.c.release == self._release, parts.c.name.in_([*changed, *gone])
                    )
                )
            if changed:
                connection.execute(
                    insert(parts),
                    [
                        {
                            "release": self._release,
                            "name": name,
                            "sealed": seal(plain[name], self._key),
                        }
                        for name in changed
                    ],
                )
        self._digests = digests

    def forget(self) -> None:
        """Remove the rows of a finished stream; private state does not outlive it."""
        with self._database.writing() as connection:
            connection.execute(delete(parts).where(parts.c.release == self._release))
            connection.execute(delete(streams).where(streams.c.release == self._release))
