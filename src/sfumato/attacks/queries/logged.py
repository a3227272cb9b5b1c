"""Differencing over a log: sets of answered questions that together give a few people away.

Every answer in a log may be of many people, and a sum of some of them still be of few. Three kinds
of set are looked for, each with its count below k:

* *difference*: a question inside of another. What is left over is counted, too.
* *rest*: a whole less two to six parts of it that do not meet, for visits, which add up. Left over
  are at most `rest` pairs of place and slot.
* *overlap*: inclusion and exclusion. Two or three questions and all their unions tell how many were
  in each of them (three answers, or seven: John and the hospital of Acs, Biczok & Castelluccia);
  two that share an inner question tell how many were in both but not in that (four answers). A
  union is a question where the two have the same slots, or the same places.

All hold for people and for visits (a visit is in a set of pairs if its pair is). The count follows
from the answers by arithmetic, so that there are no false alarms, only counts of nobody. The search
reads questions and answers, no record. It sorts by answer, keeps gaps below k, and then asks for
containment of cells; unions are looked up by hash; a whole is laid out cell by cell from the
questions that begin there. Each stage is exhaustive up to a number of steps, and says how far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.queries.isolate import nested, overlaps, rests
from sfumato.errors import UsageError
from sfumato.model.masks import MOST_QUESTIONS, WORD, Measure, Words
from sfumato.queries.question import Question

Ints = NDArray[np.int64]
MOST_FOUND = 10_000
"""Sets that one stage lists; more are counted as `complete=False`."""
MOST_BYTES = 1 << 30
"""Of the questions' bits."""
STEPS = 50_000_000
"""Of one stage: about ten seconds. A log of all ranges of a line would otherwise never end."""
REST = 200
"""Pairs of place and slot that may be left over of a whole: a place's week of hours."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """Questions whose answers add up to a count of few."""

    kind: str
    """`difference`, `rest` or `overlap`."""
    measure: Measure
    questions: tuple[int, ...]
    """As numbers of the log, from 0; the first is the largest of a difference or a rest."""
    signs: tuple[int, ...]
    count: int
    """Visits, or people, that follow: below k, and 0 is nobody."""


@dataclass(frozen=True, slots=True)
class LogAttacked:
    """What a log gives away. INTERNAL: it holds exact counts of few people."""

    found: tuple[Isolated, ...]
    """Those about somebody first, then by the number of questions."""
    questions: int
    answered: int
    """Different questions with an answer."""
    k: int
    complete: bool
    """Whether every difference and overlap was listed; otherwise steps or room ran out."""
    rest: int
    """Up to so many pairs of place and slot left over, every rest was listed."""

    @property
    def somebody(self) -> int:
        """Sets whose count is not 0."""
        return sum(one.count > 0 for one in self.found)


def attack_log(
    log: Sequence[tuple[Question, float | None]],
    *,
    k: int,
    rest: int = REST,
    steps: int = STEPS,
) -> LogAttacked:
    """Sets of two to seven exact answers from which a count below k follows. INTERNAL.

    Args:
        log: Questions with their answers, none where they were refused; all about one frame.
        k: Counts below it are found.
        rest: Most pairs of place and slot that are left over of a whole.
        steps: Of each stage; where they run out, `complete` is false or `rest` smaller.

    Returns:
        The sets, each with the count that follows.

    Raises:
        UsageError: Questions are about different places or slots, or there are too many.

    Example:
        >>> from sfumato_lab.attacks.queries.town import Town, threshold
        >>> town = Town.of(12)
        >>> desk = threshold(town.counter(np.ones(12, bool)), 3)
        >>> ranges = [(0, 12), (0, 5), (6, 12), (2, 9)]
        >>> asked = [town.question(np.isin(np.arange(12), range(*one))) for one in ranges]
        >>> (one,) = attack_log(list(zip(asked, desk(asked))), k=3).found
        >>> one.kind, one.questions, one.count
        ('rest', (0, 1, 2), 1)
    """
    if k < 1 or rest < 1 or steps < 1:
        raise UsageError("`k`, `rest` and `steps` are at least 1.")
    if len({question.frame for question, _ in log}) > 1:
        raise UsageError("The questions of the log are about different places or slots.")
    first: dict[Question, int] = {}
    answers: dict[Question, float] = {}
    for number, (question, answer) in enumerate(log):
        if answer is not None and first.setdefault(question, number) == number:
            answers[question] = answer
    if len(first) > MOST_QUESTIONS:
        raise UsageError(f"A log has at most {MOST_QUESTIONS:,} different answered questions.")
    found: list[Isolated] = []
    complete, seen = True, rest
    for measure in Measure:
        mine = [question for question in first if question.measure is measure]
        if len(mine) < 2:
            continue
        searched = _Log.of(mine, [answers[one] for one in mine], np.array([first[q] for q in mine]))
        for sets, whole in (searched.differences(k, steps), searched.overlaps(k, steps)):
            found += sets
            complete &= whole
        if searched.additive:
            rests, seen = searched.rests(k, rest, steps)
            found += rests
    found.sort(key=lambda one: (one.count == 0, len(one.questions), one.count, one.questions))
    return LogAttacked(tuple(found), len(log), len(first), k, complete, seen)


Sets = list[Isolated]


@dataclass(frozen=True, slots=True, eq=False)
class _Log:
    """Questions of one measure, in the order of their answers, as bits."""

    number: Ints
    answers: Ints
    places: Words
    slots: Words
    measure: Measure

    @property
    def additive(self) -> bool:
        """Whether counts of questions that do not meet add up."""
        return self.measure is Measure.VISITS

    @classmethod
    def of(cls, questions: list[Question], answers: list[float], number: Ints) -> _Log:
        exact = np.array([round(one) for one in answers], np.int64)
        if not np.array_equal(exact, np.array(answers, np.float64)):
            raise UsageError(
                "A log of exact answers holds whole numbers.",
                remedy="Noisy answers are attacked by reconstruction, not by differences.",
            )
        order = np.lexsort((number, exact))
        chosen = [questions[k] for k in order]
        places, slots = (
            _bits([one.places for one in chosen]),
            _bits([one.slots for one in chosen]),
        )
        return cls(number[order], exact[order], places, slots, questions[0].measure)

    def differences(self, k: int, steps: int) -> tuple[Sets, bool]:
        pairs, whole = nested(self.answers, self.places, self.slots, k, MOST_FOUND, steps)
        return [
            self._set("difference", (outer, inner), (1, -1)) for inner, outer in pairs.tolist()
        ], whole

    def rests(self, k: int, rest: int, steps: int) -> tuple[Sets, int]:
        rows, seen = rests(self.answers, self.places, self.slots, k, rest, MOST_FOUND, steps)
        found = []
        for row in rows.tolist():
            members = tuple(one for one in row if one >= 0)
            found.append(self._set("rest", members, (1, *[-1] * (len(members) - 1))))
        return found, seen

    def overlaps(self, k: int, steps: int) -> tuple[Sets, bool]:
        """Unions of places where the slots are the same, then of slots where the places are."""
        found: Sets = []
        complete = True
        for same, sets in ((self.slots, self.places), (self.places, self.slots)):
            _, group = np.unique(same, axis=0, return_inverse=True)
            group = group.ravel()
            by_group = np.argsort(group, kind="stable")
            ends = np.flatnonzero(np.diff(group[by_group], append=-1)) + 1
            for members in np.split(by_group, ends[:-1]):
                if len(members) < 3:
                    continue
                rows, whole = overlaps(
                    self.answers[members], sets[members], k, self.additive, MOST_FOUND, steps
                )
                complete &= whole
                for row in rows.tolist():
                    chosen = tuple(int(members[one]) for one in row if one >= 0)
                    found.append(self._set("overlap", chosen, _SIGNS[len(chosen)]))
        return found, complete

    def _set(self, kind: str, members: tuple[int, ...], signs: tuple[int, ...]) -> Isolated:
        chosen = np.array(members)
        numbers = tuple(int(one) for one in self.number[chosen])
        count = int(self.answers[chosen] @ np.array(signs))
        return Isolated(kind, self.measure, numbers, signs, count)


_SIGNS = {3: (1, 1, -1), 4: (1, 1, -1, -1), 7: (1, 1, 1, -1, -1, -1, 1)}
"""Of two questions and their union, with an inner one, and of three with all their unions."""


def _bits(members: list[tuple[int, ...]]) -> Words:
    """A row of bits for each set, over the numbers that any of them names."""
    named = np.unique(np.concatenate([np.asarray(one, np.int64) for one in members]))
    words = -(-named.size // WORD)
    if 8 * words * len(members) > MOST_BYTES:
        raise UsageError(
            "The log names too many places or slots to be searched at once.",
            remedy="Attack a part of it: one region, or one week.",
        )
    out = np.zeros((len(members), words), np.uint64)
    for row, one in enumerate(members):
        at = np.searchsorted(named, np.asarray(one, np.int64))
        np.bitwise_or.at(out[row], at // WORD, np.uint64(1) << (at % WORD).astype(np.uint64))
    return out
