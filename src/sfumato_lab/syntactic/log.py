"""The log of an auditor: every question that was ever put, and what became of it. INTERNAL.

An auditor is worth what its log is worth: a question that is forgotten is one half of a difference.
So a set of questions is written down, and synced to the disk, *before* its answers are given away;
a run that is killed in between has spent the questions and told nothing. A set is one line, a
line that was cut off by a kill was never answered, and is removed. Several processes share a log:
each decides alone, under a lock, and reads first what others have written since.

The file holds exact answers and the reasons for refusals, which both tell about people: it is its
owner's alone (mode 0600), its name ends in `.internal.jsonl`, and lines are chained by SHA-256, so
that one which was changed or left out is noticed. (Cutting off the end is not: keep copies.)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import InputError, SfumatoError, UsageError

ENDING = ".internal.jsonl"
_FIRST = "0" * 64


class QuestionLog:
    """Lines of a log, in memory or in a file.

    Args:
        path: The file; made if it is not there. None keeps the log in memory, for studies.
        about: What every line of the log is about, written once, in the first: the rules, the
            places and slots, a digest of the data. A log about anything else is refused.

    Raises:
        UsageError: The file's name does not say that it is internal, or the log is about
            something else.
        InputError: The file is no log, or was changed.

    Example:
        >>> log = QuestionLog(None, {"k": 10})
        >>> with log.locked() as news:
        ...     log.append({"answers": [12]})
        >>> len(log)
        1
    """

    def __init__(self, path: str | os.PathLike[str] | None, about: Mapping[str, Any]) -> None:
        self._path = None if path is None else Path(path).absolute()
        self._about = json.loads(json.dumps(dict(about)))
        self._chain, self._read, self._lines = _FIRST, 0, 0
        self._handle: int | None = None
        if self._path is not None and not self._path.name.endswith(ENDING):
            raise UsageError(
                "The log of questions holds exact answers: its name must say that it is internal.",
                remedy=f"Name it `log='questions{ENDING}'`, for example.",
            )

    def __len__(self) -> int:
        return self._lines

    @property
    def about(self) -> dict[str, Any]:
        return dict(self._about)

    @contextmanager
    def locked(self) -> Iterator[list[dict[str, Any]]]:
        """Hold the log alone; gives the lines that others, or earlier runs, have written."""
        if self._path is None:
            yield []
            return
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"The log {self._path} cannot be opened: {error.strerror}.") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            yield self._news()
        finally:
            os.close(self._handle)  # which lets go of the lock
            self._handle = None

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line down, for good. Only inside of `locked`."""
        self._lines += 1
        if self._path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write({"at": now, **line})

    def _news(self) -> list[dict[str, Any]]:
        """Lines since the last look; the first look checks what the log is about."""
        assert self._handle is not None
        size = os.fstat(self._handle).st_size
        if size < self._read:
            raise self._changed()
        text = os.pread(self._handle, size - self._read, self._read)
        whole = text.rfind(b"\n") + 1
        if whole < len(text):  # cut off by a kill before anything was answered
            os.ftruncate(self._handle, self._read + whole)
        found = []
        for raw in text[:whole].splitlines():
            found.append(self._checked(raw))
        first = self._read == 0
        self._read += whole
        if first and not found:
            self._write({"log": "sfumato questions", "version": 1, "about": self._about})
        elif first:
            self._same(found.pop(0))
        self._lines += len(found)
        return found

    def _checked(self, raw: bytes) -> dict[str, Any]:
        try:
            line = json.loads(raw)
            said = line.pop("chain")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise self._changed() from None
        if said != self._next(line):
            raise self._changed()
        self._chain = said
        return dict(line)

    def _next(self, line: Mapping[str, Any]) -> str:
        text = json.dumps(line, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{self._chain}{text}".encode()).hexdigest()

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._handle is not None, "a log is written under its lock"
        chain = self._next(line)
        raw = json.dumps({**line, "chain": chain}, separators=(",", ":")).encode() + b"\n"
        try:
            done = os.pwrite(self._handle, raw, self._read)
            if done < len(raw):
                raise OSError("short write")
            os.fsync(self._handle)
        except OSError:
            raise SfumatoError(
                f"The log {self._path} cannot be written: nothing was answered.",
                remedy="Make room on its disk and ask again.",
            ) from None
        self._chain, self._read = chain, self._read + len(raw)

    def _same(self, first: Mapping[str, Any]) -> None:
        if first.get("log") != "sfumato questions" or first.get("version") != 1:
            raise self._changed()
        then = first["about"]
        other = sorted(name for name in self._about if then.get(name) != self._about[name])
        if other:
            raise UsageError(
                f"The log {self._path} was begun with another {other[0].replace('_', ' ')}.",
                remedy="Questions about one data set are audited together, by the same rules: "
                "keep to what the log began with. Another log would forget its answers.",
            )

    def _changed(self) -> InputError:
        return InputError(
            f"The log {self._path} is damaged or was changed after it was written.",
            remedy="Restore it from a copy. Without its log an auditor cannot tell what was "
            "answered before: answer nothing more about these people.",
        )
