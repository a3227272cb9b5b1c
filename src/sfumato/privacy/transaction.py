"""Reserve, draw, persist, commit: a release that is killed at any instant pays once.

1. *Reserve*: the ledger sets the budget aside and hands out a key, or finds the reservation
   this run is a rerun of. Everything random comes from that key.
2. *Draw and persist*: the output is written into a folder `.sfumato-<release>` beside its
   final place, which only its owner can enter; every file and the folder are synced.
3. *Rename*: what was written is noted beside the key, the folder takes its final name in one
   step, and the parent is synced.
4. *Commit*: the ledger notes the files' digests and destroys the key.

Killed before 1, nothing was spent. Killed later, the rerun finds the same reservation, draws
the same noise and writes the same bytes; after 3 it finds the output in place, checks it
against its own manifest and commits. Only one process works on a release at a time. Where the
output was taken away meanwhile, the rerun must write the very bytes that were noted: another
version of the program could measure something else under the same noise.

Where the holder kept the key, a published release can be made again, elsewhere or on another
engine, and is put in place only if it has the digests of its commitment.

The input is fingerprinted before the reservation and again after it was counted: if it
changed in between, nothing is published.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sfumato.errors import InputError, ReservationRefused, SfumatoError, UsageError
from sfumato.privacy.ledger import Charge, Claim, Ledger, Reservation, Status
from sfumato.privacy.ledger.chain import canonical, sync_folder
from sfumato.privacy.ledger.limits import Replan
from sfumato.published.manifest import MANIFEST_NAME, Manifest, read_manifest

TEMPORARY = ".sfumato-"

Persist = Callable[[Reservation, Path], None]
"""Draws under the reservation and writes all files of the release, manifest included."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `new`, `resumed` after an interruption, `already` there, or `repeated`."""

    how: str
    release: str
    folder: Path


class Fingerprinted(Protocol):
    """A source that knows what its input is called, here and on the other engine."""

    def fingerprint(self, key: bytes) -> str: ...

    def fingerprints_elsewhere(self, key: bytes) -> frozenset[str]: ...


def name_of_input(source: Fingerprinted, ledger: Ledger, dataset: str, name: str) -> str:
    """The fingerprint that a release or stream of this name is bound to, if this is its input.

    What was begun on a cluster bears another name than on one machine. Where this engine finds
    that name for the same records, the work goes on under it.
    """
    key = ledger.fingerprint_key()
    now, known = source.fingerprint(key), ledger.book().find(dataset, name)
    if known is not None and known.claim.fingerprint != now:
        begun = known.claim.fingerprint
        return begun if begun in source.fingerprints_elsewhere(key) else now
    return now


def publish(
    ledger: Ledger,
    claim: Claim,
    out: Path,
    fingerprint: Callable[[], str],
    persist: Persist,
    *,
    check_input: Callable[[], None] = lambda: None,
    keep_key: bool = False,
    replan: Replan | None = None,
) -> Outcome:
    """Make the release, or finish it, or find that it is made.

    `check_input` reads the events before anything is reserved, so that a fault in them
    costs nothing.
    """
    known = ledger.book().find(claim.dataset, claim.name)
    if known is None:
        _free(out)
        check_input()
    found = ledger.reserve(claim, replan)
    if isinstance(found, Charge):
        if found.key_kept and not out.exists():
            return _again(ledger, found, claim, out, fingerprint, persist)
        return _already(found, out)
    try:
        return _finish(ledger, found, claim, out, fingerprint, persist, keep_key)
    except ReservationRefused:
        row = ledger.book().charges[found.id]
        if row.status is Status.COMMITTED:  # another process finished it while this one began
            return _already(row, out)
        raise


def _finish(
    ledger: Ledger,
    found: Reservation,
    claim: Claim,
    out: Path,
    fingerprint: Callable[[], str],
    persist: Persist,
    keep_key: bool,
) -> Outcome:
    with ledger.keyring.hold(found.id):
        row = ledger.book().charges[found.id]
        if row.status is not Status.RESERVED:
            raise ReservationRefused("This release was finished or abandoned by another process.")
        temporary = out.parent / f"{TEMPORARY}{found.id}"
        if _in_place(found, out):
            _remove(temporary)
        else:
            _free(out)
            _write(ledger, temporary, out, found, claim.fingerprint, fingerprint, persist)
        ledger.commit(found.id, digests(out), keep_key=keep_key)
    return Outcome("resumed" if found.resumed else "new", found.id, out)


def _again(
    ledger: Ledger,
    charge: Charge,
    claim: Claim,
    out: Path,
    fingerprint: Callable[[], str],
    persist: Persist,
) -> Outcome:
    """Make a published release once more from the key that was kept: the same bytes, or nothing."""
    with ledger.keyring.hold(charge.id):
        temporary = out.parent / f"{TEMPORARY}{charge.id}"
        found = ledger.kept(charge.id)
        _write(ledger, temporary, out, found, claim.fingerprint, fingerprint, persist, charge.files)
    return Outcome("repeated", charge.id, out)


Draw = Callable[[Reservation], Mapping[str, Any]]
"""Draws under the reservation and gives what shall stand in the ledger as its answer."""
_PATIENCE_S = 120.0
"""How long one process waits for another that answers the same question."""


