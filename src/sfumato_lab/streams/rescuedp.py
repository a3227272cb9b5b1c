"""RescueDP for a vector of regions (Wang et al. 2016), with one budget for whoever moves.

Each region has a sampling interval of its own, driven by a PID controller on how much its
last releases differ; regions that are due at a slot are grouped (small, near in prediction,
correlated; a compiled pass), one noisy sum per group is divided over its members, and a Kalman
filter smooths.

The paper charges each region for its own samples. Somebody who moves from region to region is
then in every region's samples, and pays for more than one region's window. Here the window's
budget is shared by all regions: within a slot regions are disjoint, so a slot costs its
largest epsilon once, and the slots of a window add up. One scale is used a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import LaplaceEvent
from sfumato.privacy.exact import exact
from sfumato.privacy.noise.discrete import SMALLEST_SCALE
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.parameters import Declaration, Kind, Setting
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
    Values,
)
from sfumato_lab.streams.fan import PROCESS, Kalman, default_process
from sfumato_lab.streams.fast import PID


@compiled
def groups(
    order: NDArray[np.int64],
    predicted: NDArray[np.float64],
    past: NDArray[np.float64],
    alone_above: float,
    alike: float,
    near: float,
) -> NDArray[np.int64]:
    """Group of each region in `order` (ascending prediction); numbers from 0.

    A region predicted above `alone_above` stays alone. Others join the open group while
    they are within `near` of its first member, the group's predictions stay below
    `alone_above`, and their last releases correlate with the first member's.
    """
    out = np.empty(order.size, dtype=np.int64)
    number, pivot = -1, -1
    total = 0.0
    for k in range(order.size):
        cell = order[k]
        value = max(predicted[cell], 0.0)
        joins = pivot >= 0 and value <= alone_above
        if joins:
            joins = abs(value - max(predicted[pivot], 0.0)) < near and total + value < alone_above
        if joins:
            joins = _correlation(past[:, cell], past[:, pivot]) > alike
        if joins:
            total += value
        else:
            number += 1
            pivot, total = cell, value
        out[k] = number
    return out


@compiled
def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Pearson; two flat series count as alike."""
    x, y = a - a.mean(), b - b.mean()
    size = np.sqrt((x * x).sum() * (y * y).sum())
    if size < 1e-12:
        return 1.0 if (x * x).sum() + (y * y).sum() < 1e-12 else 0.0
    return float((x * y).sum() / size)


