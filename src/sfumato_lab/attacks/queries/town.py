"""The ground of the games: zones with one known person each, and desks that answer about them.

Dinur & Nissim (2003) and Dwork & Yekhanin (2008) speak of n people and sets of them. In the
language of questions that is a slot in which each of n zones can hold one person, whom the
adversary knows by name: "somebody in this zone" is "this person was there", and a set of zones is
a set of people. Thin nights and fine grids are like that; homes are. The bit is whether the
person's record is there, so bits are neighbours by adding or removing a person, which is what
(e^epsilon + delta) / (1 + e^epsilon) is about. Some more zones are known to be empty (a lake); they
change no answer, and make paraphrases.

An attack is given an `Answerer`, a town and nothing else. What it may be given here:

* `exact`, `threshold` (refuses below k), `bounded` (an error of at most alpha, the model of the two
  papers);
* `fresh` and `sticky` noise, drawn for each answer or by the question's key, for ever and free;
* `private`: the mechanism of the private desk. Every new question is charged its share of the
  budget before it is answered and refused when nothing is left; an equal question has the stored
  answer. The noise is a seed's: a game that is played often cannot use up ledgers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private as Box
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale
from sfumato.privacy.wall import Wall
from sfumato.queries.question import Frame, Measure, Question
from sfumato_lab.syntactic.truth import Visits

Answerer = Callable[[Sequence[Question]], Sequence[float | None]]
"""Questions in, answers out; None is a refusal."""
Bits = NDArray[np.bool_]
Masks = NDArray[np.bool_]
Values = NDArray[np.float64]


Count = Callable[[Question], int]
"""The exact answer to a question. INTERNAL."""


def counter(held: Visits, frame: Frame) -> Count:
    """Exact answers from records."""
    cells = held.counts(frame)

    def count(question: Question) -> int:
        if question.measure is Measure.UNIQUE_PEOPLE:
            return held.people_in(question, frame)
        return int(cells[np.ix_(question.places, question.slots)].sum())

    return count


@dataclass(frozen=True, slots=True, eq=False)
class Town:
    """Zone i is person i's, for the first `people` zones; nobody is ever in the others."""

    people: int
    frame: Frame

    @classmethod
    def of(cls, people: int, empty: int = 16) -> Town:
        """A town of so many people and so many empty zones, in one hour of one night."""
        if people < 1 or empty < 0:
            raise UsageError("A town has at least one person.")
        ids = np.array([f"home-{i}" for i in range(people)] + [f"lake-{i}" for i in range(empty)])
        day = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "1d", "UTC")
        return cls(people, Frame(ids, day))

    @property
    def empty(self) -> int:
        """Zones in which nobody ever is."""
        return self.frame.places - self.people

    def question(self, who: Bits, padding: Sequence[int] = ()) -> Question:
        """How many of these people were at home; `padding` are empty zones that it also names.

        It asks for visits, of which nobody has more than one: some desks count only those.
        """
        zones = np.flatnonzero(who).tolist() + [self.people + lake for lake in padding]
        return self.frame.question(Measure.VISITS, zones, (0,))

    def ask(self, answerer: Answerer, masks: Masks) -> Values:
        """An answer for each mask; not a number where it was refused. Nobody is in nothing."""
        asked = np.flatnonzero(masks.any(axis=1))
        out = np.zeros(len(masks))
        heard = answerer([self.question(masks[row]) for row in asked])
        out[asked] = [np.nan if one is None else float(one) for one in heard]
        return out

    def visits(self, bits: Bits) -> Visits:
        """The records of the people whose bit is 1."""
        home = np.flatnonzero(bits)
        return Visits(home, home, np.zeros(len(home), np.int64))

    def counter(self, bits: Bits) -> Count:
        """Exact answers about the people whose bit is 1."""
        return counter(self.visits(bits), self.frame)


def exact(count: Count) -> Answerer:
    """The truth, always."""
    return lambda questions: [count(one) for one in questions]


def threshold(count: Count, k: int) -> Answerer:
    """The truth about at least k, and a refusal below."""

    def answer(questions: Sequence[Question]) -> list[float | None]:
        found = [count(one) for one in questions]
        return [None if one < k else float(one) for one in found]

    return answer


def bounded(count: Count, alpha: float, rng: np.random.Generator) -> Answerer:
    """The truth with an error drawn evenly from -alpha to alpha."""
    return lambda questions: [count(one) + rng.uniform(-alpha, alpha) for one in questions]


def fresh(count: Count, sd: float, rng: np.random.Generator) -> Answerer:
    """Normal noise of its own for every answer, as often as one asks."""
    return lambda questions: [count(one) + rng.normal(0.0, sd) for one in questions]


def sticky(count: Count, sd: float, seed: int) -> Answerer:
    """Normal noise that follows from the question's canonical form: the same for ever."""

    def noise(question: Question) -> float:
        words = np.frombuffer(question.key().encode(), np.uint8)
        return float(np.random.default_rng([seed, *words.tolist()]).normal(0.0, sd))

    return lambda questions: [count(one) + noise(one) for one in questions]


@lru_cache(maxsize=256)  # a search makes thousands of desks of one kind
def _scale(epsilon: float, delta: float, questions: int) -> Fraction:
    """Variance of the Gaussian, or scale of the Laplace noise where delta is 0."""
    if delta:
        return gaussian_sigma2(1.0, zcdp_rho(epsilon, delta) / questions)
    return laplace_scale(1.0, epsilon / questions)


class Private:
    """The private desk's mechanisms for single questions, at a budget of (epsilon, delta).

    A question is a count of sensitivity 1. It costs rho / `questions` of zCDP with discrete
    Gaussian noise; with delta 0 it costs epsilon / `questions` with discrete Laplace noise.
    """

    def __init__(
        self, count: Count, epsilon: float, delta: float, questions: int, seed: int
    ) -> None:
        self._count, self._left = count, questions
        scale, wall = _scale(epsilon, delta, questions), Wall.seeded(seed)
        # All noise in one measurement of zeros, each of which one person moves by one.
        zeros = np.zeros(questions, np.int64)
        box = Box(Counts(zeros, 1, 1.0, 1.0, Counting.VISITS, "noise of a game"), "noise of a game")
        noise = (
            wall.gaussian(box, sigma2=scale, label="answers")
            if delta
            else wall.laplace(box, scale=scale, label="answers")
        )
        self._noise = noise.estimate()
        self._stored: dict[str, float] = {}

    @staticmethod
    def variance(epsilon: float, delta: float, questions: int) -> float:
        """Of each answer where the budget is for so many questions."""
        scale = _scale(epsilon, delta, questions)
        return float(scale) if delta else 2 * float(scale) ** 2

    def __call__(self, questions: Sequence[Question]) -> list[float | None]:
        return [self._one(one) for one in questions]

    def _one(self, question: Question) -> float | None:
        key = question.key()
        if key not in self._stored:
            if not self._left:
                return None
            self._left -= 1
            self._stored[key] = float(self._count(question) + self._noise[self._left])
        return self._stored[key]
