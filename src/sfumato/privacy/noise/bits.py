"""Streams of random bits: where every random decision of a release comes from.

Three kinds, one interface:

* `KeyedStream(key, label)`: the output of SHAKE-256 (FIPS 202) over domain tag, key, labels
  and block counter. The same key and label give the same bits on every machine, which is what
  lets a release that was killed finish as *the same* release. To anyone without the key
  the bits are as good as coin flips, provided SHAKE-256 is a good random function.
* `SystemStream()`: the operating system's generator. It cannot be repeated.
* `SeededStream(seed)`: for tests alone. It carries `tainted = True`, which a measurement
  passes on to the manifest; what was drawn from it must never be published as private.

A stream is a sequence of 16-bit digits. The sequence does not depend on how much is asked
for at a time, and a sampler takes exactly the digits that its draws used, so ten draws and
ten more are the same twenty numbers as twenty draws.

The bits of one stream must be spent once. So a stream cannot be copied or pickled, refuses to
work in a forked process, and hands out digits under a lock. It cannot see a second stream
being made from the same key and label: labels are the caller's duty, and `child` makes
labels that cannot collide with those of another path.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

DIGIT_BYTES = 2
KEY_BYTES = 32
_DIGITS_PER_WORD = 4
_FIRST_BLOCK = 1 << 10
_DOUBLINGS = 6
_DIGITS_PER_DRAW = 24
"""A guess for the size of the first request; only speed depends on it."""
_LARGEST_REQUEST = (_FIRST_BLOCK << _DOUBLINGS) // DIGIT_BYTES

Digits = NDArray[np.uint16]
Step = Callable[[Digits, NDArray[np.int64], int], int]
"""(digits, position, items done) -> items done; moves position[0] past the digits used."""


class BitStream(ABC):
    """A sequence of random 16-bit digits, read once from front to back."""

    tainted: ClassVar[bool] = False
    """True where the bits are predictable, so that nothing drawn from them is private."""

    def __init__(self) -> None:
        self._counter = 0
        self._held: Digits = np.empty(0, np.uint16)
        self._spent = 0
        self._process = os.getpid()
        self._lock = threading.Lock()

    @abstractmethod
    def _block(self, counter: int, size: int) -> bytes:
        """Block number `counter`, `size` bytes long."""

    @abstractmethod
    def child(self, label: str) -> BitStream:
        """A fresh stream for one purpose, independent of this one and of other labels."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` 64-bit words, least significant digit first.

        A word that a sampler has begun is skipped.
        """
        if count < 0:
            raise UsageError("A stream gives a non-negative number of words.")
        with self._lock:
            gap = -self._spent % _DIGITS_PER_WORD
            need = gap + count * _DIGITS_PER_WORD
            taken = self._peek(need)[gap:need].astype("<u2")
            self._skip(need)
        return taken.view("<u8").astype(np.uint64)

    def consume(self, total: int, step: Step) -> None:
        """Let `step` finish `total` items from the digits it is shown, in order.

        `step` gets a run of digits and how many items are done, does as many more as the
        digits suffice for, leaves the position after the last digit it has used up for good,
        and returns the new number. What ran out of digits starts again with the same digits
        and more behind them, so the outcome does not depend on the length of a run.
        """
        with self._lock:
            done, stalled = 0, 0
            while done < total:
                request = min((total - done) * _DIGITS_PER_DRAW, _LARGEST_REQUEST)
                shown = self._peek(max(request, stalled))
                position = np.zeros(1, np.int64)
                done = step(shown, position, done)
                used = int(position[0])
                self._skip(used)
                stalled = 0 if used else 2 * shown.size

    def _peek(self, digits: int) -> Digits:
        """At least `digits` unread digits, without spending them."""
        if os.getpid() != self._process:
            raise UsageError(
                "A stream of random bits was carried into a forked process.",
                remedy="Make a stream with its own label in each process.",
            )
        missing = digits - self._held.size
        if missing > 0:
            parts = [self._held]
            while missing > 0:
                size = _FIRST_BLOCK << min(self._counter, _DOUBLINGS)
                block = self._block(self._counter, size)
                parts.append(np.frombuffer(block, dtype="<u2").astype(np.uint16, copy=False))
                self._counter += 1
                missing -= size // DIGIT_BYTES
            self._held = np.concatenate(parts)
        return self._held

    def _skip(self, digits: int) -> None:
        self._held = self._held[digits:]
        self._spent += digits

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self._spent} digits spent>"

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise UsageError(
            "A stream of random bits cannot be copied or pickled: its bits may be spent once.",
            remedy="Give each purpose its own stream with child(label).",
        )

    __copy__ = __deepcopy__ = __reduce__ = __getstate__ = _refuse_copy

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse_copy(protocol)


class SystemStream(BitStream):
    """The operating system's generator: fresh bits, never the same twice."""

    def _block(self, counter: int, size: int) -> bytes:  # noqa: ARG002
        return os.urandom(size)

    def child(self, label: str) -> SystemStream:  # noqa: ARG002
        return SystemStream()


class _HashStream(BitStream):
    """SHAKE-256 over (tag, secret, labels, counter), each part with its length before it."""

    _TAG: ClassVar[bytes]

    def __init__(self, secret: bytes, labels: tuple[str, ...]) -> None:
        super().__init__()
        self.__secret = secret
        self.labels = labels
        parts = [self._TAG, secret, *(label.encode() for label in labels)]
        self.__head = len(parts).to_bytes(8, "little") + b"".join(
            len(part).to_bytes(8, "little") + part for part in parts
        )

    def _block(self, counter: int, size: int) -> bytes:
        return hashlib.shake_256(self.__head + counter.to_bytes(8, "little")).digest(size)

    def child(self, label: str) -> Self:
        stream = type(self).__new__(type(self))
        _HashStream.__init__(stream, self.__secret, (*self.labels, _checked(label)))
        return stream

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'/'.join(self.labels)!r}, {self._spent} digits spent>"


class KeyedStream(_HashStream):
    """Bits that the holder of the release key can draw again, and nobody else can guess."""

    _TAG = b"sfumato/noise/keyed/1"

    def __init__(self, key: bytes, label: str) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise UsageError(f"A release key has {KEY_BYTES} bytes.")
        super().__init__(key, (_checked(label),))


class SeededStream(_HashStream):
    """Predictable bits, for tests alone."""

    tainted = True
    _TAG = b"sfumato/noise/seeded/1"

    def __init__(self, seed: int) -> None:
        super().__init__(str(int(seed)).encode(), ())


def _checked(label: str) -> str:
    if not isinstance(label, str) or not label:
        raise UsageError("A stream needs a label that says what its bits are for.")
    return label
