"""Scratch folders: what an engine spills holds records, and must not outlive its run.

A folder is for its owner alone and goes when it is closed. A run that is killed cannot close
it, so every folder is locked by the process that made it, and whoever makes the next one
removes those whose lock is free. The kernel frees the lock of a dead process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "sfumato-scratch-"


class Scratch(tempfile.TemporaryDirectory[str]):
    """A locked temporary folder; making one sweeps away what dead processes left behind."""

    _lock = -1

    def __init__(self) -> None:
        sweep()
        while True:
            super().__init__(prefix=PREFIX, ignore_cleanup_errors=True)
            # Another process may take it for a leftover until it is locked: then try again.
            try:
                self._lock = os.open(self.name, os.O_RDONLY)
            except FileNotFoundError:
                continue
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.path.exists(self.name):
                return
            self._unlock()

    def cleanup(self) -> None:
        super().cleanup()
        self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep() -> None:
    """Remove this user's scratch folders that no living process holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid != os.geteuid():
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
