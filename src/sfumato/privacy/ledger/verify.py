"""Checking a ledger: the chain by itself, against the head noted here, and against manifests.

Finds any row that was edited, removed, reordered or inserted (the seals), rows cut off at
the end (the noted head, and every manifest's), a note of the head that is missing, and published
files that were changed after the commit. It cannot find that the whole ledger *with* its key and
noted head was replaced by an older copy, unless a manifest made since is at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sfumato.model.errors import UsageError
from sfumato.privacy.ledger import chain, records
from sfumato.privacy.ledger.chain import Entry, Head
from sfumato.privacy.ledger.ledger import Ledger, introduced, load
from sfumato.privacy.ledger.records import Book, Status
from sfumato.privacy.manifest import MANIFEST_NAME, Manifest, read_manifest
from sfumato.privacy.transaction import TEMPORARY, digests


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at and what is wrong. `notes` are worth knowing and not wrong."""

    rows: int
    manifests: int
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.findings


def verify(ledger: Ledger, manifests: Path | None = None) -> Report:
    """Look at everything and report; nothing is changed and nothing raised for what is wrong."""
    ledger.database.require()
    noted, key = ledger.keyring.noted(), ledger.keyring.load()
    with ledger.database.reading() as connection:
        rows = load(connection, ledger.database)
    findings: list[str] = []
    notes: list[str] = []
    broken = chain.first_break(key, rows) if rows else "there are no rows at all"
    if broken is not None:
        findings.append(f"the ledger: {broken}")
    if noted is not None and not chain.is_prefix(noted, rows):
        findings.append(
            f"the ledger: {noted.length} rows were seen from this machine, and the ledger does not "
            "begin with them: rows were cut off or replaced"
        )
    if not introduced(noted, rows, ledger.keyring):
        findings.append(
            f"the ledger: there is no note of its head beside {ledger.keyring.path}: an older copy "
            "could not be told from it. Put the note back; on a machine that is new to this "
            "ledger accept it with sfumato ledger trust"
        )
    found = [] if manifests is None else _manifests(manifests)
    book = records.read(rows) if broken is None else None
    for path in found:
        _check_manifest(path, rows, book, findings, notes)
    for charge in book.charges.values() if book is not None else ():
        if charge.status is Status.RESERVED:
            notes.append(
                f"release {charge.claim.name!r} of {charge.claim.dataset!r} is reserved and not "
                "finished: run it again, or abandon it"
            )
    return Report(len(rows), len(found), tuple(findings), tuple(notes))


def _manifests(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", remedy="Name the folder of the releases.")
    paths = sorted(folder.rglob(MANIFEST_NAME))
    return [p for p in paths if not any(part.startswith(TEMPORARY) for part in p.parts)]


def _check_manifest(
    path: Path, rows: list[Entry], book: Book | None, findings: list[str], notes: list[str]
) -> None:
    try:
        manifest: Manifest = read_manifest(path)
    except (OSError, ValueError):
        findings.append(f"{path}: it is not a manifest that this version can read")
        return
    head = Head(manifest.ledger.length, manifest.ledger.hash)
    if book is not None and manifest.ledger.id != book.ledger_id:
        notes.append(f"{path}: it belongs to another ledger ({manifest.ledger.id})")
        return
    if not chain.is_prefix(head, rows):
        findings.append(
            f"{path}: it was made when the ledger had {head.length} rows, and the ledger does not "
            f"begin with them (it has {len(rows)}): rows were cut off or replaced"
        )
        return
    if book is None:
        return
    charge = book.charges.get(manifest.release.id)
    if charge is None or charge.head != head:
        findings.append(f"{path}: the ledger's row {head.length} does not reserve this release")
    elif charge.status is Status.COMMITTED:
        here = digests(path.parent)
        changed = sorted(n for n, digest in charge.files.items() if here.get(n) != digest)
        if changed:
            findings.append(f"{path.parent}: changed since it was published: {', '.join(changed)}")
    elif charge.status is Status.RESERVED:
        findings.append(
            f"{path}: it is published, but the ledger has no row that commits it: that row was cut "
            "off, or the run was interrupted at the last step and should be run again"
        )
    else:
        findings.append(f"{path}: it is published, but the ledger says it was abandoned")
