"""The transcript of a scheme: what passed the wall, in order, and what lay behind it.

The auditor made both inputs up, so it may look behind the wall. A scheme is run on one input
and then *replayed* on its neighbour with the very same answers: whatever it measures next
(maps, weights, clusters made from noisy numbers) is then chosen alike, and what still differs
behind the wall is what one person moved. That gives two things that no black box gives:

* the **exact shift** of every measurement, to be held against the sensitivity it was charged
  for. No noise is involved, so this sees a bound that is broken by a hair, at any epsilon, and
  in measurements whose share of the budget is too small for any number of runs to see;
* the **likelihood ratio** of the answers, the most powerful statistic there is (Neyman &
  Pearson), for tests that do run on noise.

Only for made-up data: nothing here is reachable from a release.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.sphere import great_circle
from sfumato.model.traces import Traces
from sfumato.privacy.accounting.compose import event_rho
from sfumato.privacy.door import open_private
from sfumato.privacy.events import (
    BoundedRangeEvent,
    Charger,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    Measurement,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
    Selection,
    Selections,
)
from sfumato.privacy.mechanisms.planar import (
    OnPlane,
    PlaneReports,
    PredictedReports,
    Prediction,
    Reports,
    Shown,
)
from sfumato.privacy.noise.planar import Lattice, Strength
from sfumato.privacy.wall import Wall

Values = NDArray[np.int64]
_Reports = TypeVar("_Reports", bound=Reports)
_FINE = 10_000_000
"""Locations behind the wall are kept in whole 1e-7 degrees, a centimetre."""
Scheme = Callable[[Source, Wall], object]
"""Anything that measures a source through a wall."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One measurement: its charge, the integers behind the wall, and the answer."""

    label: str
    event: PrivacyEvent
    behind: Values
    answer: Values
    units: float = 1.0
    """What is one on the lattice behind the wall: units of a count, or the softness of a choice.
    For locations the loss per metre of each."""


class _AllTaken(Exception):
    """Everything that was planned has been measured; the rest is post-processing."""


