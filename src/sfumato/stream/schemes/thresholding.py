"""The test behind threshold perturbation: has enough changed since the last publication?

The distance is taken to the *raw* histogram of the last publication (sensitivity 2). Against
the noisy one the sensitivity would be 1, but the noise of thousands of cells dwarfs every
threshold: the test fires at once, again and again until the cut-off, and then freezes.

Two corrected forms of the comparison (Chen et al., Algorithm 2):

* Gaussian: every distance of the window is measured with noise and compared with the
  threshold; nothing is hidden, no sparse vector is needed. rho = (W - 1) 4 / (2 sigma2).
* pure: one run of the sparse vector technique, its threshold noise drawn once (Lyu, Su & Li
  2017), epsilon = 2/b_T + 2 (c - 1) 2/b_q.

After a kill the sparse vector is built again from the release key: the same threshold noise,
and as many questions asked as were asked before, with stand-ins that give the same answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.calibration import gaussian_sigma2, sparse_scales
from sfumato.privacy.events import GaussianEvent, PureEvent
from sfumato.privacy.exact import Number, decimal_up, exact, rounded_up
from sfumato.privacy.mechanisms import SparseVector
from sfumato.privacy.wall import Wall
from sfumato.stream.distances import PrivateHistogram, distance
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Account

_FAR = 1 << 60
"""A stand-in distance that is surely above, or with a minus sign below, any noisy threshold."""


@dataclass(frozen=True, slots=True)
class Test:
    """How distances are compared: Gaussian noise on each, or a run of the sparse vector."""

    questions: int
    positives: int
    sensitivity: int
    sigma2: Fraction | None
    scales: tuple[Fraction, Fraction] | None

    @classmethod
    def gaussian(
        cls,
        facts: StreamFacts,
        questions: int,
        positives: int,
        rho: Number,
        sensitivity: int | None = None,
    ) -> Test:
        sensitivity = sensitivity or 2 * facts.l1
        whole = rounded_up(sensitivity * questions**0.5)
        return cls(questions, positives, sensitivity, gaussian_sigma2(whole, rho), None)

    @classmethod
    def pure(
        cls,
        facts: StreamFacts,
        questions: int,
        positives: int,
        epsilon: Number,
        sensitivity: int | None = None,
    ) -> Test:
        sensitivity = sensitivity or 2 * facts.l1
        scales = sparse_scales(epsilon, sensitivity, positives)
        return cls(questions, positives, sensitivity, None, scales)

    def account(self, label: str) -> Account:
        if self.sigma2 is not None:
            whole = rounded_up(self.sensitivity * self.questions**0.5)
            return Account(label, GaussianEvent(whole, self.sigma2, self.questions))
        assert self.scales is not None
        b_t, b_q = self.scales
        loss = self.sensitivity / b_t + 2 * self.positives * self.sensitivity / b_q
        return Account(label, PureEvent(decimal_up(exact(loss)), "sparse vector"), run=True)


class Asking:
    """The questions of one window. `answers` is public: what was said so far."""

    def __init__(self, test: Test, label: str, first: int, answers: Sequence[bool] = ()) -> None:
        self._test = test
        self._label = label
        self.first = first
        self.answers = list(answers)
        self._run: SparseVector | None = None

    def moved(
        self,
        slot: int,
        box: Private[Counts],
        reference: PrivateHistogram,
        threshold: int,
        wall: Wall,
    ) -> bool:
        """Whether the slot's distance to the reference reaches the threshold, noisily."""
        return self.reached(slot, distance(box, reference), threshold, wall)

    def reached(
        self, slot: int, apart: Private[int], threshold: int, wall: Wall, shift: int = 0
    ) -> bool:
        """Whether a distance reaches threshold + shift; the shift may follow from the answers."""
        if self._test.sigma2 is not None:
            run = wall.distances(
                most=1,
                sensitivity=self._test.sensitivity,
                sigma2=self._test.sigma2,
                label=f"{self._label}@{slot}",
            )
            answer = run.measure(apart) >= threshold + shift
        else:
            answer = self._sparse(threshold, wall).above(apart.map(lambda far: far - shift))
        self.answers.append(answer)
        return answer

    def _sparse(self, threshold: int, wall: Wall) -> SparseVector:
        if self._run is None:
            assert self._test.scales is not None
            self._run = wall.sparse_vector(
                threshold=threshold,
                sensitivity=self._test.sensitivity,
                positives=self._test.positives,
                threshold_scale=self._test.scales[0],
                query_scale=self._test.scales[1],
                label=f"{self._label}@{self.first}",
            )
            for answer in self.answers:
                self._run.above(Private(_FAR if answer else -_FAR, "stand-in"))
        return self._run
