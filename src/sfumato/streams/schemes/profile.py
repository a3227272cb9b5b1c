"""`profile`: the rhythm of one finished window, from a few mean histograms.

`mean` measures one histogram of a finished window, the mean over its slots, at the price of a
single snapshot. The same price buys the mean over any group of slots: so the hours of the day
are divided into k groups (k follows from public facts), the mean of each is measured, and
every slot is published as the posterior mean of its group given all groups (empirical Bayes:
the groups' covariance over the busiest cells is what their second moments leave beyond the
noise, and cells are shrunk towards their surroundings). Where the groups do not differ by
more than noise they are pooled by that; with k = 1 it is `mean`, shrunk. With `counts` the medians
stand beside counts that add up to the window's totals (`rhythm.sums`).

Claim: one unit adds at most n to the sum over n slots of a group (L1, and L2 if all fall into
one cell), so 1 to its mean: k groups cost what k snapshots do. Laplace noise of scale
k/epsilon on a mean, or Gaussian noise of variance k/(2 rho), whichever is smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import UnitKind
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.streams.facts import StreamFacts, begins_window, window_end
from sfumato.streams.parameters import NOISE, Declaration, Kind, Need, Setting, States
from sfumato.streams.scheme import (
    Meter,
    Noise,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)
from sfumato.streams.schemes.rhythm.levels import busiest, cell_scale, median_counts, spatial_prior
from sfumato.streams.schemes.rhythm.people import (
    PLACED,
    PLACING,
    fit_people,
    is_thin,
    people_correction,
)
from sfumato.streams.schemes.rhythm.shrinkage import level_correction
from sfumato.streams.schemes.rhythm.sums import ADDS_UP, COUNTS, COVERAGE, added_up
from sfumato.streams.schemes.smoother.posterior import Seen, timeline, window_totals

_PER_SIGNAL = 0.125
"""Groups for every expected person a cell at epsilon 1."""
_ENOUGH = 4.0
"""Expected people a cell, times epsilon, from which on two groups stand out."""


def groups(facts: StreamFacts) -> int:
    """How many groups, from public facts: hourly detail must stand out of noise k / epsilon."""
    people = facts.expected_users or 4 * facts.cells
    signal = facts.epsilon * people / facts.cells
    wanted = max(round(_PER_SIGNAL * signal), 2 if signal >= _ENOUGH else 1)
    return min(wanted, facts.calendar.longest_day, facts.window)


@dataclass(frozen=True, slots=True)
class Profile:
    """`parts` of the day; None lets public facts decide. `whole` rounds to whole people.

    With `counts` numbers that add up stand beside medians.
    """

    parts: int | None = None
    whole: bool = True
    noise: NoiseKind = NoiseKind.BEST
    name: str = "profile"
    finished: bool = True
    counts: bool = False
    placed: float = PLACED
    declares: ClassVar = Declaration(
        "The default for a finished history of few people and of few windows.",
        {
            "parts": Setting(
                *("parts", Kind.WHOLE, "parts of the day whose means are measured", 2, 1, 10_000),
                unset="from epsilon and the expected people a cell",
            ),
            "whole": Setting("whole", Kind.FLAG, "medians in whole people, not means", False),
            "counts": COUNTS,
            "placed": PLACING,
            **NOISE,
        },
        reads=("begins",),
        needs=(Need.APART,),
        states=(States.MEDIAN, States.SUMS),
        judged=True,
    )

    @property
    def adds_up(self) -> bool:
        return self.counts and self.whole

    def most(self, facts: StreamFacts) -> int:
        if facts.unit.kind is UnitKind.W_EVENT:
            raise UsageError(
                f"{self.name} measures windows that lie side by side; a sliding window meets two "
                "of them, and fills parts of both.",
                remedy="Use the unit user-period or user-day, or the scheme rhythm or mean.",
            )
        return min(self.parts or groups(facts), facts.calendar.longest_day, facts.window)

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most = self.most(facts)
        noise = noise_of(facts, self.noise, most)
        line = (
            f"The means of {most} parts of the day over a finished window, with {noise.kind} "
            f"noise, sd {noise.sd:.3g}; shrunk as far as they do not stand out."
        )
        sums = COVERAGE if self.adds_up and facts.expected_users is not None else 0.0
        account = noise.account("part", most, facts.l1, facts.l2)
        lines = (line, ADDS_UP) if self.adds_up else (line,)
        return StreamPlan(self.name, (account,), lines, median=self.adds_up, sums=sums)

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Profile(facts, self)


class _Profile(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Profile) -> None:
        super().__init__(facts)
        self._k = scheme.most(facts)
        self._noise = noise_of(facts, scheme.noise, self._k)
        self._whole, self._placed = scheme.whole, scheme.placed
        self._made = np.zeros((self._k, facts.cells))
        self._before = -1
        self._adds_up = scheme.adds_up
        self._first, self._mean, self._spread = 0, np.zeros(facts.cells), 0.0
        self._totals = np.zeros((0, 3))
        """Each slot's total and its ends in the window that begins at `_first`."""

    def _parts(self, first: int, stop: int) -> NDArray[np.int64]:
        """Which part of the day each slot is in; -1 before the feed begins."""
        calendar = self.facts.calendar
        parts = calendar.phase[first:stop] * self._k // calendar.longest_day
        return np.where(np.arange(first, stop) < self.facts.begins, -1, parts)

    def prepare(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        parts = self._parts(first, window_end(self.facts, first))
        seen = [part for part in range(self._k) if (parts == part).any()]
        rows = [self._measured(whole, parts == part, f"part@{first}/{part}", wall) for part in seen]
        laplace = self._noise.kind is NoiseKind.LAPLACE
        # Of the mean over a part: that of the sum, which is on whole people, in its units.
        variance = float(np.mean([self._of(int((parts == p).sum()))[1] for p in seen]))
        estimate, spread, sd = shrunk(
            np.array(rows), variance, self.facts, laplace, self._whole, self._placed
        )
        self._made = self._made.copy()  # rows of the last window were handed out
        self._made[seen] = median_counts(estimate, spread) if self._whole else estimate
        self.last_sd = sd
        self._before = -1
        if self._adds_up:
            self._add_up(np.array(rows), [parts == part for part in seen], variance, first)

    def _add_up(
        self, rows: Values, inside: list[NDArray[np.bool_]], variance: float, first: int
    ) -> None:
        """The totals of all slots of the window, from the sums of its parts."""
        facts = self.facts
        times, node = timeline(facts, first, first + inside[0].size)
        size = times.at.size
        shares = np.array([np.bincount(node[part], minlength=size) / part.sum() for part in inside])
        people = facts.expected_users
        seen = Seen(times, shares, rows, np.full(len(rows), variance))
        found = window_totals(seen, math.inf if people is None else float(people))
        self._totals = np.stack(found, axis=1)[node]
        self._totals[: max(facts.begins - first, 0)] = 0.0
        self._first, self._mean, self._spread = first, rows.mean(axis=0), variance / len(rows)

    def _measured(
        self, whole: Private[Counts], chosen: NDArray[np.bool_], label: str, wall: Wall
    ) -> Values:
        """The noisy mean over the chosen slots of the window."""
        slots = int(chosen.sum())
        l1, l2 = float(self.facts.l1 * slots), self.facts.l2 * slots

        def added(counts: Counts) -> Counts:
            values = np.ascontiguousarray(counts.values[:, chosen].sum(axis=1))
            return replace(counts, values=values, l1=l1, l2=l2, what="sum over part of a window")

        noise, _ = self._of(slots)
        summed = whole.map(added, "sum over part of a window")
        found = noise.measure(wall, summed, label, touched=2 * slots)
        self.tainted = self.tainted or found.tainted
        return found.estimate() / slots

    def _of(self, slots: int) -> tuple[Noise, float]:
        """The noise in the sum over so many slots, and its variance in their mean."""
        power = 1 if self._noise.kind is NoiseKind.LAPLACE else 2
        noise = Noise(self._noise.kind, self._noise.parameter * slots**power)
        return noise, noise.variance / slots**2

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del box, wall, meter
        part = int(self._parts(slot, slot + 1)[0])
        fed = part >= 0
        fresh = fed and (part != self._before or begins_window(self.facts, slot))
        self._before = part
        made = self._made[part] if fed else np.zeros(self.facts.cells)
        found = Publication(made, fresh, self.last_sd, self.tainted)
        if not self._adds_up:
            return found
        total, low, high = self._totals[slot - self._first].tolist()
        counts = added_up(found.values, total, self._mean, self._spread, self.facts)
        stated = None
        if self.facts.expected_users is not None:
            stated = Estimate(float(counts.sum()), low, high, COVERAGE)
        return replace(found, values=counts, median=found.values, total=stated)

    def state(self) -> State:
        more: dict[str, Any] = {"made": self._made, "before": self._before}
        if self._adds_up:
            more |= {"totals": self._totals, "mean": self._mean}
            more |= {"first": self._first, "spread": self._spread}
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._made, self._before = state["made"], int(state["before"])
        if self._adds_up:
            self._totals, self._mean = state["totals"], state["mean"]
            self._first, self._spread = int(state["first"]), float(state["spread"])


def shrunk(
    seen: Values, noise: float, facts: StreamFacts, laplace: bool, whole: bool, placed: float
) -> tuple[Values, Values, float]:
    """Levels of parts (part x cell) and how they may vary, given noisy part means of that variance.

    The last number is the standard deviation of one value in the mean over all.
    """
    count = seen.shape[0]
    mean = seen.mean(axis=0)
    prior = spatial_prior(mean, facts.grid_columns, noise / count, facts.expected_users)
    level = cell_scale(mean, prior, noise / count)
    busy = busiest(level)
    apart = (seen[:, busy] - prior[busy]) / np.sqrt(level[busy])
    moments = apart @ apart.T / busy.size
    values, vectors = np.linalg.eigh(moments)
    # What second moments hold beyond noise; nothing stands out where they hold less.
    signal = np.maximum(values - noise * float((1 / level[busy]).mean()), 0.0)
    turned = vectors.T @ (seen - prior)
    weights = signal[:, None] / np.maximum(signal[:, None] + noise / level, 1e-12)
    variance = np.square(vectors) @ (signal[:, None] * (1 - weights)) * level
    estimate = np.maximum(vectors @ (weights * turned) + prior, 0.0)
    base = estimate.mean(axis=0)
    if is_thin(facts):
        people = fit_people(seen, prior, noise, laplace, facts.expected_users)
        fixed = people_correction(people, mean, base, whole, placed)
    else:
        fixed = level_correction(mean, prior, base, noise / count, count, laplace, whole)
    of_level = np.square(vectors.mean(axis=0)) @ (signal[:, None] * (1 - weights)) * level
    found, left = fixed.apply(estimate, np.asarray(variance, dtype=np.float64), of_level)
    return found, left, fixed.sd(left)
