"""`grouping`: grouping and smoothing (Kellaris & Papadopoulos 2013), a baseline.

A rough guide is measured first: one random visit of each user, with noise. Cells (place and
slot) are put in the guide's order and cut into groups of w; each group's sum is measured and
shared evenly by its cells. Averaging divides the noise by w and costs the differences inside a
group, which the guide keeps small. No intervals: how far cells of a group differ was not measured.

Claim: pure epsilon-DP for adding or removing one user's whole record, epsilon being the sum of
the two measurements; delta is not used. Sensitivity: the guide moves by one in one cell. A
user's bounded counts move by at most l1 (l, or C sqrt(slots) for weights) over all cells, and
groups are a partition of cells, so all group sums together move by at most l1, too. The
order of the cells and w come from noisy numbers and public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.density.common import (
    bounded_counts,
    flag,
    no_others,
    number,
    released,
    rounded,
    user_period,
    whole,
)
from sfumato.density.scheme import (
    Declaration,
    Density,
    Margin,
    Plan,
    PlannedMeasurement,
    PublicFacts,
)
from sfumato.model import rounding
from sfumato.model.counts import Counts, SampleBound
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.calibration import laplace_scale
from sfumato.privacy.events import LaplaceEvent
from sfumato.privacy.exact import exact, rounded_up
from sfumato.privacy.mechanisms.additive import laplace_variance
from sfumato.privacy.wall import Wall

GUIDE, GROUPS = "guide", "groups"
WORDS = {
    "guide_share": "share of epsilon for the guide",
    "group": "cells in a group; 0 takes as many as make the noise of a mean one count",
    "clip": "true or false",
}
NO_INTERVALS = (
    "No interval is stated: the places and slots of a group share one number, and how far each of "
    "them is from it was not measured, nor what the limit on each person's share left out."
)


@dataclass(frozen=True, slots=True)
class _Settings:
    guide: LaplaceEvent
    groups: LaplaceEvent
    group: int
    clip: bool


class Grouping:
    """The recipe. Its parameters are those of `WORDS`."""

    declares = Declaration(
        WORDS,
        margins={GUIDE: Margin.BOTH},
        other_values={
            "guide_share": {"guide_share": 0.6},
            "group": {"group": 5},
            "clip": {"clip": False},
        },
        no_posterior="Counts of a group share one mean, and how far each of them is from it was "
        "not measured, nor what the limit on each person's share left out.",
    )

    @property
    def name(self) -> str:
        return "grouping"

    def plan(self, facts: PublicFacts) -> Plan:
        user_period(self.name, facts)
        settings = _settings(facts)
        units = facts.bound.units_per_count
        rough = math.sqrt(laplace_variance(settings.guide.scale))
        sd = math.sqrt(laplace_variance(settings.groups.scale)) / units
        cells = math.ceil(facts.cells / settings.group)
        lines = (
            f"{facts.cells} numbers are sorted by a rough count of one visit a user (noise "
            f"{rough:.3g}) and averaged in {cells} groups of {settings.group}, whose sums get "
            f"discrete Laplace noise of standard deviation {sd:.3g} {facts.counting}.",
            f"It costs epsilon {rounding.rounded_up(facts.epsilon, 4)} outright; delta is not "
            f"used.",
        )
        planned = (
            PlannedMeasurement(GUIDE, settings.guide, facts.cells, rough),
            PlannedMeasurement(GROUPS, settings.groups, cells, sd),
        )
        return Plan(self.name, planned, sd / settings.group, lines)

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        settings = _settings(facts)
        guide = wall.laplace(
            source.sampled(SampleBound(1), wall.sampling_key(GUIDE)),
            scale=settings.guide.scale,
            label=GUIDE,
        )
        label = groups_of(guide.values, settings.group)
        sums = wall.laplace(
            group_sums(bounded_counts(source, wall, facts, GROUPS), label),
            scale=settings.groups.scale,
            label=GROUPS,
        )
        size = np.bincount(label)
        shape = (facts.places, facts.grid.slots)
        means = (sums.estimate() / size)[label].reshape(shape)
        ids, values = released(facts, means)
        if settings.clip:
            values = np.maximum(values, 0.0)
        (values,) = rounded(values)
        return Density(ids, values, None, None, None, (guide, sums), (NO_INTERVALS,))


def groups_of(guide: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Group of every cell (in row order): `size` cells that follow each other in the guide.

    Cells with the same rough count stay in row order, so that neighbours in time share a group.
    The last group takes what is left over.
    """
    order = np.argsort(guide.ravel(), kind="stable")
    label = np.empty(order.size, dtype=np.int64)
    count = max(order.size // size, 1)
    label[order] = np.minimum(np.arange(order.size) // size, count - 1)
    return label


def group_sums(box: Private[Counts], label: NDArray[np.int64]) -> Private[Counts]:
    """Sums of the cells of each group, exact; L1 is that of the cells, and bounds L2."""

    def added(counts: Counts) -> Counts:
        sums = np.zeros(int(label.max()) + 1, dtype=np.int64)
        np.add.at(sums, label, counts.values.ravel())
        return replace(counts, values=sums, l2=counts.l1, what="sums of groups of cells")

    return box.map(added, "sums of groups of cells")


def _settings(facts: PublicFacts) -> _Settings:
    no_others("grouping", facts, WORDS)
    share = exact(number(facts, "guide_share", 0.2, 0.01, 0.99))
    given = whole(facts, "group", 0, 0, 1 << 30)
    epsilon = exact(facts.epsilon)
    l1 = rounded_up(facts.bound.l1(facts.grid.slots))
    groups = LaplaceEvent(l1, laplace_scale(l1, epsilon * (1 - share)))
    sd = math.sqrt(laplace_variance(groups.scale)) / facts.bound.units_per_count
    size = given or max(1, min(math.ceil(sd), facts.cells))
    return _Settings(
        guide=LaplaceEvent(1.0, laplace_scale(1.0, epsilon * share)),
        groups=groups,
        group=size,
        clip=flag(facts, "clip", True),
    )


scheme = Grouping()
