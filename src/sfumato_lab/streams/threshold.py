"""Threshold perturbation (Chen et al., Algorithm 2), corrected.

The first slot of a window is published; later ones only when the histogram has moved by
`threshold` people (L1) since the last publication, at most `cutoff` times a window; the last
slot takes what is left. Two errors of the printed form cancel each other (the distance to
a public histogram has sensitivity 1, not 2; the noise scales are half of what they should be);
here the comparison is one of the two below, and a histogram pays for sensitivity 1.

The threshold is public. Taken from the data, as in the paper's experiments (a quarter of the
day's mean distance), it would itself have to be paid for.

**The test**: has enough changed since the last publication? The distance is taken to the *raw*
histogram of the last publication (sensitivity 2). Against the noisy one the sensitivity would be 1,
but the noise of thousands of cells dwarfs every
threshold: the test fires at once, again and again until the cut-off, and then freezes.
Two corrected forms of the comparison:

* Gaussian: every distance of the window is measured with noise and compared with the
  threshold; nothing is hidden, no sparse vector is needed. rho = (W - 1) 4 / (2 sigma2).
* pure: one run of the sparse vector technique, its threshold noise drawn once (Lyu, Su & Li
  2017), epsilon = 2/b_T + 2 (c - 1) 2/b_q.

After a kill the sparse vector is built again from the release key: the same threshold noise,
and as many questions asked as were asked before, with stand-ins that give the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale, sparse_scales
from sfumato.privacy.events import GaussianEvent, PureEvent, UnitKind
from sfumato.privacy.exact import Number, decimal_up, exact, rounded_up
from sfumato.privacy.mechanisms import SparseVector
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, begins_window, window_end
from sfumato.streams.parameters import NOISE, Declaration, Kind, Need, Setting, share
from sfumato.streams.scheme import (
    Account,
    Meter,
    Noise,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    noise_of,
)
from sfumato.streams.schemes.counters import PrivateHistogram, histogram
from sfumato_lab.streams.hybrid_division import distance

CUTOFF = Setting(
    *("cutoff", Kind.WHOLE, "c: most histograms of a window (of a night)", 3, 1, 100_000),
    unset="a quarter of the window's slots",
)
MOVED = Setting(
    *("threshold", Kind.WHOLE, "T: people that must have moved (L1)", 4, 1, 10**9),
    unset="a twentieth of the expected users",
)
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


@dataclass(frozen=True, slots=True)
class Threshold:
    """`threshold` in people; None takes a twentieth of the expected users. `cutoff` None: W/4."""

    threshold: int | None = None
    cutoff: int | None = None
    noise: NoiseKind = NoiseKind.BEST
    name: str = "threshold"
    finished: bool = False
    compare: Fraction = Fraction(1, 10)
    """Share of the budget for comparing: distances of a crowd are large, so little is enough."""
    declares: ClassVar = Declaration(
        parameters={
            "threshold": MOVED,
            "cutoff": CUTOFF,
            "compare": share("compare", "alpha: share of the budget for comparing", 0.4),
            **NOISE,
        },
        needs=(Need.APART,),
    )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        parts = _Parts.of(self, facts)
        accounts = [parts.noise.account("histogram", parts.cutoff, facts.l1, facts.l2)]
        if parts.test is not None:
            accounts.append(parts.test.account("distance"))
        line = (
            f"At most {parts.cutoff} histograms a window with {parts.noise.kind} noise, "
            f"sd {parts.noise.sd:.3g}, when {parts.threshold} people have moved."
        )
        return StreamPlan(self.name, tuple(accounts), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Threshold(facts, _Parts.of(self, facts))


@dataclass(frozen=True, slots=True)
class _Parts:
    threshold: int
    cutoff: int
    noise: Noise
    test: Test | None

    @classmethod
    def of(cls, scheme: Threshold, facts: StreamFacts) -> _Parts:
        within_one_window(facts, scheme.name)
        threshold = public_threshold(scheme.threshold, facts)
        cutoff = scheme.cutoff or max(2, math.ceil(facts.window / 4))
        noise = noise_of(facts, scheme.noise, cutoff, 1 - scheme.compare)
        if facts.window == 1 or cutoff == 1:
            return cls(threshold, cutoff, noise, None)
        if noise.kind is NoiseKind.GAUSSIAN:
            share = Fraction(repr(facts.rho)) * scheme.compare
            test = Test.gaussian(facts, facts.window - 1, cutoff - 1, share)
        else:
            share = Fraction(repr(facts.epsilon)) * scheme.compare
            test = Test.pure(facts, facts.window - 1, cutoff - 1, share)
        return cls(threshold, cutoff, noise, test)


def within_one_window(facts: StreamFacts, name: str) -> None:
    """Comparisons with earlier slots, and runs of questions, need windows that do not slide."""
    if facts.unit.kind not in (UnitKind.USER_PERIOD, UnitKind.USER_DAY):
        raise UsageError(
            f"{name} asks its questions window by window; under a sliding window what is asked "
            "about one person has no such bound.",
            remedy="Use the unit user-period or user-day, or the scheme ba or bd.",
        )


def public_threshold(given: int | None, facts: StreamFacts) -> int:
    if given is not None:
        return given
    if facts.expected_users is None:
        raise UsageError(
            "The parameter threshold is missing: how many people must have moved.",
            remedy="Give `expected_users`, and a twentieth of them is taken, or the `parameter` "
            "threshold in people.",
        )
    return max(1, facts.expected_users // 20)


class _Threshold(Repeating):
    def __init__(self, facts: StreamFacts, parts: _Parts) -> None:
        super().__init__(facts)
        self._parts = parts
        self._count = 0
        self._reference: PrivateHistogram | None = None
        self._asking: Asking | None = None

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        parts = self._parts
        if begins_window(self.facts, slot):
            self._count = 0
            if parts.test is not None:
                self._asking = Asking(parts.test, "distance", slot + 1)
            return self._anew(slot, box, wall, parts.noise)
        if self._count >= parts.cutoff or self._asking is None or self._reference is None:
            return self.repeat()
        if slot == window_end(self.facts, slot) - 1:
            return self._anew(
                slot, box, wall, leftover(parts.noise, meter, slot, "histogram", self.facts)
            )
        if self._asking.moved(slot, box, self._reference, parts.threshold, wall):
            return self._anew(slot, box, wall, parts.noise)
        return self.repeat()

    def _anew(self, slot: int, box: Private[Counts], wall: Wall, noise: Noise) -> Publication:
        self._count += 1
        self._reference = histogram(box)
        found = noise.measure(wall, box, f"histogram@{slot}")
        return self.renew(found.estimate(), noise.sd, found.tainted)

    def state(self) -> State:
        more: dict[str, Any] = {"count": self._count}
        if self._reference is not None:
            more["reference"] = self._reference
        if self._asking is not None:
            more |= {"first": self._asking.first, "answers": list(self._asking.answers)}
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._count = int(state["count"])
        self._reference = state.get("reference")
        if "first" in state and self._parts.test is not None:
            self._asking = Asking(
                self._parts.test, "distance", int(state["first"]), state["answers"]
            )


def leftover(noise: Noise, meter: Meter, slot: int, account: str, facts: StreamFacts) -> Noise:
    """The noise of one histogram that takes all that the window has left in an account."""
    left = meter.left(account, slot)
    if noise.kind is NoiseKind.LAPLACE:
        return Noise(noise.kind, laplace_scale(facts.l1, left))
    return Noise(noise.kind, gaussian_sigma2(facts.l2, left))


scheme = Threshold()
