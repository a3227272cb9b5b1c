"""Counts that add up on thin maps: the city's total, over medians and a map of neighbourhoods.

Medians of nearly empty cells are zeros, so their sums are far below the truth; means of such cells
rank them by who stays there (docs/attacks.md). What is published as `count` is neither:

1. *The total* of a slot is known from all cells together. Live it is `comb`'s Gaussian process on
   the snapshots' sums (`LiveTotal`), with an interval that is widened by how well it foretold them.
2. *Medians* take their people from it: they are published anyway.
3. *The rest* is spread over neighbourhoods that hold twenty publicly expected people and more
   (`added_up`): a blur of the noisy mean, drawn to the city's mean as far as its noise asks for.

So a cell's count says no more of the cell itself than its median does, and sums of slots are right.

Unit, neighbours, sensitivity and cost are those of the snapshots: computed from noisy numbers and
public facts, post-processing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from sfumato.published.estimate import Estimate
from sfumato.streams.facts import StreamFacts
from sfumato.streams.parameters import Kind, Setting
from sfumato.streams.scheme import State, Values
from sfumato.streams.schemes.comb.cells import Calibration
from sfumato.streams.schemes.comb.profiles import HOLIDAY, CityProfile, Times, day_factor

COUNTS = Setting(
    *("counts", Kind.FLAG, "counts that add up beside the medians, and intervals of sums", False)
)
COVERAGE = 0.9
ADDS_UP = (
    "Counts add up to what is estimated of the slot as a whole: people whom medians do not hold "
    "are spread over neighbourhoods."
)
_TOGETHER = 20.0
"""Expected people in a neighbourhood. With 100 the count tells as much of where people are, and as
little of single ones (docs/attacks.md, "Counts on thin maps")."""
_WIDEST = 6.0
"""Cells, of the widest blur: beyond it lies another town."""
_FLOOR = 0.05
"""Share of the mean that no cell's part of the rest is below."""
_LATER, _VARIES = 0.2, 0.3
"""Chance that a feed begins after its first snapshots, and the share by which totals of slots vary
beside. Where noise is too large to tell at once (`scheme._NOBODY`), later days tell."""
_TOTALS = 101
"""Totals between nobody and everybody that a feed which has begun may have, equally likely."""


