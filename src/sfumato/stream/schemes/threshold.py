"""Threshold perturbation (Chen et al., Algorithm 2), corrected.

The first slot of a window is published; later ones only when the histogram has moved by
`threshold` people (L1) since the last publication, at most `cutoff` times a window; the last
slot takes what is left. Two errors of the printed form cancel each other (the distance to
a public histogram has sensitivity 1, not 2; the noise scales are half of what they should be);
here the comparison is the one of `thresholding`, and a histogram pays for sensitivity 1.

The threshold is public. Taken from the data, as in the paper's experiments (a quarter of the
day's mean distance), it would itself have to be paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.model.counts import Counts
from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale
from sfumato.privacy.units import UnitKind
from sfumato.privacy.wall import Wall
from sfumato.stream.contract import Publication, Publisher, State, StreamPlan
from sfumato.stream.distances import PrivateHistogram, histogram
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Meter
from sfumato.stream.noise import Noise, NoiseKind, noise_of
from sfumato.stream.schemes.base import Repeating
from sfumato.stream.schemes.thresholding import Asking, Test
from sfumato.stream.windows import begins_window, window_end

_DISTANCES = Fraction(1, 10)
"""Share of the budget for comparing: distances of a crowd are large, so little is enough."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """`threshold` in people; None takes a twentieth of the expected users. `cutoff` None: W/4."""

    threshold: int | None = None
    cutoff: int | None = None
    noise: NoiseKind = NoiseKind.BEST
    name: str = "threshold"
    finished: bool = False

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
        noise = noise_of(facts, scheme.noise, cutoff, 1 - _DISTANCES)
        if facts.window == 1 or cutoff == 1:
            return cls(threshold, cutoff, noise, None)
        if noise.kind is NoiseKind.GAUSSIAN:
            share = Fraction(repr(facts.rho)) * _DISTANCES
            test = Test.gaussian(facts, facts.window - 1, cutoff - 1, share)
        else:
            share = Fraction(repr(facts.epsilon)) * _DISTANCES
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
            "The threshold is missing.",
            remedy="Give it in people, or give --expected-users and a twentieth of them is taken.",
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
