"""DSFT and DSAT: publish when far from the last publication (Li, Xiong, Jiang & Liu 2015).

The distance is to the last *published* histogram, so its sensitivity is 1. `dsft` keeps the
threshold fixed; `dsat` moves it after the skipped start so that about C of the window's N
slots are published: with E = count/i - C/N and u = theta * | |E| - tolerance | / tolerance,
the threshold goes down by u where E <= 0 and up otherwise. Thresholds are shares of the
expected users, between 0 and 2. The threshold follows from what was published alone.

The comparison is one run of the sparse vector technique with one threshold noise, at most
C - 1 positives after the first publication (the printed noise is refreshed nowhere either).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.exact import exact
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, begins_window, window_begin, window_end
from sfumato.streams.parameters import Declaration, Kind, Need, Setting, share
from sfumato.streams.scheme import (
    Meter,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    noise_of,
)
from sfumato_lab.streams.threshold import Asking, Test, leftover, within_one_window


@dataclass(frozen=True, slots=True)
class Dsat:
    """`share` of the window's slots is published; `adaptive` False is DSFT."""

    adaptive: bool = True
    threshold: float = 0.025
    tolerance: float = 0.05
    theta: float = 0.5
    share: float = 0.1
    skip: int = 2
    compare: Fraction = Fraction(1, 4)
    """Share of epsilon for the comparisons."""
    finished: bool = False

    @property
    def name(self) -> str:
        return "dsat" if self.adaptive else "dsft"

    @property
    def declares(self) -> Declaration:
        moved = "T: share of the people that must have moved"
        both = {
            "threshold": Setting("threshold", Kind.NUMBER, moved, 0.1, 0, 2),
            "share": Setting("share", Kind.NUMBER, "C/N: share of slots published", 0.4, 0.001, 1),
            "compare": share("compare", "share of epsilon for comparing", 0.5),
        }
        tolerated, skipped = "delta: tolerated distance of C/N", "M: slots left out at the start"
        control = {
            "tolerance": Setting("tolerance", Kind.NUMBER, tolerated, 0.2, 1e-6, 1),
            "theta": Setting("theta", Kind.NUMBER, "how far one step moves T", 0.1, 0, 100),
            "skip": Setting("skip", Kind.WHOLE, skipped, 1, 0, 100_000),
        }
        return Declaration(
            parameters={**both, **control} if self.adaptive else both,
            needs=(Need.USERS, Need.APART),
        )

    def most(self, facts: StreamFacts) -> int:
        return max(2, round(self.share * facts.window))

    def test(self, facts: StreamFacts) -> Test:
        within_one_window(facts, self.name)
        if facts.expected_users is None:
            raise UsageError(
                f"{self.name} needs the number of people, from public knowledge.",
                remedy="Give `expected_users`.",
            )
        amount = exact(facts.epsilon) * self.compare
        return Test.pure(facts, facts.window, self.most(facts) - 1, amount, facts.l1)

    def plan(self, facts: StreamFacts) -> StreamPlan:
        noise = noise_of(facts, NoiseKind.LAPLACE, self.most(facts), 1 - self.compare)
        accounts = (
            noise.account("histogram", self.most(facts), facts.l1, facts.l2),
            self.test(facts).account("distance"),
        )
        line = f"At most {self.most(facts)} histograms a window, sd {noise.sd:.3g}."
        return StreamPlan(self.name, accounts, (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Dsat(facts, self)

    def moved_threshold(self, now: float, count: int, seen: int, most: int, slots: int) -> float:
        """One step of the controller."""
        error = count / seen - most / slots
        step = self.theta * abs(abs(error) - self.tolerance) / self.tolerance
        return max(0.0, now - step) if error <= 0 else min(2.0, now + step)


class _Dsat(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Dsat) -> None:
        super().__init__(facts)
        self._scheme = scheme
        self._most = scheme.most(facts)
        self._noise = noise_of(facts, NoiseKind.LAPLACE, self._most, 1 - scheme.compare)
        self._people = facts.expected_users or 1
        self._base = round(scheme.threshold * self._people)
        self._level = scheme.threshold
        self._count = 0
        self._asking = Asking(scheme.test(facts), "distance", 0)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        scheme = self._scheme
        begin, end = window_begin(self.facts, slot), window_end(self.facts, slot)
        if begins_window(self.facts, slot):
            self._count, self._level = 0, scheme.threshold
            self._asking = Asking(scheme.test(self.facts), "distance", slot)
            return self._anew(slot, box, wall)
        seen = slot - begin + 1
        if self._count >= self._most or (scheme.adaptive and seen <= scheme.skip):
            return self.repeat()
        if slot == end - 1:
            self._count += 1
            rest = leftover(self._noise, meter, slot, "histogram", self.facts)
            found = rest.measure(wall, box, f"histogram@{slot}")
            return self.renew(found.estimate(), rest.sd, found.tainted)
        if scheme.adaptive:
            self._level = scheme.moved_threshold(
                self._level, self._count, seen, self._most, end - begin
            )
        last = np.rint(self.last).astype(np.int64)
        apart = box.map(lambda now: int(np.abs(now.values - last).sum()), "distance")
        shift = round(self._level * self._people) - self._base
        if self._asking.reached(slot, apart, self._base, wall, shift):
            return self._anew(slot, box, wall)
        return self.repeat()

    def _anew(self, slot: int, box: Private[Counts], wall: Wall) -> Publication:
        self._count += 1
        found = self._noise.measure(wall, box, f"histogram@{slot}")
        return self.renew(found.estimate(), self._noise.sd, found.tainted)

    def state(self) -> State:
        more: dict[str, Any] = {
            "count": self._count,
            "level": self._level,
            "first": self._asking.first,
            "answers": list(self._asking.answers),
        }
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._count, self._level = int(state["count"]), float(state["level"])
        answers = [bool(answer) for answer in state["answers"]]
        test = self._scheme.test(self.facts)
        self._asking = Asking(test, "distance", int(state["first"]), answers)


fixed = Dsat(adaptive=False)
adaptive = Dsat()