class LiveTotal:
    """The total of every slot so far, from the noisy sums of snapshots."""

    def __init__(self, facts: StreamFacts, memory: int) -> None:
        self._facts, self._memory = facts, memory
        self._people = float(facts.expected_users or math.inf)
        self._rows = np.zeros((0, 6))
        """Day, phase, free, factor, sum, variance of its noise."""
        self._errors = Calibration()
        self._city: CityProfile | None = None

    def _now(self, slot: int) -> Times:
        calendar = self._facts.calendar
        day, phase = int(calendar.day[slot]), calendar.phase[slot] / calendar.longest_day
        factor = HOLIDAY if day in calendar.holidays else 1.0
        if len(self._rows) and int(self._rows[-1, 0] + 1e-9) == day:
            factor = float(self._rows[-1, 3])
        return Times(
            np.array([day + phase]),
            np.array([phase]),
            calendar.free[slot : slot + 1],
            np.array([factor]),
        )

    def learn(self, slot: int, total: float, noise: float) -> NDArray[np.bool_]:
        """Take up a snapshot's sum, with the variance of its noise.

        Returns which of all snapshots, this one last, are likelier of people than of no feed yet;
        the others are forgotten.
        """
        now = self._now(slot)
        if self._city is not None:
            mean, spread = (float(part[0]) for part in self._city.total(now))
            self._errors.learn_total(total - mean, spread + noise)
        row = [now.at[0], now.phase[0], float(now.free[0]), now.factor[0], total, noise]
        self._rows = np.concatenate((self._rows, np.array([row])))[-self._memory :]
        begun = self._nobody() <= 0.5
        self._rows = self._rows[begun]
        holiday = int(now.day[0]) in self._facts.calendar.holidays
        times, self._city = day_factor(*self._seen(), self._people, holiday)
        self._rows[:, 3] = times.factor
        return begun

    def _seen(self) -> tuple[Times, Values, Values]:
        at, phase, free, factor, sums, noise = self._rows.T
        # A sum that may be of no feed yet counts the less for it.
        return Times(at, phase, free > 0, factor), sums, noise / (1 - self._nobody())

    def _nobody(self) -> Values:
        """How likely each of the first day's sums is of no feed yet, by the days after."""
        sums, noise = self._rows[:, 4], self._rows[:, 5]
        first = np.floor(self._rows[:, 0] + 1e-9) == int(self._facts.calendar.day[0])
        if self._facts.begins or not first.any() or first.all():
            return np.zeros(len(sums))
        after = max(float(sums[~first].mean()), 0.0)
        spread = noise + float(noise[~first].mean()) / int((~first).sum()) + (_VARIES * after) ** 2
        nobody = _LATER * np.exp(-0.5 * np.square(sums) / noise) / np.sqrt(noise)
        people = (1 - _LATER) * np.exp(-0.5 * np.square(sums - after) / spread) / np.sqrt(spread)
        chance = nobody / np.maximum(nobody + people, 1e-300)
        return np.where(first, np.minimum(chance, 0.98), 0.0)

    def at(self, slot: int) -> Estimate:
        """The total and its 90 % interval; nobody, up to everybody, before the first snapshot."""
        if self._city is None:
            return Estimate(0.0, 0.0, self._people, COVERAGE)
        now = self._now(slot)
        low, high = self._city.interval(now, self._errors.wider_total)
        return Estimate(
            float(self._city.total(now)[0][0]), low, max(high, self._overlooked()), COVERAGE
        )

    def _overlooked(self) -> float:
        """As many as may come when the feed begins, while all sums are of the first day: with the
        chance that it has not begun, any number up to everybody."""
        sums, noise = self._rows[:, 4], self._rows[:, 5]
        later = self._rows[-1, 0] >= int(self._facts.calendar.day[0]) + 1
        if self._facts.begins or later or not math.isfinite(self._people):
            return 0.0
        nobody = math.log(_LATER) - 0.5 * float((np.square(sums) / noise).sum())
        totals = np.linspace(0.0, self._people, _TOTALS)[:, None]
        logs = -0.5 * (np.square(sums - totals) / noise).sum(axis=1)
        some = math.log(1 - _LATER) + float(logs.max() + np.log(np.exp(logs - logs.max()).mean()))
        chance = 1 / (1 + math.exp(min(some - nobody, 50.0)))
        return self._people * max(1 - (1 - COVERAGE) / 2 / chance, 0.0)

    def state(self) -> State:
        return {"sums": self._rows, "sum_errors": self._errors.totals}

    def restore(self, state: Any) -> None:
        self._rows = state["sums"]
        self._errors = Calibration(totals=state["sum_errors"])
        if len(self._rows):
            self._city = CityProfile.of(*self._seen(), self._people)


def added_up(
    median: Values, total: float, mean: Values, variance: float, facts: StreamFacts
) -> Values:
    """Counts of that total: medians, and the rest over neighbourhoods.

    Args:
        median: Every cell's median.
        total: What they are to add up to.
        mean: Noisy means of the cells.
        variance: That of the noise in one of them.
        facts: How many people are expected, and whether the cells are a grid.
    """
    rest = total - float(median.sum())
    if rest <= 0:
        return np.asarray(median * (max(total, 0.0) / max(float(median.sum()), 1e-9)))
    columns = facts.grid_columns
    if columns is None:
        return np.asarray(median + rest / median.size)
    expected = (facts.expected_users or facts.cells) / facts.cells
    width = min(math.sqrt(_TOGETHER / expected / (4 * math.pi)), _WIDEST)

    def blurred(values: Values) -> Values:
        grid = values.reshape(-1, columns)
        return np.asarray(gaussian_filter(grid, width, mode="nearest", truncate=3.0)).ravel()

    around = blurred(mean)
    middle = max(float(around.mean()), 1e-9)
    noise = variance / (4 * math.pi * width**2)
    trust = max(0.0, 1 - noise / max(float(around.var()), 1e-12))
    wanted = middle + trust * (around - middle) - blurred(median)
    share = np.maximum(wanted, _FLOOR * middle)
    return np.asarray(median + share * (rest / float(share.sum())))
