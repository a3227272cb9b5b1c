"""Budget distribution and budget absorption (Kellaris, Papadopoulos, Xiao & Papadias 2014).

For endless streams under the w-event unit (other units are windows of their own length).
Half of epsilon (`test`) pays for a test in every slot, epsilon/2w each; half for publications. The
test is the mean absolute difference per cell to the last *published* histogram, d * dis of
sensitivity 1, so here it is the L1 distance plus Laplace noise of scale 2w/epsilon.

* `bd`: a publication spends half of what the window has left: with every slot published
  epsilon/4, /8, /16, … and recovering as old slots leave the window.
* `ba`: each slot owns epsilon/2w; skipped slots leave theirs to the next publication, which
  then nullifies as many slots after it as it absorbed, so that no window pays twice.

Publishing costs an error of lambda per cell, repeating one of dis: publish if dis > lambda.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import LaplaceEvent
from sfumato.privacy.exact import exact
from sfumato.privacy.noise.discrete import LARGEST_SCALE, SMALLEST_SCALE
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.parameters import Declaration, share
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
)


@dataclass(frozen=True, slots=True)
class WEvent:
    """`absorb` is budget absorption, otherwise budget distribution."""

    absorb: bool
    finished: bool = False
    test: Fraction = Fraction(1, 2)
    """Share of epsilon for the tests; publications have the rest."""

    @property
    def name(self) -> str:
        return "ba" if self.absorb else "bd"

    @property
    def declares(self) -> Declaration:
        return Declaration(
            parameters={"test": share("test", "share of epsilon for the tests", 0.8)},
            little="in every slot half of the budget goes into tests, and its counts are about as "
            "far from the truth as zeros",
        )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        tests, histograms = self.parts(facts)
        accounts = (
            Account("test", LaplaceEvent(1.0, 1 / tests)),
            Account("histogram", LaplaceEvent(1.0, 1 / histograms)),
        )
        word = "absorbed" if self.absorb else "distributed"
        line = f"A test in every slot and a budget that is {word}; windows of {facts.window}."
        return StreamPlan(self.name, accounts, (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        tests, histograms = self.parts(facts)
        if self.absorb:
            return _Absorption(facts, tests, histograms)
        return _Distribution(facts, tests)

    def parts(self, facts: StreamFacts) -> tuple[Fraction, Fraction]:
        """A window's epsilon for tests and for publications."""
        whole = exact(facts.epsilon)
        return whole * self.test, whole * (1 - self.test)


class _Tested(Repeating):
    """The private test of dissimilarity, the same in both."""

    def __init__(self, facts: StreamFacts, tests: Fraction) -> None:
        super().__init__(facts)
        self._tests = tests

    def dissimilar(self, slot: int, box: Private[Counts], wall: Wall) -> float:
        """Noisy mean absolute difference per cell to the last publication."""
        last, l1 = np.rint(self.last).astype(np.int64), float(self.facts.l1)

        def apart(counts: Counts) -> Counts:
            total = np.array([np.abs(counts.values - last).sum()], dtype=np.int64)
            return Counts(total, 1, l1, l1, counts.counting, "distance to what is published")

        scale = max(self.facts.window * self.facts.l1 / self._tests, SMALLEST_SCALE)
        moved = box.map(apart, "distance to what is published")
        found = wall.laplace(moved, scale=scale, label=f"test@{slot}")
        return float(found.estimate()[0]) / self.facts.cells

    def spend(self, slot: int, box: Private[Counts], wall: Wall, epsilon: Fraction) -> Publication:
        noise = Noise(NoiseKind.LAPLACE, max(self.facts.l1 / epsilon, SMALLEST_SCALE))
        found = noise.measure(wall, box, f"histogram@{slot}")
        return self.renew(found.estimate(), noise.sd, found.tainted)


class _Distribution(_Tested):
    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        dis = self.dissimilar(slot, box, wall)
        share = meter.left("histogram", slot) / 2
        if share * LARGEST_SCALE <= self.facts.l1 or dis <= float(self.facts.l1 / share):
            return self.repeat()
        return self.spend(slot, box, wall, share)


class _Absorption(_Tested):
    def __init__(self, facts: StreamFacts, tests: Fraction, histograms: Fraction) -> None:
        super().__init__(facts, tests)
        self._unit = histograms / facts.window
        self._last_slot = -1
        self._nullified = 0

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        dis = self.dissimilar(slot, box, wall)
        if self._last_slot >= 0 and slot - self._last_slot <= self._nullified:
            return self.repeat()
        absorbed = min(slot - self._last_slot - self._nullified, self.facts.window)
        share = self._unit * absorbed
        if dis <= float(self.facts.l1 / share):
            return self.repeat()
        self._last_slot, self._nullified = slot, absorbed - 1
        return self.spend(slot, box, wall, share)

    def state(self) -> State:
        more: dict[str, Any] = {"slot": self._last_slot, "nullified": self._nullified}
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._last_slot, self._nullified = int(state["slot"]), int(state["nullified"])


distribution = WEvent(absorb=False)
absorption = WEvent(absorb=True)
