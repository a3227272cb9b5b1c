"""`Auditor`: exact answers to counting questions, or a refusal. NOT differential privacy.

The chapter's first approach (Acs, Biczok & Castelluccia, section 3.1.1): answers stay exact, and
questions that would give a single visit away are refused. It is here to be shown beside the desk
(`sfumato query`), and for those who must publish exact counts and know what they do.

Two rules, and they exclude each other:

* `disclosure`: at least `k` different people in every answer; and no set of questions is answered
  with which, together with all that were answered before, full disclosure (Definition 5) is
  reached in a stated *universe*, or the rounded solution of eq. 2 beats guessing by a stated
  margin. The whole set is then refused. See `sfumato_lab.syntactic.disclosure`.
* `simulatable`: no question is answered with which the count of a region of fewer than `least`
  pairs of place and slot would follow. See `sfumato_lab.syntactic.rowspace`.

What breaks them:

* *Refusals leak* (`disclosure`): they depend on the data. Three people in one place: the question
  how many were there is refused exactly if nobody or everybody was, and whoever of them was there
  then knows about the others.
* *Cost*: deciding is coNP-hard, so that a program may run out of time; then it is a refusal.
* *Background knowledge*: whoever knows all visits but one learns that one from any answer, and no
  universe here sees it. John and the hospital: seven counts of different people, each of many,
  give the number of those who were in the hospital and at both of John's addresses.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.queries.question import Frame, Measure, Question
from sfumato.queries.workload import Workload
from sfumato_lab.syntactic.disclosure import FREE, MARGIN, SECONDS, Disclosure
from sfumato_lab.syntactic.log import QuestionLog
from sfumato_lab.syntactic.rowspace import MOST_ENTRIES, RowSpace
from sfumato_lab.syntactic.truth import Truth, Visits
from sfumato_lab.syntactic.universe import Answered, Ground, Universe

__all__ = ["Auditor", "Rule", "Universe", "Visits", "Why"]

Ints = NDArray[np.int64]


class Rule(StrEnum):
    DISCLOSURE = "disclosure"
    SIMULATABLE = "simulatable"


class Why(StrEnum):
    """Why a question was refused: INTERNAL, since all but `REGION` tell about the data."""

    SUPPORT = "fewer than k people"
    DISCLOSED = "full disclosure"
    RECOVERED = "reconstruction beats guessing"
    UNDECIDED = "could not be decided in time"
    REGION = "a region below the least size would follow"
    PEOPLE = "different people are not answered by this rule"


class Auditor:
    """Answers exactly or refuses. NOT differential privacy: see what breaks it, above.

    Args:
        frame: Places and slots, public.
        visits: Who was where (`Visits`), or whatever else counts it exactly.
        rule: `disclosure` or `simulatable`.
        k: Least number of different people in an answer; for `disclosure` alone, since it is a
            fact about the data.
        universe: `anyone` or `known`; for `disclosure` alone.
        people: How many there are, a public number: N of `anyone`.
        known: People known at each place, public: the bits of `known` there in every slot.
        order: Numbers of the places in a public order, along a Hilbert curve for example, in which
            ranges are decided exactly and fast. Default: as they are.
        margin: What the rounded solution of eq. 2 may recover above guessing; none leaves it out.
        least: Pairs of place and slot of the smallest region that may follow; for `simulatable`.
        log: File of the log, whose name ends in .internal.jsonl; none keeps it in memory.
        seconds: For one program of an audit.

    Raises:
        UsageError: Something is missing or does not go together.

    Example:
        >>> from datetime import timedelta
        >>> from sfumato.model.time_grid import TimeGrid
        >>> grid = TimeGrid(np.arange(3) * 3_600_000_000, timedelta(hours=1), "UTC")
        >>> frame = Frame(np.array(["a", "b"]), grid)
        >>> here = Visits(np.arange(8), np.arange(8) % 2, np.zeros(8, np.int64))
        >>> auditor = Auditor(frame, here, k=3, people=20)
        >>> auditor.answer(frame.question("visits", [0, 1], [0, 1]))
        8
        >>> auditor.answer(frame.question("visits", [0, 1], [1])) is None
        True
    """

    def __init__(
        self,
        frame: Frame,
        visits: Truth,
        *,
        rule: Rule | str = Rule.DISCLOSURE,
        k: int | None = None,
        universe: Universe | str | None = None,
        people: int | None = None,
        known: Ints | None = None,
        order: Ints | None = None,
        margin: float | None = MARGIN,
        least: int | None = None,
        log: str | os.PathLike[str] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._frame, self._visits = frame, visits
        self.rule, self.k, self.least = _named(Rule, rule), k, least
        self.margin, self._seconds = margin, seconds
        self.universe = None
        if self.rule is Rule.DISCLOSURE:
            self.universe = _named(Universe, universe or Universe.ANYONE)
        bits = self._capacity(people, known)
        rank = np.arange(frame.places) if order is None else np.argsort(order)
        self._ground = Ground(frame, visits.counts(frame), bits, rank)
        if self.rule is Rule.DISCLOSURE and (self._ground.counts > bits[:, None]).any():
            raise InputError(
                "More people were counted somewhere than the universe of the audit has.",
                remedy="Give `people`, or `known`, for all who may be in the data.",
            )
        self._answered = Answered()
        self._space = RowSpace.empty(frame.places, frame.slots)
        self._known: dict[str, int | None] = {}
        self._log = QuestionLog(log, self._about(people, known))
        self._why: list[Why | None] = []

    def _capacity(self, people: int | None, known: Ints | None) -> Ints:
        """Bits of each place in one slot, after a check that the options go together."""
        if self.rule is Rule.SIMULATABLE:
            if self.k is not None or people is not None or known is not None:
                raise UsageError(
                    "Support of k people is a fact about the data: with it the auditor would not "
                    "be simulatable.",
                    remedy="Give `least` alone, or take `rule='disclosure'`.",
                )
            if self.least is None or self.least < 2:
                raise UsageError(
                    "The simulatable rule needs the least region whose count may follow.",
                    remedy="Give `least`, at least 2 pairs of place and slot.",
                )
            return np.zeros(self._frame.places, np.int64)
        if self.least is not None or self.k is None or self.k < 1:
            raise UsageError(
                "The disclosure rule needs `k`, the least number of people in an answer.",
                remedy="Give `k=10`, for example; `least` is for the simulatable rule.",
            )
        if self.universe is Universe.KNOWN:
            if known is None or people is not None:
                raise UsageError(
                    "In the universe of known people it must be said how many are known where.",
                    remedy="Give `known`, and leave `people` out.",
                )
            bits = np.asarray(known, np.int64)
            if bits.shape != (self._frame.places,) or (bits < 0).any():
                raise UsageError("Known people are a whole number for each place.")
            return bits
        if people is None or people < 1 or known is not None:
            raise UsageError(
                "In the universe of anyone it must be said how many people there are.",
                remedy="Give `people`, a public number, and leave `known` out.",
            )
        return np.full(self._frame.places, people, np.int64)

    def _about(self, people: int | None, known: Ints | None) -> dict[str, Any]:
        """What a log is bound to. Of the data a digest of its counts."""
        digest = hashlib.sha256(self._ground.counts.tobytes()).hexdigest()
        roster = None if known is None else hashlib.sha256(self._ground.bits.tobytes()).hexdigest()
        return {
            "rule": str(self.rule),
            "k": self.k,
            "universe": None if self.universe is None else str(self.universe),
            "people": people,
            "known_people": roster,
            "margin": self.margin,
            "least": self.least,
            "map_or_period": self._frame.fingerprint,
            "data": digest,
        }

    @property
    def log(self) -> QuestionLog:
        return self._log

    @property
    def answered(self) -> int:
        """How many different questions were answered so far."""
        return sum(value is not None for value in self._known.values())

    @property
    def internal_reasons(self) -> list[Why | None]:
        """Why the questions of the last call were refused; none where they were not. INTERNAL."""
        return list(self._why)

    def answer(self, question: Question) -> int | None:
        """The exact answer to one question; none is a refusal."""
        return self([question])[0]

    def __call__(self, questions: Sequence[Question]) -> list[int | None]:
        """Exact answers to a set of questions, decided together; none is a refusal.

        What was asked before is answered, or refused, as it was then.

        Raises:
            UsageError: A question is about other places or slots; nothing was answered.
        """
        if any(question.frame != self._frame.fingerprint for question in questions):
            raise UsageError("A question is about other places or slots.")
        keys = [question.key() for question in questions]
        with self._log.locked() as news:
            for line in news:
                self._replay(line)
            fresh = {
                key: question
                for key, question in zip(keys, questions, strict=True)
                if key not in self._known
            }
            why: dict[str, Why] = {}
            if fresh:
                why, told = self._decide(fresh)
                self._log.append(
                    {
                        "questions": [question.stated() for question in fresh.values()],
                        "answers": [told[key] for key in fresh],
                        "why": [None if key not in why else str(why[key]) for key in fresh],
                    }
                )
                self._take(fresh, told)
        self._why = [why.get(key) for key in keys]
        return [self._known[key] for key in keys]

    def _replay(self, line: dict[str, Any]) -> None:
        asked = [self._frame.stored(stated) for stated in line["questions"]]
        by_key = {question.key(): question for question in asked}
        self._take(by_key, dict(zip(by_key, line["answers"], strict=True)))

    def _take(self, asked: Mapping[str, Question], told: Mapping[str, int | None]) -> None:
        """Remember what became of questions."""
        for key, question in asked.items():
            value = self._known[key] = told[key]
            if value is None:
                continue
            if self.rule is Rule.SIMULATABLE:
                self._space, _ = self._space.plus(question.places, question.slots)
            else:
                self._answered = self._ground.plus(self._answered, question, value)

    def exact(self, question: Question) -> int:
        """The truth, which no rule has looked at yet. INTERNAL."""
        return self._truth({"": question})[""]

    def _decide(
        self, asked: Mapping[str, Question]
    ) -> tuple[dict[str, Why], dict[str, int | None]]:
        """Which of these questions are refused, and what is told about each."""
        if self.rule is Rule.SIMULATABLE:
            why = self._region(list(asked.values()))
            if why is not None:  # decided from the questions: no answer is even looked up
                return dict.fromkeys(asked, why), dict.fromkeys(asked)
            return {}, dict(self._truth(asked))
        assert self.k is not None
        answers = self._truth(asked)
        support = self._support(asked, answers)
        refused: dict[str, Why] = {
            key: Why.SUPPORT for key, people in support.items() if people < self.k
        }
        trial = self._answered
        left = [key for key in asked if key not in refused]
        for key in left:
            trial = self._ground.plus(trial, asked[key], answers[key])
        if left and (why := self._attacked(trial)) is not None:
            refused |= dict.fromkeys(left, why)
        return refused, {key: None if key in refused else answers[key] for key in asked}

    def _truth(self, asked: Mapping[str, Question]) -> dict[str, int]:
        """The true answers, all at once."""
        people = {k: q for k, q in asked.items() if q.measure is Measure.UNIQUE_PEOPLE}
        visits = {k: q for k, q in asked.items() if k not in people}
        found = dict(
            zip(people, self._visits.people(list(people.values()), self._frame), strict=True)
        )
        if visits:
            rows = Workload.of(self._ground.counts.shape, visits.values())
            found |= dict(zip(visits, rows.sums(self._ground.counts), strict=True))
        return {key: int(found[key]) for key in asked}

    def _support(self, asked: Mapping[str, Question], answers: dict[str, int]) -> dict[str, int]:
        """Different people in each question, or k where there are at least so many."""
        visits = {k: q for k, q in asked.items() if q.measure is Measure.VISITS}
        people = self._visits.people(list(visits.values()), self._frame, self.k)
        return answers | dict(zip(visits, people.tolist(), strict=True))

    def _region(self, questions: list[Question]) -> Why | None:
        assert self.least is not None
        if any(question.measure is Measure.UNIQUE_PEOPLE for question in questions):
            return Why.PEOPLE
        space = self._space
        for question in questions:
            if (len(space.basis) + 1) * (2 * space.blocks.cells.size) > MOST_ENTRIES:
                return Why.UNDECIDED
            space, changed = space.plus(question.places, question.slots)
            if changed.any() and space.isolates(self.least, changed):
                return Why.REGION
        return None

    def _attacked(self, answered: Answered) -> Why | None:
        """Whether an attack with these answers would be successful, and by what."""
        found = self._audited(answered)
        if not found.decided:
            return Why.UNDECIDED
        if (found.state != FREE).any():
            return Why.DISCLOSED
        if self.margin is not None and found.recovered > found.guessed + self.margin:
            return Why.RECOVERED
        return None

    def audit(self) -> Disclosure:
        """What all answers so far disclose. INTERNAL: it compares with the truth."""
        return self._audited(self._answered)

    def _audited(self, answered: Answered) -> Disclosure:
        return self._ground.disclosed(answered, margin=self.margin, seconds=self._seconds)


def _named(kind: Any, word: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        raise UsageError(
            f"There is no {kind.__name__.lower()} {str(word)[:40]!r}.",
            remedy=f"Choose from {', '.join(kind)}.",
        ) from None
