"""`Masks`: which places and slots belong to which of several questions, as bits.

A question is a set of places times a set of slots. Bit q of a place's words is set where the place
belongs to question q, and so for slots: a visit at (place, slot) lies in the questions whose bits
are set in both, one AND of a word for 64 questions. What is counted in each is a `Measure`.

Everything here is public. The masks are what engines are given instead of questions, so that
counting knows nothing of how questions are written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

Words = NDArray[np.uint64]
WORD = 64
MOST_QUESTIONS = 1 << 16
"""Asked together: more would make the masks of a large map pass a gigabyte."""


class Measure(StrEnum):
    """What is counted in a question."""

    VISITS = "visits"
    """A person counts once per place and slot: the papers' density."""
    UNIQUE_PEOPLE = "unique_people"
    """A person counts once, however often they were there."""


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """Bits of `count` questions for every place (places x words) and slot (slots x words)."""

    places: Words
    slots: Words
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_QUESTIONS:
            raise UsageError(
                f"Between 1 and {MOST_QUESTIONS:,} questions are asked at once.",
                remedy="Ask them in several batches.",
            )
        words = -(-self.count // WORD)
        for name in ("places", "slots"):
            mask = np.ascontiguousarray(getattr(self, name), dtype=np.uint64)
            if mask.ndim != 2 or mask.shape[1] != words:
                raise UsageError("The masks of questions have a word for every 64 of them.")
            mask.setflags(write=False)
            object.__setattr__(self, name, mask)

    @classmethod
    def of(
        cls,
        places: int,
        slots: int,
        questions: Sequence[tuple[Sequence[int], Sequence[int]]],
    ) -> Masks:
        """From the places and the slots of each question, by their numbers.

        Example:
            >>> Masks.of(3, 2, [((0, 2), (1,))]).places.ravel().tolist()
            [1, 0, 1]
        """
        words = -(-max(len(questions), 1) // WORD)
        bits = np.zeros((places, words), np.uint64), np.zeros((slots, words), np.uint64)
        for k, sets in enumerate(questions):
            bit = np.uint64(1) << np.uint64(k % WORD)
            for mask, members in zip(bits, sets, strict=True):
                mask[np.asarray(members, np.int64), k // WORD] |= bit
        return cls(*bits, len(questions))

    def union(self) -> NDArray[np.bool_]:
        """Places x slots: which pairs lie in any question.

        Example:
            >>> Masks.of(2, 2, [((0,), (1,)), ((1,), (0, 1))]).union().tolist()
            [[False, True], [True, True]]
        """
        found = np.zeros((self.places.shape[0], self.slots.shape[0]), np.bool_)
        for word in range(self.places.shape[1]):
            found |= (self.places[:, word, None] & self.slots[None, :, word]) != 0
        return found

    def digest(self) -> str:
        """What tells one set of questions from another."""
        parts = f"masks/1|{self.count}|{self.places.shape}|{self.slots.shape}|".encode()
        found = hashlib.sha256(parts)
        found.update(self.places.astype("<u8").tobytes())
        found.update(self.slots.astype("<u8").tobytes())
        return found.hexdigest()
