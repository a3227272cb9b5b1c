"""What is known already: stored answers and the release, combined by least squares.

A question is first held against what was published. Whatever follows from it is free, for
whoever asks. This module reads the question, the stored answers and the release, all public:
whether a question has to be measured never hangs on the data.

*Stored answers.* The noise of each is known and independent of the others', so answers to one
question are averaged with the inverse of their variances. Visits add up: if the cells of a question
are a combination of those of stored ones (two halves, a whole less a part), the combination with
the least variance among all that fit is its answer (the best linear unbiased one, by least squares
over the parts that the questions cut the ground into). Distinct people do not add up, nor do
visits that were clipped below their slots: these are found again under the same question and clip
only.

*The release* says what every sum of visits is and how errors are correlated (`Factors`). Where
stored answers make the question up, both are averaged by inverse variance. Elsewhere the nearest
few correct it: the posterior mean and variance of a Gaussian with the release's covariance, given
the answers (kriging). Few, because that covariance is known from a few draws. The release is about
all visits; a person who visits several places in one slot of a question counts in its answer at
most as often as it has slots. Where that matters, the two differ by what the clip takes, so only
questions whose clip is their number of slots are combined.

*Intervals* are about noise (stored answers) and the posterior (release). In a sum of answers people
count as they did in each of them, once per place where they were at two in a slot; so it is told
without a clip (`Known.clip`), and is no answer to whoever names one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.masks import Measure
from sfumato.model.matrices import firm
from sfumato.published.estimate import Estimate
from sfumato.published.posterior import Factors
from sfumato.queries.pricing import COVERAGE, HALF_WIDTH
from sfumato.queries.question import Question
from sfumato.queries.workload import Workload

Table = NDArray[np.float64]
MOST_COMBINED = 64
"""Stored answers that are looked at together, those nearest to the question."""
MOST_ATOMS = 4_096
_NEGLIGIBLE = 1e-9
_SINGULAR = 1e-13
"""Of the largest singular value: half-widths lie at most ten powers of ten apart (`pricing`)."""
_PAIRS_EACH = 10
"""Pairs of draws for each stored answer that corrects the release. Its covariance is that of the
draws, some twenty pairs: with 10, 20 and 64 answers to correct by, chance alone fitted the draws
so well that 90 % intervals held 71, 45 and 33 %; with two they hold what they held without."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer that was given: what it counts, and how sure it is."""

    id: str
    question: Question
    clip: int
    value: float
    variance: float
    half_width: float
    """Of its 90 % interval."""

    @property
    def whole(self) -> bool:
        """Whether it is a sum of visits, clipped at its slots alone."""
        return self.question.measure is Measure.VISITS and self.clip >= len(self.question.slots)

    @property
    def estimate(self) -> Estimate:
        """The answer with its interval."""
        return Estimate(
            self.value, self.value - self.half_width, self.value + self.half_width, COVERAGE
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cube:
    """The release as far as questions of this frame can be put to it."""

    factors: Factors
    slots: NDArray[np.int64]
    """Number of each slot of the frame in the release, -1 where it has none."""
    name: str
    id: str = ""
    """As the ledger knows it."""

    def table(self) -> Table | None:
        """The counts of the whole frame; None where the release lacks some of its slots."""
        return None if (self.slots < 0).any() else self.factors.counts[:, self.slots]

    def holds(self, question: Question) -> bool:
        """Whether the question lies in the release."""
        return bool((self.slots[list(question.slots)] >= 0).all())

    def weights(self, questions: Sequence[Question]) -> tuple[Table, Table]:
        """Questions as weights of places and of slots of the release."""
        places = np.zeros((len(questions), self.factors.counts.shape[0]))
        slots = np.zeros((len(questions), self.factors.counts.shape[1]))
        for row, question in enumerate(questions):
            places[row, list(question.places)] = 1.0
            slots[row, self.slots[list(question.slots)]] = 1.0
        return places, slots


@dataclass(frozen=True, slots=True)
class Known:
    """What follows from what is published, and from which of it."""

    estimate: Estimate
    stored: tuple[str, ...] = ()
    """Ids of the answers that it is made of."""
    release: str | None = None
    """Name of the release, where that has a part in it."""
    clip: int | None = None
    """The most that one person counts in it, where all of it answers the very question."""

    @property
    def plus_minus(self) -> float:
        """Half of the interval."""
        half = self.estimate.plus_minus
        return math.inf if half is None else half


def known(
    question: Question,
    clip: int,
    stored: Sequence[Stored],
    cube: Cube | None = None,
    clipped: bool = False,
) -> Known | None:
    """The best answer that costs nothing.

    Args:
        question: What is asked.
        clip: The most that one person counts in it.
        stored: Answers about the same frame and the same data.
        cube: The release, if one is at hand.
        clipped: Whether the clip is part of the question: then no sum of other answers is one to
            it, nor is the release, in which nobody is clipped.

    Returns:
        The answer, or None where nothing follows.
    """
    whole = question.measure is Measure.VISITS and clip >= len(question.slots)
    additive = whole and not clipped
    same = [one for one in stored if one.question == question and one.clip == clip]
    if not additive:
        return _averaged(same)
    near = _nearest(question, [one for one in stored if one.whole])
    if cube is not None and cube.holds(question):
        return _corrected(question, [one for one in near if cube.holds(one.question)], cube)
    return _combined(question, near)


def _averaged(same: Sequence[Stored]) -> Known | None:
    """Answers to the very question, by inverse variance."""
    if not same:
        return None
    if len(same) == 1:
        return Known(same[0].estimate, (same[0].id,), clip=same[0].clip)
    weight = np.array([1 / one.variance for one in same])
    value = float(weight @ [one.value for one in same] / weight.sum())
    estimate = _gaussian(value, 1 / float(weight.sum()))
    return Known(estimate, tuple(one.id for one in same), clip=same[0].clip)


def _gaussian(value: float, variance: float) -> Estimate:
    half = HALF_WIDTH * math.sqrt(max(variance, 0.0))
    return Estimate(value, value - half, value + half, COVERAGE)


def _nearest(question: Question, stored: Sequence[Stored]) -> list[Stored]:
    """Those that share cells with the question, the most alike first; then their own neighbours.

    A whole less a part needs answers about the part, of which the question has no cell.
    """
    places, slots = set(question.places), set(question.slots)
    size = len(places) * len(slots)
    near: list[tuple[tuple[int, float, str], Stored]] = []
    far: list[tuple[tuple[int, float, str], Stored]] = []
    for one in stored:
        own = len(one.question.places) * len(one.question.slots)
        shared = len(places.intersection(one.question.places)) * len(
            slots.intersection(one.question.slots)
        )
        rank = (size + own - 2 * shared, one.variance, one.id)
        (near if shared else far).append((rank, one))
    found = [one for _, one in sorted(near, key=lambda row: row[0])[:MOST_COMBINED]]
    if not found or len(found) == MOST_COMBINED:
        return found
    around_places = {place for one in found for place in one.question.places}
    around_slots = {slot for one in found for slot in one.question.slots}
    beside = [
        (rank, one)
        for rank, one in far
        if around_places.issuperset(one.question.places)
        and around_slots.issuperset(one.question.slots)
    ]
    ordered = [one for _, one in sorted(beside, key=lambda row: row[0])]
    return found + ordered[: MOST_COMBINED - len(found)]


def _combined(question: Question, stored: Sequence[Stored]) -> Known | None:
    """The combination of stored answers that is the question, with the least variance.

    Over the classes of cells that no question tells apart, the weights c solve min c' V c with
    R' c = q: c = V^-1/2 y with the shortest y that has (V^-1/2 R)' y = q. At most 64 unknowns,
    however many classes there are.
    """
    rows, target = _classes(question, stored)
    stored = stored[: rows.shape[0]]
    if not stored:
        return None
    deviation = np.sqrt([one.variance for one in stored])
    shortest, *_ = np.linalg.lstsq((rows / deviation[:, None]).T, target, rcond=_SINGULAR)
    weights = shortest / deviation
    if float(np.abs(weights @ rows - target).max()) > _NEGLIGIBLE:
        return _averaged([one for one in stored if one.question == question])
    same = [one for one, weight in zip(stored, weights, strict=True) if abs(weight) > _NEGLIGIBLE]
    clip = same[0].clip if all(one.question == question for one in same) else None
    if len(same) == 1:
        return Known(same[0].estimate, (same[0].id,), clip=clip)
    value = float(weights @ [one.value for one in stored])
    estimate = _gaussian(value, float(np.square(weights * deviation).sum()))
    return Known(estimate, tuple(one.id for one in same), clip=clip)


def _classes(question: Question, stored: Sequence[Stored]) -> tuple[Table, Table]:
    """Stored answers x classes of cells, and the question over these: which belongs to which.

    Of answers that cut the ground into too many classes the nearest are kept: the very question,
    if it was answered, comes first among them.
    """
    while stored:
        sets = [(one.question.places, one.question.slots) for one in stored]
        sets.append((question.places, question.slots))
        shape = (
            1 + max(max(places) for places, _ in sets),
            1 + max(max(slots) for _, slots in sets),
        )
        rows = Workload.of_sets(shape, sets)
        if rows.atom_count() <= MOST_ATOMS:
            found = (rows.shared(rows.atoms()) > 0).astype(np.float64)
            return found[:-1], found[-1]
        stored = stored[: len(stored) // 2]
    return np.zeros((0, 0)), np.zeros(0)


def _corrected(question: Question, stored: Sequence[Stored], cube: Cube) -> Known:
    """The release's answer, corrected by stored ones.

    Where stored answers make the question up, both are independent answers to it: the average by
    inverse variance. Elsewhere the nearest few say how far the release is off near by.
    """
    factors = cube.factors
    made = _combined(question, stored)
    if made is not None:
        places, slots = cube.weights([question])
        own = (made.plus_minus / HALF_WIDTH) ** 2
        of_release = float(factors.variances(places, slots)[0])
        share = of_release / (of_release + own)
        value = (1 - share) * float(factors.values(places, slots)[0]) + share * made.estimate.value
        return Known(_gaussian(value, share * own), made.stored, cube.name)
    stored = stored[: factors.pairs // _PAIRS_EACH]
    places, slots = cube.weights([question, *(one.question for one in stored)])
    if not stored:
        return Known(factors.estimate(places[0], slots[0], COVERAGE), (), cube.name)
    apart = factors.deviations(places, slots)
    shared, chance = apart.T @ apart / factors.pairs, factors.common_chance(places, slots)
    answers = np.array([one.value for one in stored])
    noise = np.array([one.variance for one in stored])
    covariance = shared + chance
    among = firm(covariance[1:, 1:] + np.diag(noise), noise)
    gain = np.linalg.solve(among, covariance[1:, 0])
    values = factors.values(places, slots)
    value = float(values[0] + gain @ (answers - values[1:]))
    left = np.concatenate(([1.0], -gain))
    # What was fitted to the draws is smaller on them than on the truth: by the degrees of freedom.
    fitted = factors.pairs / (factors.pairs - len(stored))
    variance = float(left @ (fitted * shared + chance) @ left + np.square(gain) @ noise)
    return Known(_gaussian(value, variance), tuple(one.id for one in stored), cube.name)
