"""Keys, kept outside the database: the ledger's own, and one for each open release.

* `ledger.key` seals the chain and keys the input fingerprints. 256 bits, mode 0600.
* `ledger.head` notes the newest head seen, so that a database from which rows were cut
  off, or that was replaced by an older copy, is noticed here even without manifests.
* `ledger.keys/` holds a 256-bit key for each release that is reserved. Whoever has it and
  the release can take the noise off, so it is overwritten and removed on commit and on
  abandon. It also serves as the lock of the one process that works on the release.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.privacy.ledger.chain import Head
from sfumato.privacy.ledger.errors import LedgerError, ReservationRefused

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


class Keyring:
    """The files beside `path`, which is the ledger's key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = path.with_suffix(".head")
        self._releases = path.with_suffix(".keys")

    def exists(self) -> bool:
        return self.path.is_file()

    def load(self) -> bytes:
        """The ledger's key."""
        try:
            key = bytes.fromhex(self.path.read_text("ascii").strip())
        except FileNotFoundError:
            raise LedgerError(
                f"The ledger's key is not at {self.path}.",
                remedy="Copy it there from where the ledger was made, or name it with "
                "--ledger-key. Without it the ledger can be neither checked nor used.",
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
        except (OSError, ValueError, KeyError) as error:
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

    @contextmanager
    def hold(self, release: str) -> Iterator[None]:
        """Be the one process that works on the release; the kernel lets go if it dies."""
        self.release_key(release)
        with self._release_file(release).open("rb") as file:
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
        keep = {f"{release}.key" for release in needed}
        if not self._releases.is_dir():
            return
        for path in self._releases.iterdir():
            if path.name not in keep:
                destroy_file(path)

    def _release_file(self, release: str) -> Path:
        return self._releases / f"{release}.key"
