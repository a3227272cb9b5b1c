"""Private multiplicative weights: questions that nobody knew beforehand, most of them for nothing.

After Hardt & Rothblum (2010), corrected. A *session* holds a hypothesis, a table of places x slots
that begins as a release. Each question is tested: is the hypothesis further from the true answer
than a public threshold? If not, the hypothesis answers, and only the test was spent on it. If so,
the answer is measured afresh with noise of its own, given, and the hypothesis is corrected by it
(`mwem.fitted`). After c corrections the data is not asked any more: the hypothesis answers.

What is fixed and public before the first question: the clip D (a person counts at most D visits in
one question), the threshold, and c. All of it is reserved when the session opens.

*Claim.* Unit: a user's whole record; neighbours add or remove one. A test asks whether
|answer - hypothesis|, which a person moves by at most D, reaches the threshold. One threshold noise
Lap(b_T) is drawn for the whole session, fresh noise Lap(b_q) for every test, and at most c tests
say yes: pure epsilon = D / b_T + 2 c D / b_q, however many questions there are
(`mechanisms.sparse_vector`). With b_q = 2 c D / epsilon_q the second part is epsilon_q. Distances
are not monotone in the data, so the factor 2 stays. An update is measured anew, not read off the
test: Laplace noise Lap(b_u) costs D / b_u, c times. The session is pure in sum. Hypotheses are made
of the release and of measured updates, so they are public.

(Gaussian updates would need less noise from about ten of them on. But pure tests and Gaussian
updates add up in zero-concentrated DP only, where half of an epsilon of 1 in tests alone counts
as much as Gaussian noise of epsilon 2.5 at delta 5e-7.)

*Kills.* Threshold and noise come from the session's key by label and number, so another process
draws the same again. A turn is written down with its question before it is drawn, and with its
answer before that is shown: no number ever meets two questions.

*Copies.* A ledger that was restored from a copy, with its keys, has forgotten turns that were
shown. Where a session may be gone back to (`bound`), the noise of a turn is therefore bound to its
question and to what the hypothesis said, too: the turn that comes in place of a forgotten one has
noise of its own unless it is the same turn. What both show together is a longer session under one
threshold: its tests and updates add up, and no difference of two answers is free of noise.

Answers of the hypothesis come without an interval: how far it is off was tested, not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.calibration import laplace_scale, sparse_scales
from sfumato.privacy.events import LaplaceEvent, PrivacyEvent, PureEvent
from sfumato.privacy.exact import decimal_up, exact
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.wall import Wall
from sfumato.queries.workload import Asked, Table, Workload
from sfumato_lab.queries.mwem import Hypothesis, Measured, fitted

TESTS = "tests"
"""Label of the sparse vector of a session."""
TESTING = 0.5
"""Share of epsilon for the tests."""
_FIRM = 6.0
"""The threshold in scales of a test's noise, where none is given: of a thousand questions that the
hypothesis answers exactly, about one is taken for wrong (exp(-6) / 2)."""
_HALF_WIDTH = math.log(10)
"""Scales on either side that hold 90 in 100 draws of Laplace noise."""
_FURTHEST = 1 << 60


@dataclass(frozen=True, slots=True)
class Terms:
    """What is public about a session before its first question."""

    clip: int
    threshold: int
    updates: int
    threshold_scale: Fraction
    query_scale: Fraction
    update_scale: Fraction

    @property
    def events(self) -> dict[str, PrivacyEvent]:
        """Everything that is reserved when the session opens, by label."""
        clip, most = self.clip, self.updates
        loss = clip / self.threshold_scale + 2 * most * clip / self.query_scale
        found: dict[str, PrivacyEvent] = {TESTS: PureEvent(decimal_up(loss), "sparse vector")}
        update = LaplaceEvent(float(clip), self.update_scale)
        return found | {_update(number): update for number in range(1, most + 1)}

    @property
    def plus_minus(self) -> float:
        """90 % half-width of a measured answer."""
        return _HALF_WIDTH * float(self.update_scale)


def _update(number: int) -> str:
    return f"update {number}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a session and what it was told."""

    number: int
    question: Asked
    answer: float
    updated: bool
    """Whether the answer was measured, and the hypothesis corrected by it."""
    plus_minus: float | None = None
    """90 % half-width of the noise, where the answer was measured."""


