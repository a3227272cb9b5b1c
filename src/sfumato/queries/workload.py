"""`Workload`: many questions as one linear map, and the parts that they cut the ground into.

A row is a set of places times a set of slots. On a table (place x slot) its answer is the sum of
its cells; the rows together are a matrix W of zeros and ones that is never written out, because
everything that is needed of it comes from its two factors:

* all answers: sum the places of every row, then its slots (`sums`, exact on integers);
* W W': the cells that two rows share are the places they share times the slots they share
  (`shared`), so least squares over hundreds of rows needs no matrix over 200,000 cells;
* the *common refinement*: places that belong to the same rows are one class, slots likewise, and
  every row is a union of products of classes (`atoms`).

Public throughout: a workload knows questions, never counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.errors import UsageError

Table = NDArray[np.float64]
Whole = NDArray[np.int64]
Sets = tuple[tuple[int, ...], tuple[int, ...]]


class Asked(Protocol):
    """What a question is to a workload: its places and its slots, by their numbers."""

    @property
    def places(self) -> tuple[int, ...]: ...

    @property
    def slots(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, eq=False)
class Workload:
    """Rows over a table of places x slots; 0/1 members of each row."""

    places: csr_array
    """Rows x places."""
    slots: Whole
    """Rows x slots."""

    @classmethod
    def of(cls, shape: tuple[int, int], questions: Iterable[Asked]) -> Workload:
        """The rows of questions, in their order.

        Args:
            shape: Places and slots of the table.
            questions: Sets of places and slots by number.

        Raises:
            UsageError: There is none, or one names something outside of the table.

        Example:
            >>> rows = Workload.of((3, 2), [Row((0, 2), (1,)), Row((1,), (0, 1))])
            >>> rows.sums(np.array([[1, 2], [3, 4], [5, 6]])).tolist()
            [8, 7]
        """
        listed = [(question.places, question.slots) for question in questions]
        return cls.of_sets(shape, listed)

    @classmethod
    def of_sets(cls, shape: tuple[int, int], sets: Sequence[Sets]) -> Workload:
        """The same from pairs of sets."""
        if not sets or any(not places or not slots for places, slots in sets):
            raise UsageError("A workload has at least one question, and each a place and a slot.")
        ends = np.cumsum([0, *(len(places) for places, _ in sets)])
        columns = np.concatenate([np.asarray(places, np.int64) for places, _ in sets])
        slots = np.zeros((len(sets), shape[1]), np.int64)
        for row, (_, members) in enumerate(sets):
            chosen = np.asarray(members, np.int64)
            if chosen.min() < 0 or chosen.max() >= shape[1]:
                raise UsageError("A question names a slot that the table does not have.")
            slots[row, chosen] = 1
        if columns.min() < 0 or columns.max() >= shape[0]:
            raise UsageError("A question names a place that the table does not have.")
        ones = np.ones(columns.size, np.int64)
        places = csr_array((ones, columns, ends), shape=(len(sets), shape[0]))
        places.sum_duplicates()
        places.data[:] = 1
        return cls(places, slots)

    def __len__(self) -> int:
        return int(self.slots.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Places and slots of the table."""
        return int(self.places.shape[1]), int(self.slots.shape[1])

    @cached_property
    def sets(self) -> tuple[Sets, ...]:
        """Places and slots of every row, as numbers."""
        pointers = self.places.indptr
        return tuple(
            (
                tuple(np.sort(self.places.indices[pointers[row] : pointers[row + 1]]).tolist()),
                tuple(np.flatnonzero(self.slots[row]).tolist()),
            )
            for row in range(len(self))
        )

    @cached_property
    def slot_counts(self) -> Whole:
        """Slots of every row."""
        return np.asarray(self.slots.sum(axis=1), np.int64)

    def sums(self, table: NDArray[Any]) -> NDArray[Any]:
        """The answer of every row; on integers exact, as long as the whole table's sum is."""
        if table.shape != self.shape:
            raise UsageError("The table has other places or slots than the questions.")
        by_slot = np.asarray(self.places @ table)
        return np.asarray(np.einsum("qs,qs->q", by_slot, self.slots.astype(by_slot.dtype)))

    def cells(self, row: int) -> tuple[Whole, Whole]:
        """An index that picks the cells of one row out of a table."""
        places, slots = self.sets[row]
        return np.asarray(places, np.int64)[:, None], np.asarray(slots, np.int64)[None, :]

    def shared(self, other: Workload) -> Table:
        """How many cells each row has in common with each row of the other: W V'."""
        places = (self.places @ other.places.T).toarray().astype(np.float64)
        slots = self.slots.astype(np.float64) @ other.slots.T.astype(np.float64)
        return np.asarray(places * slots)

    def classes(self) -> tuple[Whole, Whole]:
        """Class of every place and slot, those with the same rows together; -1 where in none."""
        return _classes(self.places.toarray().T), _classes(self.slots.T)

    def atoms(self) -> Workload:
        """The common refinement: products of classes that lie in some row, each once.

        Example:
            >>> rows = Workload.of((3, 2), [Row((0, 1), (0, 1)), Row((1, 2), (0, 1))])
            >>> rows.atoms().sets
            (((0,), (0, 1)), ((1,), (0, 1)), ((2,), (0, 1)))
        """
        place_class, slot_class = self.classes()
        places, slots = _members(place_class), _members(slot_class)
        firsts = np.array([members[0] for members in places])
        in_rows = self.places.toarray()[:, firsts]
        at_slots = self.slots[:, [members[0] for members in slots]]
        met = (in_rows.T @ at_slots) > 0
        return Workload.of_sets(
            self.shape, [(places[p], slots[s]) for p, s in np.argwhere(met).tolist()]
        )

    def atom_count(self) -> int:
        """How many `atoms` there are, without making them."""
        place_class, slot_class = self.classes()
        if place_class.max() < 0:
            return 0
        firsts = np.array([members[0] for members in _members(place_class)])
        at = [members[0] for members in _members(slot_class)]
        found = self.places.toarray()[:, firsts].T @ self.slots[:, at]
        return int((found > 0).sum())


@dataclass(frozen=True, slots=True)
class Row:
    """A bare set of places times a set of slots."""

    places: tuple[int, ...]
    slots: tuple[int, ...]


def _classes(members: Whole) -> Whole:
    """Things x rows: the number of each thing's class, in the order of first appearance."""
    bits = np.packbits(members.astype(np.bool_), axis=1)
    _, first, number = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    inside = np.asarray(bits.any(axis=1))
    order = [k for k in np.argsort(first, kind="stable").tolist() if inside[first[k]]]
    renamed = np.full(first.size, -1, np.int64)
    renamed[order] = np.arange(len(order))
    return np.asarray(renamed[number.ravel()])


def _members(classes: Whole) -> list[tuple[int, ...]]:
    """The things of every class."""
    return [tuple(np.flatnonzero(classes == k).tolist()) for k in range(int(classes.max()) + 1)]