@dataclass(frozen=True, slots=True)
class Rescue:
    """The defaults are the papers'."""

    proportional: float = 0.9
    integral: float = 0.1
    theta: float = 10.0
    growth: float = 0.2
    most_share: float = 0.6
    most_of_all: Fraction = Fraction(1, 5)
    alone_above: float = 30.0
    alike: float = 0.5
    near: float = 25.0
    process: float | None = None
    name: str = "rescuedp"
    finished: bool = False
    derivative: float = 0.0
    past: int = 3
    """Releases of a region that predictions, correlations and the controller look back on."""
    start: float = 100.0
    """Variance of the first estimate, in process variances."""
    declares: ClassVar = Declaration(
        parameters={
            **PID,
            "growth": Setting(
                *("growth", Kind.NUMBER, "phi: what is taken grows so with the interval"),
                *(0.5, 1e-3, 10),
            ),
            "most_share": Setting(
                *("most_share", Kind.NUMBER, "p_max: most of what is left that a sample takes"),
                *(0.9, 0.001, 1),
            ),
            "most_of_all": Setting(
                *("most_of_all", Kind.NUMBER, "eps_max: most of the whole that a sample takes"),
                *(0.5, 0.001, 1),
            ),
            "alone_above": Setting(
                *("alone_above", Kind.NUMBER, "tau1: a region with more people stays alone"),
                *(10.0, 0, 1e12),
            ),
            "alike": Setting(
                "alike", Kind.NUMBER, "tau2: correlation from which regions are alike", 0.0, -1, 1
            ),
            "near": Setting(
                "near", Kind.NUMBER, "tau3: people by which a group's regions differ", 5.0, 0, 1e12
            ),
            "past": Setting("past", Kind.WHOLE, "kappa: releases that are remembered", 4, 2, 100),
            **PROCESS,
        },
    )

    def plan(self, facts: StreamFacts) -> StreamPlan:
        account = Account("groups", LaplaceEvent(1.0, 1 / exact(facts.epsilon)))
        line = f"Regions sampled when due, in groups; windows of {facts.window} slots."
        return StreamPlan(self.name, (account,), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Rescue(facts, self)

    def interval(self, before: Values, signal: Values, scale: float) -> Values:
        """I + theta (1 - (delta / lambda)^2), at least 1; lambda the noise to come."""
        return np.maximum(1.0, before + self.theta * (1 - np.square(signal / scale)))

    def share(self, interval: float) -> float:
        """The share of what is left that a sample after such an interval takes."""
        return min(self.growth * float(np.log(interval + 1)), self.most_share)


class _Rescue(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Rescue) -> None:
        super().__init__(facts)
        self._scheme = scheme
        cells = facts.cells
        process = scheme.process or default_process(facts.expected_users, cells)
        self._filter = Kalman.start(cells, scheme.start * process, process)
        self._interval = np.ones(cells)
        self._next = np.zeros(cells)
        self._past = np.zeros((scheme.past, cells))
        self._errors = np.zeros((scheme.past, cells))

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        self._filter.predict()
        due = np.flatnonzero(self._next <= slot)
        left = meter.left("groups", slot)
        epsilon = self._epsilon(due, left)
        if due.size == 0 or epsilon * 10**9 < 1:
            return Publication(self.last, False, self.last_sd, self.tainted)
        noise = Noise(NoiseKind.LAPLACE, max(self.facts.l1 / epsilon, SMALLEST_SCALE))
        group, order = self._grouped(due)
        found = noise.measure(wall, _sums(box, group, order), f"groups@{slot}")
        sizes = np.bincount(group)
        observed = (found.estimate() / sizes)[group]
        variance = noise.variance / float(np.square(sizes).mean())
        self._filter.correct(observed, variance, order)
        self._control(slot, order, float(1 / max(left - epsilon, epsilon / 4)))
        sd = float(np.sqrt(self._filter.variance.mean()))
        return self.renew(np.maximum(self._filter.estimate, 0.0), sd, found.tainted)

    def _epsilon(self, due: NDArray[np.int64], left: Fraction) -> Fraction:
        if due.size == 0:
            return Fraction(0)
        share = exact(round(self._scheme.share(float(self._interval[due].mean())), 9))
        return min(share * left, exact(self.facts.epsilon) * self._scheme.most_of_all)

    def _grouped(self, due: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        predicted = self._past.mean(axis=0)
        order = due[np.argsort(predicted[due], kind="stable")]
        scheme = self._scheme
        found = groups(order, predicted, self._past, scheme.alone_above, scheme.alike, scheme.near)
        return found, order

    def _control(self, slot: int, order: NDArray[np.int64], scale: float) -> None:
        now = self._filter.estimate
        self._errors[:-1, order] = self._errors[1:, order]
        self._errors[-1, order] = np.abs(now[order] - self._past[-1, order])
        self._past[:-1, order] = self._past[1:, order]
        self._past[-1, order] = now[order]
        errors = self._errors[:, order]
        signal = self._scheme.proportional * errors[-1]
        signal += self._scheme.integral * errors.mean(axis=0)
        signal += self._scheme.derivative * (errors[-1] - errors[-2])
        self._interval[order] = self._scheme.interval(self._interval[order], signal, scale)
        self._next[order] = slot + np.rint(self._interval[order])

    def state(self) -> State:
        more: dict[str, Any] = {
            "estimate": self._filter.estimate,
            "variance": self._filter.variance,
            "interval": self._interval,
            "next": self._next,
            "past": self._past,
            "errors": self._errors,
        }
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._filter.estimate, self._filter.variance = state["estimate"], state["variance"]
        self._interval, self._next = state["interval"], state["next"]
        self._past, self._errors = state["past"], state["errors"]


def _sums(
    box: Private[Counts], group: NDArray[np.int64], order: NDArray[np.int64]
) -> Private[Counts]:
    """Sums over disjoint groups of the regions that are due: sensitivities stay."""
    count = int(group[-1]) + 1

    def gathered(counts: Counts) -> Counts:
        sums = np.zeros(count, dtype=np.int64)
        np.add.at(sums, group, counts.values[order])
        return replace(counts, values=sums, what="sums over groups")

    return box.map(gathered, "sums over groups")


scheme = Rescue()