def plan_session(
    *,
    epsilon: float,
    clip: int,
    updates: int,
    threshold: int | None = None,
    testing: float = TESTING,
) -> Terms:
    """The terms of a session that costs at most epsilon, outright.

    Args:
        epsilon: Of all tests and updates together.
        clip: D, the most visits that one person counts in one question.
        updates: c, how often the hypothesis may be corrected.
        threshold: How far it may be off, in visits; six scales of the tests' noise if not given.
        testing: Share of epsilon that pays for the tests.

    Returns:
        The terms.

    Raises:
        UsageError: A number is out of range.

    Example:
        >>> terms = plan_session(epsilon=1.0, clip=8, updates=10)
        >>> list(terms.events)[:2]
        ['tests', 'update 1']
    """
    if not 1 <= clip < _FURTHEST >> 7 or not 1 <= updates <= 10_000:
        raise UsageError("A session has a clip of at least 1 and between 1 and 10,000 updates.")
    if not 0 < testing < 1:
        raise UsageError("Tests and updates both need a share of the budget.")
    tests = exact(epsilon) * exact(testing)
    b_t, b_q = sparse_scales(tests, clip, updates)
    scale = laplace_scale(float(clip), (exact(epsilon) - tests) / updates)
    far = math.ceil(_FIRM * float(b_q)) if threshold is None else threshold
    if not 0 <= far < _FURTHEST:
        raise UsageError("The threshold of a session is a number of visits.")
    return Terms(clip, far, updates, b_t, b_q, scale)


@dataclass(eq=False)
class Session:
    """The questions of one session, in their order. `turns` are those that were answered before.

    Whoever holds it lets one question through at a time and keeps every turn (`Turn`).
    """

    terms: Terms
    start: Table
    """The release's table."""
    wall: Wall
    turns: list[Turn] = field(default_factory=list)
    bound: bool = False
    """Whether noise is that of question and hypothesis too, not of the turn's number alone."""

    def __post_init__(self) -> None:
        self._begun = begun(self.start)
        self._hypothesis: Hypothesis | None = None
        self._tests = self.wall.sparse_vector(
            threshold=self.terms.threshold,
            sensitivity=self.terms.clip,
            positives=self.terms.updates,
            threshold_scale=self.terms.threshold_scale,
            query_scale=self.terms.query_scale,
            label=TESTS,
            used=len(self._updates),
        )

    @property
    def _updates(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.updated]

    @property
    def finished(self) -> bool:
        """Whether all updates are used up: from here on the data is not asked."""
        return self._tests.finished

    @property
    def hypothesis(self) -> Hypothesis:
        """The release, corrected by every update in turn: computed from public numbers."""
        if self._hypothesis is None:
            self._hypothesis = corrected(self._begun, self._updates)
        return self._hypothesis

    def ask(self, question: Asked, count: Callable[[], Private[Counts]]) -> Turn:
        """Answer the next question.

        Args:
            question: Its places and slots.
            count: Counts it, every person at most `clip` times; called unless the session is
                finished.

        Returns:
            The turn, which is also added to `turns`.
        """
        number = len(self.turns) + 1
        rows = Workload.of(self._begun.shape, [question])
        guess = float(self.hypothesis.answers(rows)[0])
        if self.finished:
            return self._kept(Turn(number, question, guess, False))
        box = count()
        about = _about(question, round(guess)) if self.bound else ""
        if not self._tests.above(self._distance(box, round(guess)), number, about):
            return self._kept(Turn(number, question, guess, False))
        label = _update(len(self._updates) + 1)
        measured = self.wall.laplace(box, scale=self.terms.update_scale, label=label, about=about)
        answer = float(measured.estimate()[0])
        return self._kept(Turn(number, question, answer, True, self.terms.plus_minus))

    def _kept(self, turn: Turn) -> Turn:
        self.turns.append(turn)
        if turn.updated:
            self._hypothesis = None
        return turn

    def _distance(self, box: Private[Counts], guess: int) -> Private[int]:
        clip = self.terms.clip

        def distance(counts: Counts) -> int:
            if counts.values.size != 1 or counts.units_per_count != 1 or counts.l1 > clip:
                raise UsageError("A session's answer counts every person at most `clip` times.")
            return min(abs(int(counts.values.ravel()[0]) - guess), _FURTHEST)

        return box.map(distance, "distance to the hypothesis")


def _about(question: Asked, guess: int) -> str:
    return digest([list(question.places), list(question.slots), guess])


def begun(start: Table) -> Table:
    """The table that a session begins with: nowhere zero, since such a cell would stay there.

    Raises:
        UsageError: It is no table, or empty.
    """
    found = np.maximum(np.asarray(start, dtype=np.float64), 0.0)
    mean = float(found.mean()) if found.size else 0.0
    if found.ndim != 2 or not mean > 0:
        raise UsageError("A session begins with a table of places and slots that is not empty.")
    return np.maximum(found, 1e-3 * mean)


def corrected(start: Table, updates: Sequence[Turn]) -> Hypothesis:
    """The hypothesis after these updates, one after the other: the same in every process."""
    if not updates:
        return Hypothesis(start, ())
    rows = Workload.of((start.shape[0], start.shape[1]), [turn.question for turn in updates])
    table, measured = start, []
    for row, turn in enumerate(updates):
        measured.append(Measured(row, max(turn.answer, 0.0)))
        table = fitted(table, rows, measured)
    return Hypothesis(table, tuple(measured))
