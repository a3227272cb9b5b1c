"""A simulatable auditor: it decides from the questions alone, so that a refusal tells nothing.

Kenthapadi, Mishra & Nissim (2005) call an auditor *simulatable* if whoever asks could have foreseen
each refusal from the questions and earlier answers. This one looks at the questions only. Visits
are sums over *atoms*, the pairs of place and slot; what follows linearly from exact answers is
their row space. A question is refused if, with it, the count of a region of fewer than `least`
atoms would follow: a single cell, or a few, by whatever differences of however many questions.

What it does **not** do:

* Definition 5 is about bits, and bits are also disclosed by what an answer *is*: a region of any
  size with the answer 0 says that nobody was there. No auditor that does not look at answers can
  prevent that.
* Support of at least k people is a fact about the data: an auditor that asks for it is not
  simulatable any more. `least` counts atoms, a public size, and a region of many atoms may hold
  one person.
* Different people are not sums over atoms, so that their number has no row space. It is not
  answered here at all.

Arithmetic is exact, in the integers modulo a prime: no rank is decided by rounding. A dependence
over the rationals is one modulo p unless p divides its denominator, which only questions made for
that purpose would bring about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled

Ints = NDArray[np.int64]
PRIME = (1 << 31) - 1
"""Products of two residues stay below 2^62."""
MOST_STEPS = 20_000
"""Of one search for regions. A search that is cut is a refusal; 1,000 discs by hours of a city of
989 zones needed at most some hundred."""
MOST_ENTRIES = 1 << 26
"""Of a basis (0.5 GiB). What does not fit is refused."""


@compiled
def _taken(of: NDArray[np.int32], places: Ints, slots: Ints, out: Ints) -> Ints:
    for place in places:
        for slot in slots:
            out[of[place, slot]] += 1
    return out


@compiled
def _renumber(of: NDArray[np.int32], places: Ints, slots: Ints, number: NDArray[np.int32]) -> None:
    for place in places:
        for slot in slots:
            of[place, slot] = number[of[place, slot]]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Atoms that no question so far separates: place x slot, the number of the atom's block."""

    of: NDArray[np.int32]
    cells: Ints
    """Atoms of every block."""

    @classmethod
    def whole(cls, places: int, slots: int) -> Blocks:
        """Before the first question: one block."""
        return cls(np.zeros((places, slots), np.int32), np.array([places * slots], np.int64))

    def cut(
        self, places: Sequence[int], slots: Sequence[int]
    ) -> tuple[Blocks, Ints, NDArray[np.bool_]]:
        """The blocks after one more question.

        Args:
            places: Numbers of the question's places.
            slots: Numbers of its slots.

        Returns:
            The blocks; which old ones were cut in two, whose parts inside of the question are the
            new numbers in this order; and which new blocks the question covers.
        """
        of = self.of.copy()
        where, when = np.asarray(places, np.int64), np.asarray(slots, np.int64)
        taken = _taken(of, where, when, np.zeros(self.cells.size, np.int64))
        split = np.flatnonzero((taken > 0) & (taken < self.cells))
        covered = np.concatenate([taken == self.cells, np.ones(split.size, bool)])
        if split.size:
            number = np.arange(self.cells.size, dtype=np.int32)
            number[split] = self.cells.size + np.arange(split.size, dtype=np.int32)
            _renumber(of, where, when, number)
        cells = np.concatenate([self.cells, taken[split]])
        cells[split] -= taken[split]
        return Blocks(of, cells), split, covered

    def atoms(self) -> tuple[Ints, Ints]:
        """Place and slot of one atom of every block."""
        _, first = np.unique(self.of.ravel(), return_index=True)
        return np.divmod(first, self.of.shape[1])

    def sums(self, of_atoms: Ints) -> Ints:
        """Sums over the blocks of a number for every atom (or of one for every place)."""
        weights = np.broadcast_to(of_atoms, self.of.shape).ravel()
        counted = np.bincount(self.of.ravel(), weights, minlength=self.cells.size)
        return np.rint(counted).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RowSpace:
    """What follows linearly from the questions so far: a reduced basis over blocks."""

    blocks: Blocks
    basis: Ints
    """Rows in reduced echelon form, modulo `PRIME`."""
    pivots: Ints
    """The column of each row where it alone is not zero, and is 1."""

    @classmethod
    def empty(cls, places: int, slots: int) -> RowSpace:
        """Before the first question."""
        start = Blocks.whole(places, slots)
        return cls(start, np.zeros((0, 1), np.int64), np.zeros(0, np.int64))

    def plus(
        self, places: Sequence[int], slots: Sequence[int]
    ) -> tuple[RowSpace, NDArray[np.bool_]]:
        """With one more question: the space, and which rows of its basis are new or changed."""
        blocks, split, covered = self.blocks.cut(places, slots)
        # Both parts of a block that was cut have the column that it had.
        basis = np.concatenate([self.basis, self.basis[:, split]], axis=1)
        # A question's entries are 0 and 1, so that reducing it is a sum of rows.
        rest = (covered - basis[covered[self.pivots]].sum(axis=0)) % PRIME
        some = np.flatnonzero(rest)
        if not some.size:
            return RowSpace(blocks, basis, self.pivots), np.zeros(len(basis), bool)
        column = int(some[0])
        row = rest * pow(int(rest[column]), -1, PRIME) % PRIME
        factors = basis[:, column]
        changed = factors != 0
        basis[changed] = (basis[changed] - factors[changed, None] * row) % PRIME
        basis = np.concatenate([basis, row[None]])
        return (
            RowSpace(blocks, basis, np.append(self.pivots, column)),
            np.append(changed, True),
        )

    @property
    def entries(self) -> int:
        return int(self.basis.size)

    def isolates(self, least: int, among: NDArray[np.bool_] | None = None) -> bool:
        """Whether the count of a region of fewer than `least` atoms follows.

        A region is a 0/1 vector, and on pivots every vector of the space shows which rows it is the
        sum of. So sums of rows are tried, whose pivots alone are few enough atoms. An entry that is
        neither 0 nor 1, or a block that is too large, must be changed by a further row that has an
        entry there; a region that is too large must lose one of its other blocks. Everything else
        is cut off, and no region is missed.

        Args:
            least: Atoms of the smallest region whose count may follow.
            among: Rows of which a sum has at least one, those that a question brought; all if none.

        Returns:
            True also where the search was cut off: what was not looked at is not allowed.
        """
        cells, basis, pivots = self.blocks.cells, self.basis, self.pivots
        small = cells[pivots] < least
        starts = np.flatnonzero(small if among is None else small & among)
        other = np.ones(cells.size, bool)
        other[pivots] = False
        seen: set[frozenset[int]] = set()
        todo = [frozenset([int(start)]) for start in starts]
        while todo:
            chosen = todo.pop()
            if chosen in seen:
                continue
            seen.add(chosen)
            if len(seen) > MOST_STEPS:
                return True
            rows = list(chosen)
            total = basis[rows].sum(axis=0) % PRIME
            wrong = np.flatnonzero((total > 1) | ((total == 1) & (cells >= least)))
            if wrong.size:
                using = basis[:, wrong] != 0
                # Any wrong entry must be put right: the one that fewest rows can.
                further = using[:, int(using.sum(axis=0).argmin())]
            else:
                if int(cells[total == 1].sum()) < least:
                    return True
                further = (basis[:, (total == 1) & other] != 0).any(axis=1)
            room = least - int(cells[pivots[rows]].sum())
            for row in np.flatnonzero(further & (cells[pivots] < room)):
                if int(row) not in chosen:
                    todo.append(chosen | {int(row)})
        return False