def answer(
    ledger: Ledger,
    claim: Claim,
    fingerprint: Callable[[], str],
    draw: Draw,
    *,
    replan: Replan | None = None,
) -> tuple[Charge, str]:
    """Reserve, draw, persist, commit for an answer that the ledger itself keeps.

    The answer and the commitment are one row: nobody sees the one without the other. Killed
    before it, the rerun finds the reservation, draws the same noise on the same input and pays
    nothing more; whoever asks the same afterwards is given what stands there.

    Returns:
        The committed charge, and how: `new`, `resumed`, or `already` there.
    """
    found = ledger.reserve(claim, replan)
    if isinstance(found, Charge):
        return found, "already"
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with ledger.keyring.hold(found.id):
                row = ledger.book().charges[found.id]
                if row.status is Status.RESERVED:
                    made = draw(found)
                    if fingerprint() != claim.fingerprint:
                        raise InputError(
                            "The events changed while they were being read, so nothing was "
                            "answered.",
                            remedy="Ask again: the changed events are charged anew.",
                        )
                    ledger.commit(found.id, {}, answer=made)
                    done = ledger.book().charges[found.id]
                    return done, "resumed" if found.resumed else "new"
        except ReservationRefused:  # held by another process, or its key is gone: finished
            if time.monotonic() > until:
                raise
        row = ledger.book().charges[found.id]
        if row.status is Status.COMMITTED:
            return row, "already"
        if row.status is Status.ABANDONED:
            raise ReservationRefused("This question was given up while it was being answered.")
        time.sleep(0.05)


def abandon(ledger: Ledger, release: str) -> Charge:
    """Give up an open reservation and remove what it left on the disk. It stays charged.

    Not while a process works on it: that one would go on and put its output in place.
    """
    row = ledger.book().charges.get(release)
    with ExitStack() as held:
        if row is not None and row.status is Status.RESERVED:
            if ledger.keyring.has_release_key(release):  # else nobody on this machine can go on
                held.enter_context(ledger.keyring.hold(release))
            _remove(Path(row.claim.out).parent / f"{TEMPORARY}{release}")
        return ledger.abandon(release)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a release, by name. Links and devices are none of its files."""
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _digest_of(folder: Path) -> str:
    """SHA-256 of all files of a release."""
    return hashlib.sha256(canonical(digests(folder)).encode()).hexdigest()


def _write(
    ledger: Ledger,
    temporary: Path,
    out: Path,
    reservation: Reservation,
    before: str,
    fingerprint: Callable[[], str],
    persist: Persist,
    published: Mapping[str, str] | None = None,
) -> None:
    """Write everything, then put it in place; where it was `published` before, only as it was."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)
        temporary.mkdir(mode=0o700)
    except OSError as error:
        raise _no_output(out, error) from error
    try:
        persist(reservation, temporary)
        if fingerprint() != before:
            raise InputError(
                "The events changed while they were being read, so nothing was published.",
                remedy="Put them back as they were and run again, or abandon the release.",
            )
        for path in temporary.iterdir():
            _sync_file(path)
        if published is None:
            ledger.keyring.bind_output(reservation.id, _digest_of(temporary))
        else:
            _same_files(digests(temporary), published, reservation.charge_row.claim.name)
        temporary.chmod(0o755)
        sync_folder(temporary)
        temporary.rename(out)
        sync_folder(out.parent)
    except OSError as error:
        _remove(temporary)
        raise _no_output(out, error) from error
    except BaseException:
        _remove(temporary)
        raise


def _same_files(made: Mapping[str, str], published: Mapping[str, str], name: str) -> None:
    apart = sorted(one for one in {*made, *published} if made.get(one) != published.get(one))
    if apart:
        raise SfumatoError(
            f"The release {name!r} was made again from its kept key, and not with the same bytes: "
            f"{', '.join(apart)} differ. Nothing was written.",
            remedy="Run it with the versions of sfumato and of the constraints file that made it.",
        )


def _in_place(reservation: Reservation, out: Path) -> bool:
    """Whether the whole output of this very reservation stands at its final place."""
    manifest = _manifest_at(out)
    if manifest is None or manifest.release.id != reservation.id:
        return False
    found = digests(out)
    found.pop(MANIFEST_NAME)
    if found != manifest.files:
        raise SfumatoError(
            f"{out} holds this release, but its files were changed.",
            remedy=f"Remove {out} and run again: the same files will be made, at no cost.",
        )
    return True


def _already(charge: Charge, out: Path) -> Outcome:
    """A committed release: fine if its output is intact, otherwise gone for good."""
    try:
        intact = digests(out) == charge.files
    except OSError:
        intact = False
    if intact:
        return Outcome("already", charge.id, out)
    raise SfumatoError(
        f"The release {charge.claim.name!r} was published to {charge.claim.out}, and its files are "
        f"not at {out} as they were. "
        + (
            "Its key was kept."
            if charge.key_kept
            else "It cannot be made again: its noise was drawn from a key that is destroyed."
        ),
        remedy=f"Remove {out} and run again: the same files will be made, at no cost."
        if charge.key_kept
        else "Restore the files from a copy, or choose a new `name` for a new release, which "
        "is charged again.",
    )


def _manifest_at(out: Path) -> Manifest | None:
    try:
        return read_manifest(out / MANIFEST_NAME)
    except (OSError, ValueError):
        return None


def _free(out: Path) -> None:
    """Refuse, before anything is spent, to write over something."""
    if out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise UsageError(
            f"{out} exists and is not empty.", remedy="Choose another `out`, or remove it."
        )


def _sync_file(path: Path) -> None:
    path.chmod(0o644)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _no_output(out: Path, error: OSError) -> SfumatoError:
    return SfumatoError(
        f"{out} could not be written: {error.strerror}. The budget stays reserved, and nothing "
        "was published.",
        remedy="Make room or choose another `out`, and run the same command again: it is not "
        "paid twice.",
    )
