"""What an auditor answers from: who was where, in memory or behind an engine. INTERNAL.

An auditor gives exact answers, so it must see them. It needs two things of the data and no more:
the visits of every place and slot, and the number of different people in a question (its support,
and the answer to `unique_people`). Both come from one of

* `Visits`: distinct (person, place, slot) in memory, for studies, attacks and small data;
* `Counted`: an engine's boxes, opened here. This module stands on the list of `privacy.door`
  because what is only anonymised is exact by its nature; it is never measured, never charged
  and never called private. A record cannot be asked for here, only counts of sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.counts import Counting, WeightBound
from sfumato.model.masks import Masks, Measure, Words
from sfumato.model.source import Source
from sfumato.privacy.door import open_private
from sfumato.queries.question import Frame, Question

Ints = NDArray[np.int64]
_ALL = 1 << 62


class Truth(Protocol):
    """Exact counts. Whoever calls these answers for where the numbers go."""

    def counts(self, frame: Frame) -> Ints:
        """Visits by place and slot."""

    def people(
        self, questions: Sequence[Question], frame: Frame, enough: int | None = None
    ) -> Ints:
        """Different people in each question's places and slots.

        Where a number is `enough`, there may be more: whoever asks for support need not know.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Who was where, in the holder's hands: distinct (user, place, slot), by numbers.

    `users` are any numbers, the same for the same person. Rows are sorted by them.

    Example:
        >>> held = Visits(np.array([7, 7, 4]), np.array([0, 0, 1]), np.array([2, 2, 0]))
        >>> held.users.tolist(), held.places.tolist()
        ([4, 7], [1, 0])
    """

    users: Ints
    places: Ints
    slots: Ints
    _starts: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = [np.asarray(one, np.int64).ravel() for one in (self.users, self.places, self.slots)]
        if len({one.size for one in rows}) != 1 or any((one < 0).any() for one in rows[1:]):
            raise UsageError("Visits are rows of a person, a place and a slot, by number.")
        for name, column in zip(("users", "places", "slots"), _distinct(*rows), strict=True):
            object.__setattr__(self, name, column)
        # A person's rows end where the next one's begin; the last one's with the table.
        ends = np.flatnonzero(np.diff(self.users, append=self.users[-1:] + 1) != 0) + 1
        object.__setattr__(self, "_starts", np.r_[0, ends].astype(np.int64))

    def counts(self, frame: Frame) -> Ints:
        """Visits by place and slot."""
        atom = self.places * frame.slots + self.slots
        counted = np.bincount(atom, minlength=frame.places * frame.slots)
        return counted.reshape(frame.places, frame.slots).astype(np.int64)

    def people(
        self, questions: Sequence[Question], frame: Frame, enough: int | None = None
    ) -> Ints:
        """Different people in each question: one pass, 64 questions to a word.

        Example:
            >>> from datetime import timedelta
            >>> from sfumato.model.time_grid import TimeGrid
            >>> grid = TimeGrid(np.arange(2) * 3_600_000_000, timedelta(hours=1), "UTC")
            >>> frame = Frame(np.array(["a", "b"]), grid)
            >>> held = Visits(np.array([0, 0, 1]), np.array([0, 1, 1]), np.zeros(3, np.int64))
            >>> held.people([frame.question("visits", [0, 1], [0])], frame).tolist()
            [2]
        """
        if not questions or not self.users.size:
            return np.zeros(len(questions), np.int64)
        masks, rows = _masks(questions, frame), (self._starts, self.places, self.slots)
        return _people(*rows, masks.places, masks.slots, masks.count, enough or _ALL)

    def people_in(self, question: Question, frame: Frame) -> int:
        """Different people in one question's places and slots."""
        return int(self.people([question], frame)[0])


class Counted:
    """Exact counts from an engine: the boxes of a `Source`, opened for the auditor.

    Args:
        source: Of events, over the places and slots that are asked about.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def counts(self, frame: Frame) -> Ints:
        """Visits by place and slot."""
        del frame
        return open_private(self._source.exact(Counting.VISITS)).values

    def people(
        self, questions: Sequence[Question], frame: Frame, enough: int | None = None
    ) -> Ints:
        """Different people in each question's places and slots, in one pass."""
        del enough
        if not questions:
            return np.zeros(0, np.int64)
        # A limit that nobody's vector of ones can reach: every weight is whole, and nobody is lost.
        bound = WeightBound(float(len(questions) + 1))
        box = self._source.answers(_masks(questions, frame), Measure.UNIQUE_PEOPLE, bound)
        found = open_private(box)
        return found.values // found.units_per_count


def _masks(questions: Sequence[Question], frame: Frame) -> Masks:
    return Masks.of(frame.places, frame.slots, [(one.places, one.slots) for one in questions])


def _distinct(users: Ints, places: Ints, slots: Ints) -> tuple[Ints, Ints, Ints]:
    """The rows without repetition, by person."""
    many = int(slots.max(initial=0)) + 1
    cell = places * many + slots
    cells = int(cell.max(initial=0)) + 1
    if users.size and users.min() >= 0 and int(users.max()) < (1 << 62) // cells:
        # One number a row sorts three times faster than three columns do.
        key = np.sort(users * cells + cell)
        users, cell = np.divmod(key[np.r_[True, key[1:] != key[:-1]]], cells)
    else:
        pairs = np.unique(np.stack([users, cell], axis=1), axis=0)
        users, cell = pairs[:, 0], pairs[:, 1]
    return users.copy(), cell // many, cell % many


@compiled
def _people(
    starts: Ints, place: Ints, slot: Ints, places: Words, slots: Words, many: int, enough: int
) -> Ints:
    """People of each question; a question is left alone once it has enough of them."""
    out = np.zeros(many, np.int64)
    words = places.shape[1]
    wanted = np.full(words, ~np.uint64(0))
    met = np.zeros(words, np.uint64)
    for user in range(starts.size - 1):
        for row in range(starts[user], starts[user + 1]):
            for k in range(words):
                met[k] |= places[place[row], k] & slots[slot[row], k] & wanted[k]
        for k in range(words):
            if met[k]:
                for bit in range(min(64, many - 64 * k)):
                    if met[k] >> np.uint64(bit) & np.uint64(1):
                        out[64 * k + bit] += 1
                        if out[64 * k + bit] == enough:
                            wanted[k] &= ~(np.uint64(1) << np.uint64(bit))
                met[k] = 0
    return out