class ListeningWall(Wall):
    """A wall that keeps the transcript, and gives the answers of an earlier one if told to.

    `most` ends the run after that many measurements.
    """

    def __init__(
        self,
        charger: Charger,
        key: bytes,
        answers: Sequence[Step] = (),
        most: int | None = None,
        branch: str = "measurement",
    ) -> None:
        super().__init__(charger, key, branch)
        self.steps: list[Step] = []
        self._given = {step.label: step.answer for step in answers}
        self._replaying = bool(answers)
        self._most = most

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        found = super().gaussian(box, sigma2=sigma2, label=label, touched=touched)
        return self._heard(box, found)

    def laplace(
        self, box: Private[Counts], *, scale: Fraction | int, label: str, about: str = ""
    ) -> Measurement:
        return self._heard(box, super().laplace(box, scale=scale, label=label, about=about))

    def select(
        self, box: Private[Values], *, softness: Fraction | int, range_units: int, label: str
    ) -> Selection:
        found = super().select(box, softness=softness, range_units=range_units, label=label)
        return self._chosen(box, found, float(softness))

    def noisy_max(
        self, box: Private[Values], *, softness: Fraction | int, range_units: int, label: str
    ) -> Selection:
        found = super().noisy_max(box, softness=softness, range_units=range_units, label=label)
        return self._chosen(box, found, float(softness))

    def select_in_rows(
        self, box: Private[Values], *, softness: Fraction | int, range_units: int, label: str
    ) -> Selections:
        found = super().select_in_rows(box, softness=softness, range_units=range_units, label=label)
        if self._replaying:
            found = replace(found, indices=self._answer(label, found.indices.size).copy())
        self._add(Step(label, found.event, open_private(box), found.indices, float(softness)))
        return found

    def planar(
        self,
        box: Private[Shown],
        *,
        strength: Strength,
        most_reports: int,
        label: str,
        lattice: Lattice | None = None,
    ) -> Reports:
        found = super().planar(
            box, strength=strength, most_reports=most_reports, label=label, lattice=lattice
        )
        shown = open_private(box)
        behind = _fine(shown.rows.pick(np.unique(shown.by)))
        return self._reported(found, behind, strength.per_metre)

    def predictive(
        self,
        box: Private[Traces],
        *,
        setting: Prediction,
        label: str,
        lattice: Lattice | None = None,
    ) -> PredictedReports:
        found = super().predictive(box, setting=setting, label=label, lattice=lattice)
        return self._reported(found, _fine(open_private(box)), setting.per_metre)

    def plane_gaussian(
        self,
        box: Private[OnPlane],
        *,
        reach: float,
        most_reports: int,
        sigma2: Fraction | int,
        label: str,
    ) -> PlaneReports:
        found = super().plane_gaussian(
            box, reach=reach, most_reports=most_reports, sigma2=sigma2, label=label
        )
        if self._replaying:
            given = self._answer(label, found.units.size)
            found = replace(found, units=given.reshape(found.units.shape).copy())
        self._add(Step(label, found.event, open_private(box).units, found.units))
        return found

    def _reported(self, found: _Reports, behind: Values, per_metre: float) -> _Reports:
        answer = _fine(found.traces)
        if self._replaying:
            answer = self._answer(found.label, answer.size).reshape(answer.shape)
            lon, lat = (answer / _FINE).T
            found = replace(found, traces=found.traces.at(lon.copy(), lat.copy()))
        self._add(Step(found.label, found.event, behind, answer, per_metre))
        return found

    def _chosen(self, box: Private[Values], found: Selection, softness: float) -> Selection:
        if self._replaying:
            found = replace(found, index=int(self._answer(found.label, 1)[0]))
        answer = np.array([found.index], np.int64)
        self._add(Step(found.label, found.event, open_private(box), answer, softness))
        return found

    def _heard(self, box: Private[Counts], found: Measurement) -> Measurement:
        behind = open_private(box).values
        if self._replaying:
            given = self._answer(found.label, behind.size).reshape(behind.shape)
            found = replace(found, values=given.copy())
        self._add(Step(found.label, found.event, behind, found.values, found.units_per_count))
        return found

    def _answer(self, label: str, size: int) -> Values:
        given = self._given.get(label)
        if given is None or given.size != size:
            raise UsageError(
                f"The measurement {label!r} depends on the data: on a neighbouring input, with "
                "the same answers so far, it is another one."
            )
        return given

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if self._most is not None and len(self.steps) >= self._most:
            raise _AllTaken


def _fine(traces: Traces) -> Values:
    """Locations as whole numbers, much finer than any public lattice."""
    return np.rint(np.column_stack((traces.lon, traces.lat)) * _FINE).astype(np.int64)


