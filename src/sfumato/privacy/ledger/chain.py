"""The sealed chain of rows, the text that is sealed, and the keys that seal it.

*The chain.* Every row is sealed with a key that the database does not hold. The seal of row n is
an HMAC-SHA256 over its number, kind, time, payload and the seal of row n - 1. Whoever can write
the database but not read the key can neither change, remove, insert nor reorder a row without
breaking every seal from there on. Rows cut off at the end leave a chain that is whole but too
short; a *head* (length and last seal) noted elsewhere, in a manifest or beside the key, shows
that. Databases keep no such chain: SQLite and PostgreSQL let their owner change any row unseen.

*The text* that is hashed, chained and compared is canonical JSON, one text for one value: keys
sorted, no spaces, UTF-8, floats in Python's shortest form that reads back the same,
no NaN and no infinity.

*The keys* are kept outside the database: the ledger's own, and one for each open release.

* `ledger.key` seals the chain and keys the input fingerprints. 256 bits, mode 0600.
* `ledger.head` notes the newest head seen, so that a database from which rows were cut
  off, or that was replaced by an older copy, is noticed here even without manifests.
* `ledger.keys/` holds a 256-bit key for each release that is reserved. Whoever has it and
  the release can take the noise off, so it is overwritten and removed on commit and on
  abandon. It also serves as the lock of the one process that works on the release. Beside it
  stands a digest of what was first written with it, until that is committed or abandoned.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from sfumato.errors import LedgerError, ReservationRefused, UsageError

_canonical = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical(value: Any) -> str:
    """The canonical JSON text of plain values."""
    return _canonical.encode(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


ORIGIN = "0" * 64
"""What stands before the first row."""


@dataclass(frozen=True, slots=True)
class Head:
    """How long the chain was at some moment, and its last seal then."""

    length: int
    hash: str


START = Head(0, ORIGIN)
"""The head of a chain without rows."""


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


@lru_cache(maxsize=8)
def _chain_key(key: bytes) -> bytes:
    return subkey(key, "chain")


def key_id(key: bytes) -> str:
    """A name for the key that tells nothing about it: shows that another key was given."""
    return subkey(key, "key id").hex()[:16]


def seal(key: bytes, seq: int, kind: str, time: str, payload: str, previous: str) -> Entry:
    """The row, sealed."""
    return Entry(seq, kind, time, payload, previous, _mark(key, seq, kind, time, payload, previous))


def _mark(key: bytes, seq: int, kind: str, time: str, payload: str, previous: str) -> str:
    quoted = ",".join(map(encode_basestring, (kind, time, payload, previous)))
    text = f'["entry/1",{seq},{quoted}]'  # as `canonical` writes it, in a third of the time
    try:
        said = text.encode()
    except UnicodeEncodeError:
        raise UsageError("A name that a ledger is to keep must be UTF-8 text.") from None
    return hmac.digest(_chain_key(key), said, "sha256").hex()


def is_sealed(key: bytes, entry: Entry) -> bool:
    """Whether the row is as it was when it was sealed."""
    right = _mark(key, entry.seq, entry.kind, entry.time, entry.payload, entry.previous)
    return hmac.compare_digest(right.encode(), entry.hash.encode())


def first_break(key: bytes, entries: Sequence[Entry], after: Head = START) -> str | None:
    """What is wrong with the first row that does not belong, or `None` for a whole chain.

    `after` is the head that the rows must follow: where the chain begins, if not told.
    """
    previous = after.hash
    for place, entry in enumerate(entries, start=after.length + 1):
        if entry.seq != place:
            return f"row {place} is missing: the next row found is number {entry.seq}"
        if entry.previous != previous:
            return f"row {place} does not follow row {place - 1}: rows were removed or reordered"
        if not is_sealed(key, entry):
            return f"row {place} was edited, or sealed with another key"
        previous = entry.hash
    return None


def is_prefix(head: Head, entries: Sequence[Entry]) -> bool:
    """Whether the chain once ended as `head` says and has only grown since."""
    return 0 < head.length <= len(entries) and entries[head.length - 1].hash == head.hash


KEY_BYTES = 32


def write_private(path: Path, content: bytes) -> None:
    """Write a small file that only its owner can read; on the disk before this returns.

    The temporary name is fixed, so that what a kill leaves behind is taken up by the next
    writer of the same file. Writers of one file must not overlap.
    """
    temporary = path.with_name(f".sfumato-{path.name}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise LedgerError(
            f"{path} could not be written: {error.strerror}.",
            remedy="Make room or ask for write permission, then run the same command again.",
        ) from error


def sync_folder(folder: Path) -> None:
    """Make a rename or a removal in the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def destroy_file(path: Path) -> None:
    """Overwrite, sync, remove. A no-op where the file is gone already."""
    try:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            file.write(b"\0" * size)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
        sync_folder(path.parent)
    except FileNotFoundError:
        return


def others_of(path: Path) -> str:
    """Who besides the owner may read or change a file; empty where nobody."""
    mode = path.stat().st_mode
    group, everyone = mode & 0o060, mode & 0o006
    return "everybody" if everyone else "its group" if group else ""


