"""Transcripts with runs of questions in them, and the loss along a transcript, exactly.

A stream asks whether distances reach a threshold, and decides by the answers what it measures
next. Run on one input and replayed on its neighbour with the same answers it must take the same
measurements; what still differs behind the wall is what one unit moved, and the chance of
these very answers can differ by no more than

* Laplace noise: the L1 shift over the scale; Gaussian noise: in rho, the squared L2 shift over
  2 sigma2; a choice: the range of the shifts of its costs over the softness (in rho its square
  over 8);
* a run of the sparse vector technique: with the threshold's noise moved by s, as far as the
  noes need, s / b_T, and for each yes what is left of its own shift over b_q (the proof of the
  mechanism, with the real shifts in place of their bound).

Pure losses add up along the transcript, and so do those in rho. No noise is involved and no
bound that was promised: a sum that is above the claim has found a fault, however small. Only
for made-up data: nothing here is reachable from a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import zip_longest

import numpy as np

from sfumato.audit.transcript import ListeningWall, Shift, Step, shifts
from sfumato.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.door import open_private
from sfumato.privacy.events import BoundedRangeEvent, GaussianEvent, LaplaceEvent
from sfumato.privacy.mechanisms import NoisyDistances, SparseVector
from sfumato.privacy.mechanisms.sparse_vector import Histograms


@dataclass(frozen=True, slots=True)
class Questions:
    """One run of the sparse vector technique: scales, what was asked, what was answered."""

    label: str
    sensitivity: int
    threshold_scale: Fraction
    query_scale: Fraction
    behind: list[int] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)


class AskedWall(ListeningWall):
    """A listening wall that hears questions too; `answers` are those of an earlier run."""

    def __init__(self, charger: object, key: bytes, earlier: AskedWall | None = None) -> None:
        super().__init__(charger, key, () if earlier is None else earlier.steps)  # type: ignore[arg-type]
        self.runs: list[Questions] = []
        self._said = {} if earlier is None else {run.label: run.answers for run in earlier.runs}

    def sparse_vector(
        self,
        *,
        threshold: int,
        sensitivity: int,
        positives: int,
        threshold_scale: Fraction | int,
        query_scale: Fraction | int,
        label: str,
        histograms: Histograms | None = None,
    ) -> SparseVector:
        run = super().sparse_vector(
            threshold=threshold,
            sensitivity=sensitivity,
            positives=positives,
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            label=label,
            histograms=histograms,
        )
        heard = Questions(label, sensitivity, Fraction(threshold_scale), Fraction(query_scale))
        self.runs.append(heard)
        given = self._said.get(label, []) if self._replaying else None
        return _HeardVector(run, heard, given)

    def distances(
        self, *, most: int, sensitivity: int, sigma2: Fraction | int, label: str
    ) -> NoisyDistances:
        run = super().distances(most=most, sensitivity=sensitivity, sigma2=sigma2, label=label)
        return _HeardDistances(run, self, most)


class _HeardVector(SparseVector):
    """A run that writes down what it is asked."""

    def __init__(self, run: SparseVector, heard: Questions, given: Sequence[bool] | None) -> None:
        self.__dict__.update(run.__dict__)
        self._heard, self._given_answers = heard, given

    def above(self, box: Private[int]) -> bool:
        answer, asked = super().above(box), len(self._heard.answers)
        if self._given_answers is not None:
            if asked >= len(self._given_answers):
                raise UsageError(f"The run {self.label!r} asks more on a neighbouring input.")
            given = self._given_answers[asked]
            self._left += answer - given
            answer = given
        self._heard.behind.append(int(open_private(box)))
        self._heard.answers.append(answer)
        return answer


class _HeardDistances(NoisyDistances):
    """Noisy distances, each a step of the transcript of its own."""

    def __init__(self, run: NoisyDistances, wall: AskedWall, most: int) -> None:
        self.__dict__.update(run.__dict__)
        self._wall, self._most = wall, most

    def measure(self, box: Private[int]) -> int:
        label = self.label if self._most == 1 else f"{self.label}/{self._left}"
        answer = np.array([super().measure(box)], np.int64)
        if self._wall._replaying:
            answer = self._wall._answer(label, 1)
        self._wall._add(Step(label, self.event, np.array([open_private(box)]), answer))
        return int(answer[0])


def loss_between(one: AskedWall, other: AskedWall, *, pure: bool) -> float:
    """How far the chance of this transcript can differ: a pure epsilon, or a rho."""
    found = []
    for a, b in zip_longest(one.steps, other.steps):
        if a is None or b is None or a.label != b.label or a.event != b.event:
            raise UsageError("On a neighbouring input other measurements were taken.")
        found.append(_step_loss(a, b, pure))
    for run, again in zip_longest(one.runs, other.runs):
        if run is None or again is None or run.answers != again.answers:
            raise UsageError("On a neighbouring input other questions were asked.")
        if not pure:
            raise UsageError("The sparse vector technique is counted in pure epsilons.")
        found.append(max(_run_loss(run, again), _run_loss(again, run)))
    return math.fsum(found)


def moved_by(one: AskedWall, other: AskedWall) -> list[Shift]:
    """How far one unit moved every measurement and every question, and how far is allowed.

    The loss of a whole transcript has room for a measurement that is charged too little beside
    others that lose less than they might; this has none.
    """
    found = shifts(one.steps, other.steps)
    for run, again in zip(one.runs, other.runs, strict=True):
        apart = [abs(a - b) for a, b in zip(run.behind, again.behind, strict=True)]
        found.append(Shift(run.label, "question", max([0, *apart]), run.sensitivity))
    return found


def _step_loss(a: Step, b: Step, pure: bool) -> float:
    moved = (a.behind - b.behind).ravel().tolist()  # plain integers: no square overflows
    match a.event:
        case LaplaceEvent():
            loss = float(sum(abs(m) for m in moved) / a.event.scale)
            return loss if pure else loss**2 / 2
        case GaussianEvent() if not pure:
            return float(sum(m * m for m in moved) / (2 * a.event.sigma2))
        case BoundedRangeEvent():
            apart = (max(moved) - min(moved)) / a.units
            return apart if pure else apart**2 / 8
    raise UsageError("This measurement has no loss of that kind.")


def _run_loss(run: Questions, again: Questions) -> float:
    """From the first input to the second: the threshold moves as far as the noes need."""
    moved = [b - a for a, b in zip(run.behind, again.behind, strict=True)]
    noes = [m for m, yes in zip(moved, run.answers, strict=True) if not yes]
    far = max([0, *noes])
    yeses = sum(max(0, far - m) for m, yes in zip(moved, run.answers, strict=True) if yes)
    return float(far / run.threshold_scale + yeses / run.query_scale)
