"""The baselines that every stream scheme must beat: zeros, sample, mean, and direct perturbation.

* `zeros`: nothing is measured and nobody counted. Free, and hard to beat where most cells are
  empty and the error is averaged over all of them.
* `sample`: one histogram at the start of each window with the whole budget, then repeated.
* `mean`: the mean histogram of each finished window, repeated over it. A unit adds at most 1
  to each of the window's W histograms, so W to their sum (L1 and, if it all falls in one
  cell, L2): per slot the noise of the mean has scale 1/epsilon however long the window is.
  It needs the whole window before the first slot leaves.
* `direct` (Chen et al., Algorithm 1): every slot's histogram with its share of noise. A unit
  touches at most W slots, by 1 each: Laplace noise of scale W/epsilon on every count is
  epsilon-DP, and Gaussian noise of variance W/(2 rho) is rho-zCDP. From W of about ten on the
  Gaussian form needs less noise (W = 48, epsilon 1, delta 1e-6: sd 31 instead of 68). Under
  the w-event unit this is the baseline `uniform` of Kellaris et al. 2014, the same mechanism
  under another name.

Research too often leaves the first three out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, begins_window, window_end
from sfumato.streams.parameters import NOISE, Declaration
from sfumato.streams.scheme import (
    Meter,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    StreamPlan,
    noise_of,
)


@dataclass(frozen=True, slots=True)
class Zeros:
    """Publishes zeros for ever. Costs nothing."""

    name: str = "zeros"
    finished: bool = False
    declares: ClassVar = Declaration("What any scheme must beat: it measures nothing.")

    def plan(self, facts: StreamFacts) -> StreamPlan:
        del facts
        return StreamPlan(self.name, (), ("Nothing is measured: every number is zero.",))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Zeros(facts)


class _Zeros(Repeating):
    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del slot, box, wall, meter
        return self.repeat()


@dataclass(frozen=True, slots=True)
class Sample:
    """One histogram a window, with everything; repeated until the next window."""

    noise: NoiseKind = NoiseKind.BEST
    name: str = "sample"
    finished: bool = False
    declares: ClassVar = Declaration(
        "A simple answer to compare with: one histogram a window, repeated.", NOISE
    )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        noise = noise_of(facts, self.noise, 1)
        line = f"One histogram a window with {noise.kind} noise, sd {noise.sd:.3g}, repeated."
        return StreamPlan(self.name, (noise.account("histogram", 1, facts.l1, facts.l2),), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Sample(facts, self.noise)


class _Sample(Repeating):
    def __init__(self, facts: StreamFacts, kind: NoiseKind) -> None:
        super().__init__(facts)
        self._noise = noise_of(facts, kind, 1)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        if not begins_window(self.facts, slot):
            return self.repeat()
        found = self._noise.measure(wall, box, f"histogram@{slot}")
        return self.renew(found.estimate(), self._noise.sd, found.tainted)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean histogram of a finished window, repeated over it."""

    noise: NoiseKind = NoiseKind.BEST
    name: str = "mean"
    finished: bool = True
    declares: ClassVar = Declaration(
        "A simple answer to compare with: the mean of each finished window, repeated.", NOISE
    )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most = facts.window
        noise = noise_of(facts, self.noise, 1, l1=facts.l1 * most, l2=float(facts.l1 * most))
        line = f"The window's mean with {noise.kind} noise, sd {noise.sd / most:.3g}, repeated."
        l1 = facts.l1 * most
        account = noise.account("sum", 1, l1, float(l1), touched=l1)  # another cell every slot
        return StreamPlan(self.name, (account,), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Mean(facts, self.noise)


class _Mean(Repeating):
    def __init__(self, facts: StreamFacts, kind: NoiseKind) -> None:
        super().__init__(facts)
        most = facts.l1 * facts.window
        self._noise = noise_of(facts, kind, 1, l1=most, l2=float(most))

    def prepare(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        most, facts = float(self.facts.l1 * self.facts.window), self.facts

        def added(counts: Counts) -> Counts:
            values = np.ascontiguousarray(counts.values.sum(axis=1))
            return replace(counts, values=values, l1=most, l2=most, what="sum over a window")

        box = whole.map(added, "sum over a window")
        found = self._noise.measure(wall, box, f"sum@{first}", touched=int(most))
        slots = window_end(facts, first) - first
        self.renew(found.estimate() / slots, self._noise.sd / slots, found.tainted)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del box, wall, meter
        return Publication(self.last, begins_window(self.facts, slot), self.last_sd, self.tainted)


@dataclass(frozen=True, slots=True)
class Direct:
    """Every slot anew, the budget divided evenly over a window."""

    noise: NoiseKind = NoiseKind.BEST
    name: str = "direct"
    finished: bool = False
    declares: ClassVar = Declaration(
        "A simple answer to compare with: every slot, with its share of the budget.", NOISE
    )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        noise = noise_of(facts, self.noise, facts.window)
        account = noise.account("histogram", facts.window, facts.l1, facts.l2)
        line = f"Every slot is measured with {noise.kind} noise, sd {noise.sd:.3g}."
        return StreamPlan(self.name, (account,), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Direct(facts, self.noise)


class _Direct(Repeating):
    def __init__(self, facts: StreamFacts, kind: NoiseKind) -> None:
        super().__init__(facts)
        self._noise = noise_of(facts, kind, facts.window)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        found = self._noise.measure(wall, box, f"histogram@{slot}")
        return self.renew(found.estimate(), self._noise.sd, found.tainted)