def listen(
    scheme: Scheme,
    source: Source,
    charger: Charger,
    key: bytes,
    answers: Sequence[Step] = (),
    most: int | None = None,
) -> list[Step]:
    """The transcript of one run, or of a replay with the `answers` of another run."""
    wall = ListeningWall(charger, key, answers, most)
    with contextlib.suppress(_AllTaken):
        scheme(source, wall)
    return wall.steps


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one person moved a measurement, and how far its charge allows."""

    label: str
    norm: str
    """`L2` or `L1` in counts, `range` of costs in units of the softness (`ranges`: the norm of
    those of many choices), `loss` of locations that moved, or `cells` that moved at all."""
    moved: float
    allowed: float


def shifts(one: Sequence[Step], other: Sequence[Step]) -> list[Shift]:
    """Of every measurement of a run and its replay. Sums are exact integers."""
    return [shift for a, b in _together(one, other) for shift in _shifts(a, b)]


def log_ratio(one: Sequence[Step], other: Sequence[Step]) -> float:
    """log of (chance of these answers on the first input / on the second)."""
    return math.fsum(_log_ratio(a, b) for a, b in _together(one, other))


def same_measurements(one: Sequence[Step], other: Sequence[Step]) -> bool:
    """Whether a run and its replay measured the same things, at the same price."""
    taken, again = (
        [(step.label, step.event, step.behind.shape) for step in steps] for steps in (one, other)
    )
    return taken == again


def _together(one: Sequence[Step], other: Sequence[Step]) -> list[tuple[Step, Step]]:
    if not same_measurements(one, other):
        raise UsageError("A run and its replay took different measurements.")
    return list(zip(one, other, strict=True))


def _shifts(a: Step, b: Step) -> list[Shift]:
    moved = (a.behind - b.behind).ravel().tolist()  # plain integers: no square overflows
    match a.event:
        case GaussianEvent():
            length = math.sqrt(sum(m * m for m in moved))
            cells = sum(m != 0 for m in moved)
            return [
                Shift(a.label, "L2", length / a.units, a.event.l2 / a.units),
                Shift(a.label, "cells", cells, a.event.touched),
            ]
        case LaplaceEvent():
            total = sum(abs(m) for m in moved)
            return [Shift(a.label, "L1", total / a.units, a.event.l1 / a.units)]
        case BoundedRangeEvent():
            apart = max(moved) - min(moved)
            return [Shift(a.label, "range", apart / a.units, a.event.range)]
        case PureEvent():  # permute-and-flip
            apart = max(moved) - min(moved)
            return [Shift(a.label, "range", apart / a.units, a.event.epsilon)]
        case ConcentratedEvent():  # choices in rows: the Euclidean norm of all rows' ranges
            rows = (a.behind - b.behind).tolist()
            length = math.sqrt(sum((max(row) - min(row)) ** 2 for row in rows))
            return [Shift(a.label, "ranges", length / a.units, math.sqrt(8 * a.event.rho))]
        case MetricEvent():  # every location at its own strength, against all at the largest move
            metres = great_circle(*(a.behind / _FINE).T.copy(), *(b.behind / _FINE).T.copy())
            lost = a.units * math.fsum(metres.tolist())
            return [Shift(a.label, "loss", lost, a.event.epsilon_per_metre * float(metres.max()))]
    raise UsageError("Only noise on arrays and choices have a transcript.")


def joint_share(one: Sequence[Step], other: Sequence[Step]) -> float:
    """The part of the whole loss that the shifts of all measurements together use up.

    In rho: each measurement's charge times the squared share of its sensitivity.
    """
    charged = {step.label: float(event_rho(step.event)) for step in one}
    used = math.fsum(
        charged[shift.label] * (shift.moved / shift.allowed) ** 2
        for shift in shifts(one, other)
        if shift.norm != "cells"
    )
    return used / math.fsum(charged.values())


def _log_ratio(a: Step, b: Step) -> float:
    first, second, answer = (v.ravel().astype(np.float64) for v in (a.behind, b.behind, a.answer))
    match a.event:
        case GaussianEvent():
            away = (answer - first) + (answer - second)
            return float((first - second) @ away) / (2 * float(a.event.sigma2))
        case LaplaceEvent():
            nearer = np.abs(answer - second) - np.abs(answer - first)
            return float(nearer.sum()) / float(a.event.scale)
        case BoundedRangeEvent():
            chosen = int(a.answer[0])
            laws = (_log_choice(v / a.units)[chosen] for v in (first, second))
            return float(next(laws) - next(laws))
        case ConcentratedEvent():
            return math.fsum(
                float(_log_choice(one / a.units)[k] - _log_choice(two / a.units)[k])
                for one, two, k in zip(a.behind, b.behind, a.answer.tolist(), strict=True)
            )
    raise UsageError("Only noise on arrays and choices have a transcript.")


def _log_choice(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    least = costs.min()
    result: NDArray[np.float64] = (least - costs) - np.log(np.exp(least - costs).sum())
    return result
