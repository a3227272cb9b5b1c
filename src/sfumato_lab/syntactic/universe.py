"""The two universes of an audit, and what a log of answers discloses in them. INTERNAL.

A universe says which bits an adversary is taken to think possible
(`sfumato_lab.syntactic.disclosure`):

* `anyone`, the chapter's D_(i,L,t): any of N people may have been in any place and slot. All people
  are exchangeable, so that a pair of place and slot has N bits with identical columns, and a visit
  is disclosed only where nobody or everybody was. One person among many is never seen: John's
  visit is learnt from seven answers, and this universe lets them through.
* `known`, Kleinberg's: known people, one bit each, at known places. With one person at each place
  every visit can be disclosed, and is noticed.

The number of *different people* is no sum of bits. It bounds the visits of its question from below
(each made one) and from above (one in every cell), which is what the audit makes of it. Visits are
audited exactly; counts of different people may disclose more than the audit sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from sfumato.queries.question import Frame, Measure, Question
from sfumato_lab.syntactic.disclosure import (
    Disclosure,
    System,
    disclosure,
    forced_ranges,
    merged_ranges,
)
from sfumato_lab.syntactic.rowspace import Blocks

Ints = NDArray[np.int64]
Span = tuple[int, int]


class Universe(StrEnum):
    """What an adversary is taken to think possible."""

    ANYONE = "anyone"
    """The chapter's D_(i,L,t): any of N people in any place and slot."""
    KNOWN = "known"
    """Kleinberg's: known people, one bit each, where they are known to live."""


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Questions that were answered: as runs of atoms, or with the blocks that they leave."""

    questions: tuple[Question, ...] = ()
    answers: tuple[int, ...] = ()
    spans: tuple[tuple[Span, ...] | None, ...] = ((), ())
    """Each question as a run of atoms, place by place or slot by slot; none once one is no run."""
    blocks: Blocks | None = None
    """None while all questions are ranges in one order: then runs of atoms do."""


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Bits and truth: what every log of answers about the same people is audited against."""

    frame: Frame
    counts: Ints
    """Visits by place and slot: the truth."""
    bits: Ints
    """People who may be in each place, in one slot."""
    rank: Ints
    """Where each place stands in the public order."""

    def plus(self, before: Answered, question: Question, answer: int) -> Answered:
        """With one more answer."""
        spans = []
        for so_far, by_place in zip(before.spans, (True, False), strict=True):
            span = None if so_far is None else self._span(question, by_place)
            spans.append(None if so_far is None or span is None else (*so_far, span))
        blocks = before.blocks
        if spans == [None, None]:
            if blocks is None:
                blocks = Blocks.whole(*self.counts.shape)
                for earlier in before.questions:
                    blocks, *_ = blocks.cut(earlier.places, earlier.slots)
            blocks, *_ = blocks.cut(question.places, question.slots)
        asked, told = (*before.questions, question), (*before.answers, answer)
        return Answered(asked, told, tuple(spans), blocks)

    def disclosed(self, answered: Answered, *, margin: float | None, seconds: float) -> Disclosure:
        """Definition 5 and eq. 2: exactly and fast for ranges, by integer programs elsewhere."""
        system, totals, known = self.system(answered)
        return disclosure(system, totals, known, margin=margin, seconds=seconds)

    def system(self, answered: Answered) -> tuple[System, Ints, NDArray[np.int8] | None]:
        """The answers as equations over blocks, the true totals, and every block's state.

        The state is there where all questions are ranges in one order; elsewhere programs tell.
        """
        for spans, by_place in zip(answered.spans, (True, False), strict=True):
            if spans is not None:
                return self._of_runs(np.array(spans, np.int64).reshape(-1, 2), by_place, answered)
        blocks = answered.blocks
        assert blocks is not None, "what is no range has blocks"
        place, slot = blocks.atoms()
        covers = np.zeros((len(answered.questions), place.size), bool)
        for row, question in enumerate(answered.questions):
            covers[row] = np.isin(place, question.places) & np.isin(slot, question.slots)
        sizes, totals = blocks.sums(self.bits[:, None]), blocks.sums(self.counts)
        answers = np.array(answered.answers, np.int64)
        many = np.array([q.measure is Measure.UNIQUE_PEOPLE for q in answered.questions], bool)
        high = np.where(many, answers * (covers @ blocks.cells), answers)
        most = sizes.copy()
        for inside, people in zip(covers[many], answers[many], strict=True):
            most[inside] = np.minimum(most[inside], people * blocks.cells[inside])
        return System(sizes, csr_array(covers.astype(np.int64)), answers, high, most), totals, None

    def _of_runs(
        self, cut: Ints, by_place: bool, answered: Answered
    ) -> tuple[System, Ints, NDArray[np.int8]]:
        """Runs of atoms between the ends of ranges: at most two a question and one more."""
        along = np.argsort(self.rank)
        cells, left, right = merged_ranges(self.counts.size, cut[:, 0], cut[:, 1])
        edges = np.concatenate([[0], np.cumsum(cells)])
        tables = np.broadcast_to(self.bits[:, None], self.counts.shape), self.counts
        ordered = [table[along] if by_place else table[along].T for table in tables]
        sums = [np.concatenate([[0], np.cumsum(table.ravel())])[edges] for table in ordered]
        sizes, totals = np.diff(sums[0]), np.diff(sums[1])
        answers = np.array(answered.answers, np.int64)
        state = forced_ranges(sizes, left, right, answers, totals)
        # The same equations with few entries, for eq. 2: ends that questions join, one by one. From
        # one to the next of them is a range whose count follows, and from these follow all answers.
        arcs = coo_array((np.ones(left.size, bool), (left, right)), shape=(edges.size, edges.size))
        joined = connected_components(arcs.tocsr(), directed=False)[1]
        node = np.argsort(joined, kind="stable")
        same = joined[node[:-1]] == joined[node[1:]]
        left, right = node[:-1][same], node[1:][same]
        lengths = right - left
        ends = np.concatenate([[0], np.cumsum(lengths)])
        column = np.arange(ends[-1]) + np.repeat(left - ends[:-1], lengths)
        ones = np.ones(column.size, np.int64)
        rows = csr_array((ones, column, ends), shape=(left.size, sizes.size))
        return System.of(sizes, rows, sums[1][right] - sums[1][left]), totals, state

    def _span(self, question: Question, by_place: bool) -> Span | None:
        """First atom and one past the last, where the question is a run of them in this order."""
        if question.measure is Measure.UNIQUE_PEOPLE:
            return None
        places, slots = self.rank[np.asarray(question.places)], question.slots
        where = int(places.min()), len(question.places), self.frame.places
        when = slots[0], len(slots), self.frame.slots
        if int(places.max()) - where[0] + 1 != where[1] or slots[-1] - when[0] + 1 != when[1]:
            return None
        (outer, many, _), (inner, few, width) = (where, when) if by_place else (when, where)
        if many > 1 and few < width:
            return None
        first = outer * width + inner
        return first, first + many * few