class Keyring:
    """The files beside `path`, which is the ledger's key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = path.with_suffix(".head")
        self._releases = path.with_suffix(".keys")

    def exists(self) -> bool:
        try:
            return self.path.is_file()
        except OSError as error:  # a name that no file can have, a folder that may not be read
            raise LedgerError(
                f"The ledger's key cannot be looked for ({error.strerror}).",
                remedy="Name another file with `ledger_key`, or give none.",
            ) from None

    def readable_by_others(self) -> list[tuple[Path, str]]:
        """Keys that somebody besides their owner may read or change, and who.

        Whoever reads the ledger's key can forge its rows; a release's key takes the noise off.
        """
        kept = sorted(self._releases.iterdir()) if self._releases.is_dir() else []
        return [(path, who) for path in (self.path, *kept) if (who := others_of(path))]

    def load(self) -> bytes:
        """The ledger's key."""
        try:
            key = bytes.fromhex(self.path.read_text("ascii").strip())
        except FileNotFoundError:
            raise LedgerError(
                f"The ledger's key is not at {self.path}.",
                remedy="Copy it there from where the ledger was made, or name it with "
                "`ledger_key`. Without it the ledger can be neither checked nor used.",
            ) from None
        except (OSError, ValueError) as error:
            raise LedgerError(f"The ledger's key at {self.path} cannot be read.") from error
        if len(key) != KEY_BYTES:
            raise LedgerError(f"{self.path} does not hold a key of 256 bits.")
        return key

    def create(self) -> bytes:
        """A fresh key for the ledger."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = secrets.token_bytes(KEY_BYTES)
        write_private(self.path, key.hex().encode() + b"\n")
        return key

    def noted(self) -> Head | None:
        """The newest head seen from here, or `None` if none was."""
        try:
            data = json.loads(self._mark.read_text("ascii"))
            return Head(int(data["length"]), str(data["hash"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, OverflowError, RuntimeError) as error:
            raise LedgerError(f"{self._mark} cannot be read.") from error

    def note(self, head: Head) -> None:
        """Remember a longer head. Never goes back, whichever process comes first."""
        with self.path.open("rb") as own:
            fcntl.flock(own, fcntl.LOCK_EX)
            last = self.noted()
            if last is None or last.length < head.length:
                text = json.dumps({"length": head.length, "hash": head.hash})
                write_private(self._mark, text.encode() + b"\n")

    def new_release_key(self, release: str) -> bytes:
        """A fresh key, on the disk before the reservation that needs it."""
        try:
            self._releases.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"{self._releases} could not be made: {error.strerror}.") from error
        key = secrets.token_bytes(KEY_BYTES)
        write_private(self._release_file(release), key)
        return key

    def release_key(self, release: str) -> bytes:
        """The key of an open reservation."""
        try:
            key = self._release_file(release).read_bytes()
        except FileNotFoundError:
            key = b""
        if len(key) != KEY_BYTES or not any(key):
            raise ReservationRefused(
                f"The key of this reservation is not on this machine ({self._releases}).",
                remedy="Run the release where it was begun, or give it up with sfumato ledger "
                "abandon: it stays charged.",
            )
        return key

    def has_release_key(self, release: str) -> bool:
        """Whether the key of a reservation is on this machine."""
        return self._release_file(release).exists()

    def destroy(self, release: str) -> None:
        """Overwrite and remove the key of a release, if it is here."""
        destroy_file(self._release_file(release))
        self.unbind_output(release)

    def bind_output(self, release: str, digest: str) -> None:
        """Note, before anybody can see it, what the noise of a reservation was first written as.

        Another version of the program may weigh people otherwise. Whoever had its output and the
        first one could take their difference, in which there is no noise.

        Raises:
            ReservationRefused: It was written as something else before.
        """
        path = self._output_file(release)
        try:
            before = path.read_text("ascii").strip()
        except FileNotFoundError:
            before = ""
        if not before:
            write_private(path, digest.encode() + b"\n")
        elif before != digest:
            raise ReservationRefused(
                "This release was written before, and would be written otherwise now; the same "
                "noise must never stand in two outputs.",
                remedy="Put the folder back where it was and run again; or run the version of "
                "sfumato, and the packages, that wrote it; or give it up with sfumato ledger "
                "abandon: it stays charged.",
            )

    @contextmanager
    def hold(self, release: str) -> Iterator[None]:
        """Be the one process that works on the release; the kernel lets go if it dies."""
        self.release_key(release)
        try:
            file = self._release_file(release).open("rb")
        except FileNotFoundError:  # destroyed since
            raise ReservationRefused("The key of this reservation was destroyed.") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ReservationRefused(
                    "Another process is working on this release right now.",
                    remedy="Let it finish; running the same command again then changes nothing.",
                ) from None
            yield

    def sweep(self, needed: Iterable[str]) -> None:
        """Destroy the keys of releases that need none. Call only while holding the ledger."""
        keep = {f"{release}.{kind}" for release in needed for kind in ("key", "output")}
        if not self._releases.is_dir():
            return
        for path in self._releases.iterdir():
            if path.name not in keep:
                destroy_file(path)

    def unbind_output(self, release: str) -> None:
        """Remove the note of the output: it stands in the ledger now, or nothing ever will."""
        destroy_file(self._output_file(release))

    def _release_file(self, release: str) -> Path:
        return self._releases / f"{release}.key"

    def _output_file(self, release: str) -> Path:
        return self._releases / f"{release}.output"
